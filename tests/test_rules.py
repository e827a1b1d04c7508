"""Each rule on its fixtures: every mark is answered by a finding, and nothing else of any rule is found.

A program is linted with all default rules and that of its folder, so that a fixture of one rule is a clean program
for all others.
"""

from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.coverage import Coverage
from gpudoctor.diagnostic import Finding
from gpudoctor.lint.entries import ask_rules
from gpudoctor.lint.program import Program
from gpudoctor.lint.source import launch_lines
from gpudoctor.registry import find_rules, load
from gpudoctor.rule import RuleCard
from tests.support import event_fields
from tests.support.fixture_marks import FOLDERS, STUB, Case, Mark, answers, cases, counted, expected_in, fine_in
from tests.support.linting import Seen, linted, places
from tests.support.wording import wrong_words

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
CASES = cases(FIXTURES)
RUN_ONLY = {card.code for card in find_rules().cards if card.run_only}
PROGRAMS = sorted(path.parent for path in (FIXTURES / "programs").glob("*/expected.txt"))

NOT_READ = {
    "GPU101/good_unread_library",
    "GPU104/good_perhaps_wrapped",
    "GPU104/good_unwrap",
    "GPU106/good_separate_helpers",
    "GPU120/good_adapters_in_the_layers",
    "GPU120/good_reptile",
    "GPU203/good_batch_objects",
    "GPU211/good_moved_where_asked",
    "GPU213/good_score_on_the_cpu",
    "GPU214/good_decorator_from_elsewhere",
    "GPU312/good_each_entry_reduced",
    "GPU401/good_made_by_a_module_that_is_not_here",
    "GPU110/good_built_anew",
    "GPU110/good_set_up_twice",
    "GPU401/good_world_size_to_unread_helper",
    "GPU403/good_address_from_outside",
    "GPU501/good_start_from_a_checkpointer",
    "GPU601/good_parts_of_a_package",
    "GPU601/good_rank_written_by_unread_code",
    "GPU606/good_saved_by_a_library",
    "GPU704/good_optimizer_of_many_ways",
    "GPU711/good_reduce",
    "GPU805/good_step_that_ends_in_an_error",
}
"""Good programs, with no framework in charge, of which lint says that something was not read or not followed."""


@pytest.fixture(autouse=True, scope="module")
def launch_lines_are_read_once() -> Iterator[None]:
    """How a program is started is looked for in its folder and in all above: for each fixture in the same files."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(launch_lines, "lines_in", cache(launch_lines.lines_in))
        yield


@pytest.fixture(autouse=True)
def events_hold_what_their_fields_say() -> Iterator[None]:
    """Rules ask no more of an event than what its annotations say."""
    with event_fields.events_hold_what_their_fields_say():
        yield


@pytest.fixture(autouse=True)
def unasked_rules_have_nothing_to_say(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is found is the same as if each rule were asked: those of whose `needs` or `looks_at` nothing happened, and
    those of several processes, are asked here."""
    coverage_of = ask_rules.coverage_of
    overlooked: list[str] = []

    def asked_all_the_same(program: Program, silenced: Any, unasked: list[RuleCard], quiet: Any) -> Coverage:
        coverage = coverage_of(program, silenced, unasked, quiet)
        alone = not program.world.several_processes
        left_out = [*unasked, *(card for card in quiet if card.looks_at or (alone and card.of_ranks))]
        overlooked.extend(
            f"{finding.code} {finding.location}" for card in left_out for finding in _asked(card, program)
        )
        return coverage

    monkeypatch.setattr(ask_rules, "coverage_of", asked_all_the_same)
    yield
    assert not overlooked, "the rule's `needs`, `looks_at` or `of_ranks` are too narrow"


def _asked(card: RuleCard, program: Program) -> list[Finding]:
    return list(load(card).in_code(program))


@pytest.mark.parametrize("case", [pytest.param(case, id=f"{case.code}/{case.name}") for case in CASES])
def test_fixture(case: Case) -> None:
    assert not [path for path in case.files if STUB in path.read_text("utf-8", "replace")], "write this program first"
    marks, fine = expected_in(case), fine_in(case)
    # What it says of another rule is asked of that rule, also where it only gives advice.
    said = linted(case.entry, folder=case.folder, extend=(case.code, *{mark.code for mark in (*marks, *fine)}))
    seen = said.seen
    if case.code in RUN_ONLY:
        assert case.code not in {mark.code for mark in marks}, "lint never reports what only a run can show"
    elif case.bad:
        assert case.code in {mark.code for mark in marks}, f"a bad program has a line marked `# {case.code}: ...`"
    else:
        assert case.code not in {mark.code for mark in marks}, f"a good program has no line marked `# {case.code}: ...`"
    assert not [words for each in seen for words in wrong_words(each, case)]
    missing, surprising = _compare(marks, counted(seen, case))
    assert (missing, surprising) == ([], []), _story(missing, surprising)
    on_fine = {(mark.path, mark.line, mark.code) for mark in fine} & {(s.path, s.line, s.code) for s in seen}
    assert not on_fine, f"marked as fine: {on_fine}"
    if not case.bad and case.entry.parent == case.folder and "framework" not in said.causes:
        name = f"{case.code}/{case.name}"
        told = [line for line in said.told if line.startswith(f"{case.entry.name}: ")]
        assert bool(told) == (name in NOT_READ), f"what is told of a good program that was followed: {told}"


@pytest.mark.parametrize("code", [card.code for card in find_rules().cards])
def test_rule_has_enough_fixtures(code: str) -> None:
    kinds = Counter("bad" if case.bad else "good" for case in CASES if case.code == code)
    assert kinds["bad"] >= 2, f"fixtures/rules/{FOLDERS[code]} needs two bad programs at least"
    assert kinds["good"] >= 3, f"fixtures/rules/{FOLDERS[code]} needs three good programs at least"


def test_fixtures_belong_to_rules() -> None:
    codes = {card.code for card in find_rules().cards}
    # Who runs a fixture has Python keep the prelude that it imports.
    files = (path for path in (FIXTURES / "rules").glob("*/**/*.*") if "__pycache__" not in path.parts)
    folders = {"/".join(path.relative_to(FIXTURES / "rules").parts[:2]) for path in files}
    assert folders <= set(FOLDERS.values()), "a folder of fixtures has the family and the name of a rule's file"
    named = {mark.code for case in CASES for mark in (*expected_in(case), *fine_in(case))}
    assert named <= codes, f"marks name rules that do not exist: {sorted(named - codes)}"


@pytest.mark.parametrize("folder", [pytest.param(path, id=path.name) for path in PROGRAMS])
def test_program(folder: Path) -> None:
    assert places(folder) == (folder / "expected.txt").read_text(encoding="utf-8").splitlines()


def _compare(marks: list[Mark], seen: list[Seen]) -> tuple[list[Mark], list[Seen]]:
    """Marks without a finding, and findings without a mark of their own."""
    missing, surprising = list(marks), []
    for finding in seen:
        answered = next((mark for mark in missing if answers(finding, mark)), None)
        if answered is None:
            surprising.append(finding)
        else:
            missing.remove(answered)
    return missing, surprising


def _story(missing: list[Mark], surprising: list[Seen]) -> str:
    lines = [f"not found:  {mark.path}:{mark.line} {mark.code} {mark.text}" for mark in missing]
    lines += [f"unexpected: {s.path}:{s.line} {s.code} {s.message} | {s.remedy}" for s in surprising]
    return "\n".join(lines)
