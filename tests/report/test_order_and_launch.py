"""What comes first, what is said once, and what is not shown twice."""

import re
from pathlib import Path

import pytest

from gpudoctor.diagnostic import Finding, Fix, Location, Related, Safety, Severity, by_place, in_order
from gpudoctor.record import replace
from gpudoctor.registry import find_rules
from gpudoctor.report import concise, full
from gpudoctor.report.report import Report
from gpudoctor.report.story import story
from gpudoctor.report.text import Style
from tests.support.fixture_marks import FOLDERS

FIXTURES = Path(__file__).resolve().parent.parent.parent / "fixtures" / "rules"


def finding(
    code: str, line: int, severity: Severity = Severity.ERROR, path: str = "train.py", world: str = "torchrun"
) -> Finding:
    return Finding(code, "a-rule", severity, "It happens.", Location(path, line, 1), "Mend it.", world=world)


def no_lines(at: Location) -> list[str]:
    return []


def show(*findings: Finding) -> str:
    return "\n".join(full.told(findings, lambda at: ["one", "two", "three", "four"], Style(width=200)))


def test_what_stops_the_training_comes_first_within_a_file() -> None:
    found = [
        finding("GPU801", 1, Severity.PERF),
        finding("GPU302", 2, Severity.WARNING),
        finding("GPU301", 3),
        finding("GPU501", 4),
        finding("GPU301", 1, path="a.py"),
    ]
    ordered = in_order(found, {"GPU501"})
    assert [each.code for each in ordered] == ["GPU301", "GPU501", "GPU301", "GPU302", "GPU801"]
    assert [each.location.line for each in by_place(ordered)] == [1, 1, 2, 3, 4]


@pytest.mark.parametrize("card", find_rules().cards, ids=lambda card: card.code)
def test_a_rule_whose_mistake_was_seen_to_crash_or_hang_says_so(card: object) -> None:
    code = card.code  # type: ignore[attr-defined]
    heads = [path.read_text(encoding="utf-8") for path in (FIXTURES / FOLDERS[code]).glob("bad_*.py")]
    if any(re.match(r"# proof: (crash|hang)", text) for text in heads):
        assert card.stops  # type: ignore[attr-defined]


def test_how_a_program_is_launched_is_said_once() -> None:
    text = show(finding("GPU301", 1), finding("GPU501", 2), finding("GPU501", 2, path="z.py"))
    assert text.count("torchrun") == 1
    assert text.endswith("All of this happens when torchrun starts one process per GPU.\n")


def test_a_single_finding_says_it_itself() -> None:
    assert "\n  This happens when torchrun starts" in show(finding("GPU301", 1))


def test_exceptions_are_named() -> None:
    text = show(finding("GPU301", 1), finding("GPU501", 2), finding("GPU710", 3, world=""))
    assert text.endswith("All but GPU710 happen when torchrun starts one process per GPU.\n")
    text = show(*(finding("GPU301", line) for line in (1, 2)), *(finding(f"GPU71{n}", 3, world="") for n in range(4)))
    assert text.endswith("GPU301 happens when torchrun starts one process per GPU.\n")


def test_programs_that_differ_say_it_each() -> None:
    a, b = (finding("GPU301", line) for line in (1, 2))
    c, d = (finding("GPU301", line, path="z.py", world="spawn") for line in (1, 2))
    text = show(a, b, c, d)
    assert "train.py: all of this happens when torchrun" in text
    assert "z.py: all of this happens when the program itself starts" in text
    text = show(a, replace(b, world="spawn"))
    assert text.count("This happens when") == 2
    # The same rule, once in all worlds and once in one: a sentence about its code would be wrong.
    assert show(a, b, replace(b, world="")).count("This happens when") == 2


def test_who_starts_the_processes() -> None:
    accelerated = replace(finding("GPU601", 1), launcher="accelerate")
    assert story(accelerated)[1] == "This happens when `accelerate launch` starts one process per GPU."
    assert "when Lightning starts" in story(replace(accelerated, launcher="lightning"))[1]
    assert "when torchrun starts" in story(replace(accelerated, launcher="transformers"))[1]
    assert "when `mpiexec` starts" in story(replace(accelerated, launcher="mpi"))[1]
    given = story(replace(accelerated, launcher="options"))
    assert given[1] == "This happens when one process per GPU is started with its rank as an option."


def test_a_line_is_shown_once() -> None:
    related = (
        Related("shown above", Location("train.py", 2, 3)),
        Related("made here", Location("train.py", 4, 1)),
        Related("made here", Location("train.py", 4, 9)),
        Related("kept here", Location("train.py", 4, 9)),
    )
    text = show(replace(finding("GPU301", 2), related=related))
    assert text.count("| two") == 1
    assert text.count("| four") == 1
    assert text.count("made here") == 1
    assert "line 2: shown above" in text
    assert "line 4: kept here" in text


def test_all_formats_for_people_begin_alike_and_mark_what_can_be_fixed() -> None:
    fixed = replace(finding("GPU301", 2), fix=Fix(Safety.SAFE, "Mend it", ()))
    (line,) = concise.render(Report((fixed,), no_lines), Style())
    assert line == "train.py:2:1: error: GPU301 [*] a-rule: It happens."
    assert show(fixed).splitlines()[0] == "train.py:2:1: error: GPU301 [*] a-rule"
    (line,) = concise.render(Report((replace(fixed, fix=Fix(Safety.UNSAFE, "Mend it", ())),), no_lines), Style())
    assert " GPU301 [!] a-rule: " in line
