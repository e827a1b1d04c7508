"""Laws of value sets: no value is lost where it is possible, and none appears where it is not."""

from itertools import product

from gpudoctor.lint.flow.condition import ALWAYS, Condition
from gpudoctor.lint.flow.valueset import Binding, Met, ValueSet, union
from tests.support.truth_tables import ROWS, A, B, all_of, conditions, holds, in_row, sets

SETS = sets()
CONDITIONS = conditions((A, B))
ONE: ValueSet[int] = ValueSet.of(1)


def test_given_keeps_all_that_is_possible_there():
    for values, condition in product(SETS, CONDITIONS):
        left = values.restrict(condition)
        for row in ROWS:
            if holds(condition, row):
                assert in_row(left, row) == in_row(values, row), (values, condition)


def test_given_drops_what_is_excluded():
    values = ValueSet((Binding("cuda", all_of(A)), Binding("cpu", all_of(A.negated()))))
    assert list(values.restrict(all_of(A))) == ["cuda"]
    assert list(values.restrict(all_of(A.negated(), B))) == ["cpu"]
    assert values.restrict(all_of(B)) is values
    assert values.restrict(ALWAYS) is values


def test_under_is_possible_only_where_the_condition_holds():
    met: dict[Condition, Met] = {condition: {} for condition in CONDITIONS}
    for values, condition in product(SETS, CONDITIONS):
        narrowed = values.guarded_by(condition, met[condition])
        assert narrowed == values.guarded_by(condition)
        for row in ROWS:
            expected = in_row(values, row) if holds(condition, row) else set()
            assert in_row(narrowed, row) == expected, (values, condition)


def test_union_has_what_each_has():
    for values, other in product(SETS, [values for values in SETS if len(values) == 1]):
        for row in ROWS:
            assert in_row(union((values, other)), row) == in_row(values, row) | in_row(other, row), (values, other)


def test_union_weakens_conditions_that_meet():
    yes, no = ONE.guarded_by(all_of(A, B)), ONE.guarded_by(all_of(A.negated(), B))
    assert union((yes, no)) == ONE.guarded_by(all_of(B))
    assert union((yes, no, ONE.guarded_by(all_of(B.negated())))) == ONE


def test_union_keeps_conditions_that_do_not_meet_apart():
    values = union((ONE.guarded_by(all_of(A)), ONE.guarded_by(all_of(B))))
    assert [binding.condition for binding in values.bindings] == [all_of(A), all_of(B)]


def test_union_keeps_the_order_of_arrival():
    assert list(union((ValueSet.of(3), ValueSet.of(1), ValueSet.of(3), ValueSet.of(2)))) == [3, 1, 2]


def test_only_is_the_one_value():
    assert ONE.single == 1
    assert ValueSet((Binding(1, all_of(A)), Binding(2, all_of(A.negated())))).single is None
    assert ValueSet(()).single is None


def test_mapped_keeps_conditions():
    values = ValueSet((Binding(1, all_of(A)), Binding(2, all_of(A.negated()))))
    doubled = values.map(lambda value: value * 2)
    assert [(binding.value, binding.condition) for binding in doubled.bindings] == [
        (2, all_of(A)),
        (4, all_of(A.negated())),
    ]


def test_all_asks_for_at_least_one():
    assert not ValueSet(()).all(bool)
    assert ONE.all(bool)
    assert not ValueSet((Binding(1), Binding(0))).all(bool)
    assert ValueSet((Binding(1), Binding(0))).any(bool)
    assert not ValueSet(()).any(bool)


def test_equality_and_hash_follow_the_bindings():
    assert ValueSet.of(1) == ONE
    assert hash(ValueSet.of(1)) == hash(ONE)
    assert ValueSet.of(2) != ONE
    assert ONE.guarded_by(all_of(A)) != ONE
    assert ONE != 1


def test_sets_read_like_what_they_say():
    values = ValueSet((Binding(1, all_of(A)), Binding(2)))
    assert repr(values) == "1 if a | 2"
    assert repr(ValueSet(())) == "nothing"
