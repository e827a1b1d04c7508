"""Fixed fixtures: each becomes its golden file, is clean afterwards, and stays as it is from then on."""

import ast
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.registry import find_rules
from tests.support.fixing import Copy, copy_of, has_golden
from tests.support.fixture_marks import Case, Mark, cases, expected_in
from tests.support.linting import Seen, lint

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
FIXED = [case for case in cases(FIXTURES) if case.bad and has_golden(case)]
ONE_OF_A_RULE = list({case.code: case for case in FIXED}.values())
CARDS = {card.code: card for card in find_rules().cards}


def named(case: Case) -> str:
    return f"{case.code}/{case.name}"


@pytest.fixture
def program(case: Case, tmp_path: Path) -> Copy:
    return copy_of(case, tmp_path)


@pytest.mark.parametrize("case", FIXED, ids=named)
def test_golden(program: Copy) -> None:
    # What is found before stands in the program: `test_rules.py` holds each to its marks.
    before = expected_in(program.case)
    program.fix()
    for file in program.files:
        golden = program.golden(file)
        expected = golden if golden.exists() else program.case.folder / file.relative_to(program.folder)
        assert file.read_bytes() == expected.read_bytes(), f"{file.name} is not {expected.name}"
        if file.suffix == ".py":
            ast.parse(file.read_bytes())
    left = _found(program)
    rest = _of_rule(left, program)
    assert rest < _of_rule(before, program), "the mistake is still found"
    least = CARDS[program.case.code].severity.weight
    as_bad = [seen for seen in left if Severity(seen.severity).weight >= least]
    assert not _counted(as_bad) - _counted(before), "the fix makes new mistakes"
    # Only what is found is fixed. What is left has no fix.
    if rest or program.case in ONE_OF_A_RULE:
        after = {file: file.read_bytes() for file in program.files}
        program.fix()
        assert {file: file.read_bytes() for file in program.files} == after, "a second run changes it again"


@pytest.mark.slow
@pytest.mark.parametrize("case", ONE_OF_A_RULE, ids=named)
def test_line_ends_and_byte_order_mark_stay(program: Copy) -> None:
    """Every line that is not touched has the bytes that it had, and new lines look like them."""
    mark = b"\xef\xbb\xbf"
    for file in program.files:
        file.write_bytes(mark + file.read_bytes().replace(b"\n", b"\r\n"))
    program.fix()
    for file in program.files:
        golden = program.golden(file)
        expected = golden if golden.exists() else program.case.folder / file.relative_to(program.folder)
        assert file.read_bytes() == mark + expected.read_bytes().replace(b"\n", b"\r\n")


def test_rules_that_declare_no_fix_have_no_fixed_fixture() -> None:
    assert not [named(case) for case in FIXED if CARDS[case.code].fix_safety is None]


@pytest.mark.parametrize("code", sorted(card.code for card in CARDS.values() if card.fix_safety))
def test_a_rule_with_a_fix_has_a_fixed_fixture(code: str) -> None:
    assert [case for case in FIXED if case.code == code], f"python tests/tools/update_fixed.py {code}"


def test_unsafe_fixes_need_to_be_asked_for(tmp_path: Path) -> None:
    unsafe = next((case for case in FIXED if CARDS[case.code].fix_safety is Safety.UNSAFE), None)
    if unsafe is None:
        pytest.skip("no rule has an unsafe fix")
    program = copy_of(unsafe, tmp_path)
    before = {file: file.read_bytes() for file in program.files}
    program.fix(unsafe=False)
    assert {file: file.read_bytes() for file in program.files} == before


def _found(program: Copy) -> list[Seen]:
    return lint(program.entry, folder=program.folder, extend=(program.case.code,))


def _of_rule(seen: Sequence[Seen | Mark], program: Copy) -> int:
    return sum(each.code == program.case.code for each in seen)


def _counted(seen: Sequence[Seen | Mark]) -> Counter[tuple[str, str]]:
    return Counter((each.code, each.path) for each in seen)
