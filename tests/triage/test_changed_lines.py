"""Which lines count as changed: as few as git would say in ordinary texts, and never too few."""

import random
import time

import pytest

from gpudoctor.triage.changed_lines import changed_lines


def _text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        pytest.param("abc", "abc", [], id="same"),
        pytest.param("abc", "axc", [2], id="replaced"),
        pytest.param("abc", "aXYbc", [2, 3], id="put in"),
        pytest.param("abc", "ac", [1, 2], id="taken away"),
        pytest.param("abc", "bc", [0, 1], id="taken from the top"),
        pytest.param("aabbaa", "aabaa", [3, 4], id="one of two"),
        pytest.param("", "ab", [1, 2], id="new"),
    ],
)
def test_short_texts(old: str, new: str, changed: list[int]) -> None:
    found = [line for lines in changed_lines(_text(list(old)), _text(list(new))) for line in lines]
    assert found == changed


def test_few_lines_of_a_long_text() -> None:
    old = [f"line {number}" if number % 3 else "" for number in range(20_000)]
    new = list(old)
    places = [50, 7_000, 19_000]
    for place in places:
        new[place] = f"changed {place}"
    new[10_000:10_000] = [f"new {number}" for number in range(500)]
    found = {line for lines in changed_lines(_text(old), _text(new)) for line in lines}
    assert found == {51, 7_001, *range(10_001, 10_501), 19_501}


@pytest.mark.parametrize("seed", range(50))
def test_what_is_not_changed_stands_in_the_old_text_in_this_order(seed: int) -> None:
    chance = random.Random(seed)
    size = chance.choice([5, 50, 400])
    old, new = (chance.choices("abcdefghijklmnopqrstuvwxyz"[: chance.choice([2, 26])], k=size) for _ in range(2))
    changed = {line for lines in changed_lines(_text(old), _text(new)) for line in lines}
    rest = iter(old)
    assert all(line in rest for number, line in enumerate(new, 1) if number not in changed)


@pytest.mark.parametrize("lines", [["a", "b"], ["a", "b", "c", "c"], [""]])
def test_texts_that_repeat_themselves_take_no_time(lines: list[str]) -> None:
    chance = random.Random(1)
    old, new = (_text(chance.choices(lines, k=400_000)) for _ in range(2))
    began = time.process_time()
    changed_lines(old, new)
    assert time.process_time() - began < 10
