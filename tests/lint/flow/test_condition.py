"""Laws of conditions, checked against every way in which their atoms can come out."""

from itertools import product

import pytest

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.symbols import Compares
from gpudoctor.lint.domain.value import Anonymous, Const, Unknown
from gpudoctor.lint.flow.condition import (
    ALWAYS,
    Atom,
    Condition,
    Divergence,
    Equality,
    Inequality,
    Literal,
    asked_on_each,
    complement,
    disjunction,
)
from tests.support.truth_tables import BOTH, EITHER, ROWS, A, B, C, all_of, conditions, holds

PLAIN = conditions()
WITH_PARTS = [
    condition
    for literals in ((A, B, BOTH), (A, B, EITHER), (BOTH, EITHER))
    for condition in conditions(literals)
    if any(holds(condition, row) for row in ROWS)
]
PAIRS = [*product(PLAIN, repeat=2), *product(WITH_PARTS, repeat=2)]


def test_both_holds_where_each_does():
    for one, other in PAIRS:
        for row in ROWS:
            assert holds(one.and_(other), row) == (holds(one, row) and holds(other, row)), (one, other)


def test_also_adds_one_literal_and_what_follows_from_it():
    for condition, literal in product(PLAIN + WITH_PARTS, (A, B.negated(), BOTH, BOTH.negated(), EITHER)):
        for row in ROWS:
            asked = holds(condition, row) and row[literal.atom] is literal.holds
            assert holds(condition.conjoined_with(literal), row) == asked, (condition, literal)


def test_what_excludes_another_never_holds_with_it():
    for one, other in PAIRS:
        if one.excludes(other):
            assert not any(holds(one, row) and holds(other, row) for row in ROWS), (one, other)


def test_plain_conditions_that_cannot_meet_are_told_apart():
    for one, other in product(PLAIN, repeat=2):
        meet = any(holds(one, row) and holds(other, row) for row in ROWS)
        assert one.excludes(other) is not meet, (one, other)
        assert other.excludes(one) is not meet, (one, other)


def test_what_implies_another_holds_only_with_it():
    for one, other in PAIRS:
        if one.implies(other):
            assert all(holds(other, row) for row in ROWS if holds(one, row)), (one, other)


def test_plain_implications_are_seen():
    for one, other in product(PLAIN, repeat=2):
        assert one.implies(other) is all(holds(other, row) for row in ROWS if holds(one, row)), (one, other)


@pytest.mark.slow
def test_a_gap_is_where_none_of_the_conditions_holds():
    for first, second in PAIRS:
        for base in (ALWAYS, all_of(A), all_of(B.negated()), all_of(BOTH), all_of(EITHER.negated())):
            found = complement(base, [first, second])
            for row in ROWS:
                left_out = holds(base, row) and not holds(first, row) and not holds(second, row)
                assert any(holds(gap, row) for gap in found) or not left_out, (base, first, second)


def test_plain_gaps_are_no_wider():
    for first, second in product(PLAIN, repeat=2):
        for row in ROWS:
            inside = any(holds(gap, row) for gap in complement(ALWAYS, [first, second]))
            assert inside is not (holds(first, row) or holds(second, row)), (first, second)


@pytest.mark.parametrize(
    "sides",
    [
        (all_of(BOTH), all_of(BOTH.negated())),
        (all_of(EITHER), all_of(EITHER.negated())),
        (all_of(A), all_of(A.negated(), B), all_of(A.negated(), B.negated(), C), all_of(A.negated(), B.negated())),
    ],
    ids=str,
)
def test_the_sides_of_a_branch_leave_no_gap(sides):
    assert not complement(ALWAYS, sides)
    assert complement(ALWAYS, sides[:1])


def test_where_nothing_is_asked_all_is_a_gap():
    assert complement(all_of(A), []) == [all_of(A)]


def test_shared_holds_where_either_side_does():
    for one, other in PAIRS:
        shared = one.intersection(other)
        assert all(holds(shared, row) for row in ROWS if holds(one, row) or holds(other, row)), (one, other)


def test_what_is_left_without_the_shared_part_gives_the_whole_back():
    for one, other in PAIRS:
        assert one.difference(other).and_(one.intersection(other)) == one, (one, other)


def test_either_is_exactly_one_or_the_other_where_it_answers():
    for one, other in PAIRS:
        merged = disjunction(one, other)
        for row in ROWS if merged is not None else ():
            assert holds(merged, row) == (holds(one, row) or holds(other, row)), (one, other, merged)


@pytest.mark.parametrize(
    ("one", "other", "merged"),
    [
        (all_of(A), all_of(A.negated()), ALWAYS),
        (all_of(A, B), all_of(A.negated(), B), all_of(B)),
        (all_of(A, B), all_of(A), all_of(A)),
        (ALWAYS, all_of(C), ALWAYS),
        (all_of(A), all_of(B), None),
        (all_of(A, B), all_of(A.negated(), B.negated()), None),
    ],
)
def test_either_of(one: Condition, other: Condition, merged: Condition | None):
    assert disjunction(one, other) == merged
    assert disjunction(other, one) == merged


def test_a_conjunction_answers_for_its_parts():
    assert all_of(BOTH).answer(A) is True
    assert all_of(BOTH).answer(B.negated()) is False
    assert all_of(BOTH.negated()).answer(A) is None


def test_a_disjunction_that_fails_answers_for_its_parts():
    assert all_of(EITHER.negated()).answer(A) is False
    assert all_of(EITHER.negated()).answer(B.negated()) is True
    assert all_of(EITHER).answer(A) is None


def test_parts_of_parts_follow_too():
    nested = Literal(Atom("(a and b) and c", every=(BOTH, C)), True)
    assert all(all_of(nested).answer(literal) is True for literal in (A, B, C, BOTH))


def test_atoms_are_known_by_their_key():
    again = Atom(("==", "rank", 0), text="rank == 0", place=Location("a.py", 1))
    assert Atom(("==", "rank", 0), text="is_master", place=Location("a.py", 2)) == again
    assert Atom(("==", "rank", 1)) != again
    assert again != "rank == 0"
    assert all_of(Literal(again, True)) == all_of(Literal(Atom(("==", "rank", 0)), True))


def test_dependence_is_that_of_all_literals():
    rank = Literal(Atom("rank", Divergence.RANK), True)
    loss = Literal(Atom("loss", Divergence.LOCAL), False)
    condition = all_of(A, rank, loss)
    assert condition.divergence is Divergence.RANK | Divergence.LOCAL
    assert condition.depending_on(Divergence.RANK) == (rank,)
    assert condition.depending_on(Divergence.BATCH_INDEX) == ()
    assert ALWAYS.divergence is Divergence.NONE


def test_what_another_literal_says_already_adds_no_dependence():
    """`if not sharded and not first: return`, and then `if sharded:`: all ranks are here."""
    first = Literal(Atom("first", Divergence.RANK), True)
    neither = Literal(Atom("neither", Divergence.RANK, every=(A.negated(), first.negated())), True)
    some = Literal(Atom("some", Divergence.RANK, none=(A, first)), True)
    for passed in (neither.negated(), some):
        assert all_of(passed).divergence is Divergence.RANK
        assert all_of(passed, A).divergence is Divergence.NONE
        assert all_of(passed, A).depending_on(Divergence.RANK) == ()
        assert all_of(passed, A.negated()).depending_on(Divergence.RANK) == (passed,)


def test_conditions_do_not_care_about_order():
    assert all_of(A, B) == all_of(B, A)
    assert hash(all_of(A, B)) == hash(all_of(B, A))
    assert all_of(A, B) != "a and b"


def test_conditions_read_like_the_source():
    assert repr(ALWAYS) == "always"
    assert repr(all_of(B.negated(), A)) == "a and not (b)"
    assert repr(Atom(("==", 1))) == "('==', 1)"
    assert not ALWAYS


def test_nothing_is_made_where_nothing_changes():
    condition = all_of(A, B)
    assert condition.conjoined_with(A) is condition
    assert condition.and_(all_of(A)) is condition
    assert all_of(A).and_(condition) is condition


KINDS = {
    "<": lambda number, bound: number < bound,
    ">": lambda number, bound: number > bound,
    "==": lambda a, b: a == b,
}
NUMBERS = [step / 2 for step in range(-2, 9)]


def test_a_comparison_with_a_number_answers_others_and_never_wrongly():
    for (kind, bound), (other, second) in product(product(KINDS, range(4)), repeat=2):
        one, two = Inequality("n", kind, bound), Inequality("n", other, second)
        for known in (True, False):
            told = one.settles(known, two)
            possible = {KINDS[other](n, second) for n in NUMBERS if KINDS[kind](n, bound) is known}
            assert told is None or possible == {told}, (one, known, two)
    assert Inequality("n", ">", 1).settles(True, Inequality("n", "==", 1)) is False
    assert Inequality("n", ">", 1).settles(True, Inequality("n", ">", 0)) is True
    assert Inequality("n", ">", 1).settles(True, Inequality("m", ">", 0)) is None


def test_conditions_know_what_comparisons_say_of_one_another():
    several, single = (Atom(("n", kind), bound=Inequality("n", kind, 1)) for kind in (">", "=="))
    where = Condition().conjoined_with(Literal(several, True))
    assert where.answer(Literal(single, True)) is False
    assert where.answer(Literal(single, False)) is True
    assert where.excludes(Condition().conjoined_with(Literal(single, True)))
    assert not where.excludes(Condition().conjoined_with(Literal(single, False)))


def test_what_is_one_text_is_no_other():
    fit, test = Equality("mode", "fit"), Equality("mode", "test")
    assert fit.settles(True, test) is False
    assert fit.settles(True, fit) is True
    # What is not this one may be any other.
    assert fit.settles(False, test) is None
    assert fit.settles(True, Equality("stage", "test")) is None
    assert fit.settles(True, Inequality("mode", "==", 1)) is None
    assert Inequality("mode", "==", 1).settles(True, fit) is None
    fits, tests = (Atom(("mode", each.text), bound=each) for each in (fit, test))
    assert Condition().conjoined_with(Literal(fits, True)).excludes(Condition().conjoined_with(Literal(tests, True)))


def test_a_composed_test_is_excluded_by_what_its_parts_came_out_as():
    either = Atom("a or b", none=(A, B))
    both = Atom("a and b", every=(A, B))
    one_of_them = Condition().conjoined_with(Literal(either, True))
    assert one_of_them.and_(all_of(A.negated())).excludes(all_of(B.negated()))
    assert all_of(B.negated()).excludes(one_of_them.and_(all_of(A.negated())))
    assert not one_of_them.and_(all_of(A.negated())).excludes(all_of(B))
    not_both = Condition().conjoined_with(Literal(both, False))
    assert not_both.and_(all_of(A)).excludes(all_of(B))
    assert not not_both.excludes(all_of(B))


def test_the_same_test_of_another_object_is_asked_on_each_way() -> None:
    place = Location("data.py", 7)

    def named(of: str) -> Literal:
        asked = Unknown(Anonymous("setting", of), "a setting", "config.name")
        return Literal(Atom(Compares("==", asked, Const("near")), text="config.name == 'near'", place=place), True)

    first, second = ALWAYS.conjoined_with(named("a")), ALWAYS.conjoined_with(named("b"))
    assert not first.intersection(second).literals
    assert asked_on_each([first, second]) == [named("a")]
    assert asked_on_each([first, second, ALWAYS]) == []
    assert asked_on_each([first]) == [named("a")]
    assert asked_on_each([]) == []
