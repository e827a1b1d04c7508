"""What rules about frameworks make of what was seen of a run, on recordings of runs that were never made.

The instruments that see it are proven on the libraries themselves (`pytest -m proof`), where these are installed.
"""

from typing import Any

import pytest

from gpudoctor.diagnostic import Location
from gpudoctor.record import replace
from gpudoctor.registry import find_rules
from gpudoctor.run.internal_errors import Faults
from gpudoctor.run.observe import judged
from gpudoctor.run.recording import Process, RecordedOptimizer, Recording, Step
from gpudoctor.run.recording.framework_facts import (
    DividedAgain,
    Drawn,
    RecordedAccelerator,
    RecordedEngine,
    RecordedSchedule,
    SharedAgain,
)

HERE = Location("train.py", 7)
FOUR = RecordedAccelerator(steps=4, processes=2, plain=True, models=1, place=HERE)
SCHEDULE = RecordedSchedule(0, "LinearLR", processes=2, calls=8, steps=16, over=4, made=HERE, place=HERE)
ENGINE = RecordedEngine(0, steps=4, counts=True, backwards=16, calls=4, place=HERE)
SGD = RecordedOptimizer(0, "SGD", 2, {}, False, "cpu", "", 0, (), HERE, HERE)
SAME = Drawn("SubsetRandomSampler", "abc", 32, HERE)


def steps(**counts: int) -> tuple[Step, ...]:
    return tuple(Step(number, 0, 0.0, 0.1, {}, counts, None, 0.0) for number in range(1, 5))


def told(code: str, *facts: dict[str, Any], suspected: bool = False) -> bool:
    """The rule finds something in a run whose ranks have these facts; what one has, the other has too."""
    every = facts if len(facts) > 1 else facts * 2
    ranks = tuple(
        replace(Process(rank, 1, rank, 2, rank, "node", "train.py", "2.13"), over=True, **each)
        for rank, each in enumerate(every)
    )
    faults = Faults()
    recording = Recording(ranks, suspected=frozenset([code] if suspected else []))
    found = list(judged(recording, [card for card in find_rules().cards if card.code == code], faults))
    assert not faults.told
    assert all(each.location == HERE for each in found)
    return bool(found)


def of_steps(accelerator: RecordedAccelerator, **counts: int) -> dict[str, Any]:
    return {"accelerators": (accelerator,), "optimizers": (SGD,), "steps": steps(**counts)}


@pytest.mark.parametrize(
    ("code", "bad", "good"),
    [
        ("GPU901", {"shared_again": (SharedAgain("DistributedSampler", 2, 2, HERE, None),)}, {}),
        ("GPU902", of_steps(FOUR, backwards=1), of_steps(FOUR, backwards=1, accumulated=1)),
        ("GPU902", of_steps(FOUR, backwards=1), of_steps(FOUR, backwards=4)),
        ("GPU902", of_steps(FOUR, backwards=1), of_steps(replace(FOUR, steps=1), backwards=1)),
        ("GPU905", of_steps(FOUR, **{"held back": 1}), of_steps(FOUR, **{"held back": 3}, accumulated=1)),
        ("GPU907", {"schedules": (SCHEDULE,)}, {"schedules": (replace(SCHEDULE, over=0),)}),
        ("GPU907", {"schedules": (SCHEDULE,)}, {"schedules": (replace(SCHEDULE, over=8),)}),
        ("GPU907", {"schedules": (SCHEDULE,)}, {"schedules": (replace(SCHEDULE, steps=8),)}),
        ("GPU910", {"engines": (ENGINE,)}, {"engines": (replace(ENGINE, calls=16),)}),
        ("GPU910", {"engines": (ENGINE,)}, {"engines": (replace(ENGINE, counts=False),)}),
    ],
)
def test_a_mistake_and_what_comes_close(code: str, bad: dict[str, Any], good: dict[str, Any]) -> None:
    assert told(code, bad)
    assert not told(code, good)


def test_what_looks_alike_is_told_where_lint_suspects_it() -> None:
    divided = {"divided": (DividedAgain("accelerator", 4, HERE),)}
    assert told("GPU903", divided, suspected=True)
    assert not told("GPU903", divided)
    never = of_steps(replace(FOUR, steps=1), accumulated=1)
    assert told("GPU904", never, suspected=True)
    assert not told("GPU904", never)
    assert not told("GPU904", of_steps(FOUR, **{"held back": 3}, accumulated=1), suspected=True)


def test_ranks_that_draw_different_lists() -> None:
    assert told("GPU912", {"drawn": (SAME,)}, {"drawn": (replace(SAME, digest="xyz"),)})
    assert not told("GPU912", {"drawn": (SAME,)})
