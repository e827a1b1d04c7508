"""The layered store: a branch is forgotten where it ends, and a join says what holds after it."""

from itertools import product

import pytest

from gpudoctor.lint.flow.condition import ALWAYS
from gpudoctor.lint.flow.interning import forget_keys, interned
from gpudoctor.lint.flow.store import Delta, Store
from gpudoctor.lint.flow.valueset import ValueSet
from tests.support.truth_tables import ROWS, A, B, all_of, holds, in_row

MISSING: ValueSet[str] = ValueSet.of("unbound")
X, Y, Z = (ValueSet.of(name) for name in "xyz")


def unchanged(key: object, values: ValueSet[str]) -> ValueSet[str]:
    return values


def branch(store: Store[str], writes: dict[str, ValueSet[str]]) -> Delta[str]:
    """What one side of a branch writes."""
    with store.delta() as layer:
        for key, values in writes.items():
            store.set(key, values)
    return layer


def test_a_layer_sees_what_lies_below_and_is_forgotten():
    store: Store[str] = Store()
    store.set("model", X)
    with store.delta() as layer:
        assert store.get("model") == X
        store.set("model", Y)
        assert store.get("model") == Y
        assert store.depth == 2
    assert store.get("model") == X
    assert store.get("loader") is None
    assert layer == {"model": Y}
    assert store.depth == 1


def test_a_layer_ends_with_an_error_too():
    store: Store[str] = Store()
    try:
        with store.delta():
            raise KeyError
    except KeyError:
        assert store.depth == 1


def test_after_a_join_each_side_holds_where_its_condition_does():
    sides = ({}, {"model": X}, {"model": Y})
    for before, yes, no in product((None, Z), sides, sides):
        store: Store[str] = Store()
        if before is not None:
            store.set("model", before)
        layers = [branch(store, yes), branch(store, no)]
        store.merge([(all_of(A), layers[0]), (all_of(A.negated()), layers[1])], MISSING, unchanged)
        old = before or MISSING
        after = store.get("model") or MISSING
        for row in ROWS:
            taken = yes if holds(all_of(A), row) else no
            assert in_row(after, row) == {taken.get("model", old).single}, (before, yes, no, row)


def test_what_both_sides_write_alike_has_no_condition():
    store: Store[str] = Store()
    layers = [branch(store, {"model": X}), branch(store, {"model": ValueSet.of("x")})]
    store.merge([(all_of(A), layers[0]), (all_of(A.negated()), layers[1])], MISSING, unchanged)
    assert store.get("model") == X


def test_one_living_side_is_taken_as_it_is():
    store: Store[str] = Store()
    store.set("model", X)
    store.merge([(all_of(A), branch(store, {"model": Y}))], MISSING, unchanged)
    assert store.get("model") == Y


def test_correlated_switches_meet_only_where_they_can():
    store: Store[str] = Store()
    for key in ("model", "sampler"):
        layers = [branch(store, {key: X}), branch(store, {key: Y})]
        store.merge([(all_of(A), layers[0]), (all_of(A.negated()), layers[1])], MISSING, unchanged)
    model, sampler = store.get("model"), store.get("sampler")
    assert model is not None
    assert sampler is not None
    for binding in model.bindings:
        assert list(sampler.restrict(binding.condition)) == [binding.value]


def test_a_join_widens_what_it_writes():
    store: Store[str] = Store()
    layers = [branch(store, {"model": X, "lr": X}), branch(store, {"model": Y, "lr": X})]
    widened = store_with_widening(store, layers)
    assert widened == {"model": 2, "lr": 1}
    assert store.get("model") == Z


def store_with_widening(store: Store[str], layers: list[Delta[str]]) -> dict[object, int]:
    """Join two sides, making a set of more than one value to Z; how large each set was."""
    seen: dict[object, int] = {}

    def widen(key: object, values: ValueSet[str]) -> ValueSet[str]:
        seen[key] = len(values)
        return values if len(values) < 2 else Z

    store.merge([(all_of(B), layers[0]), (all_of(B.negated()), layers[1])], MISSING, widen)
    return seen


def test_at_bottom_every_path_sees_it():
    store: Store[str] = Store()
    with store.delta():
        store.set("model", X)
        with store.delta():
            with store.at_bottom():
                assert store.get("model") is None
                store.set("imported", Y)
                assert store.depth == 1
            assert store.depth == 3
            assert store.get("model") == X
            assert store.get("imported") == Y
    assert store.get("imported") == Y
    assert store.get("model") is None


def test_names_of_a_scope_are_known_in_order_even_after_their_layer():
    store: Store[str] = Store()
    store.set(("train", "model"), X)
    with store.delta():
        store.set(("train", "loader"), X)
        store.set(("other", "model"), X)
    store.set(("train", "model"), Y)
    store.set("no pair", X)
    store.set(("train", 1), X)
    assert store.names("train") == ["model", "loader"]
    assert store.names("other") == ["model"]
    assert store.names("nowhere") == []


def test_written_since_gathers_the_layers_above():
    store: Store[str] = Store()
    store.set("model", X)
    with store.delta():
        store.set("model", Y)
        store.set("loader", X)
        with store.delta():
            store.set("loader", Y)
            assert store.changes_since(1) == {"model": Y, "loader": Y}
            assert store.changes_since(2) == {"loader": Y}
            assert store.changes_since(3) == {}
        assert store.changes_since(0) == {"model": Y, "loader": X}


def test_equal_keys_are_one_object_until_they_are_forgotten():
    key = ("test", 1.5)
    first = interned(key)
    assert interned(("test", float("1.5"))) is first
    forget_keys()
    assert interned(("test", float("1.5"))) is not first


def test_a_condition_outlives_the_keys_it_was_made_of():
    condition = all_of(A, B)
    forget_keys()
    assert condition.implies(all_of(A))
    assert condition.answer(A) is True
    assert ALWAYS.and_(condition) is condition


class Aged:
    """A store that knows when things were made: keys are pairs of a thing and a name."""

    def __init__(self) -> None:
        self.born: dict[object, int] = {}
        self.store: Store[str] = Store(lambda key: self.born.get(key[0], -1))

    def make(self, thing: str) -> str:
        self.born[thing] = self.store.clock
        self.store.clock += 1
        return thing


def test_what_a_branch_made_needs_no_join():
    aged = Aged()
    with aged.store.delta() as layer:
        aged.store.set((aged.make("model"), "device"), X)
    assert layer == {}
    assert aged.store.get(("model", "device")) == X


def test_what_was_made_before_a_branch_is_told_apart():
    aged = Aged()
    key = aged.make("model"), "device"
    aged.store.set(key, X)
    with aged.store.delta() as layer:
        aged.store.set(key, Y)
    assert layer == {key: Y}
    assert aged.store.get(key) == X


def test_a_path_that_leaves_takes_its_own_state_along():
    aged = Aged()
    with aged.store.delta() as layer:
        key = aged.make("model"), "device"
        aged.store.set(key, X)
        gone = aged.store.changes_since(1)
        aged.store.set(key, Y)
    aged.store.merge([(all_of(A), gone), (all_of(A.negated()), layer)], MISSING, unchanged)
    assert set(aged.store.get(key) or ()) == {"x", "y"}


def test_a_scope_that_has_ended_is_forgotten():
    store: Store[str] = Store()
    store.set(("frame", "x"), X)
    store.forget("frame")
    assert store.get(("frame", "x")) is None
    assert store.names("frame") == []


class _Interrupted(dict[object, ValueSet[str]]):
    """A memory in which the time is over just before something is written."""

    def __setitem__(self, key: object, values: ValueSet[str]) -> None:
        raise TimeoutError


def test_the_time_may_be_over_between_two_steps_of_a_write():
    store: Store[str] = Store()
    store.set("model", X)
    store.now = _Interrupted(store.now)
    with pytest.raises(TimeoutError), store.delta():
        store.set("loader", Y)
    assert store.depth == 1
    assert store.get("loader") is None
