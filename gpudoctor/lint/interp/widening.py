"""Fewer values where a name may hold too many: without it, each loop would double what it holds."""

from __future__ import annotations

from collections.abc import Hashable
from functools import reduce
from itertools import starmap

from gpudoctor.lint.domain.abstract_state import PathsCell
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.symbols import Widened
from gpudoctor.lint.domain.value import NONE, UNBOUND, Const, Unknown, Value, Values, divergence_of, shards_of
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.flow.valueset import Binding, ValueSet, union, without_conditions
from gpudoctor.lint.interp.limits import MAX_CHOICES, MAX_KINDS, MAX_VALUES


def widened(key: Hashable, values: Values) -> Values:
    """Fewer values: several unknown ones become one, but for a few settings, and too many of any kind too."""
    if len(values.bindings) <= 2:
        return values
    if len(values.bindings) > most(values):
        values = without_conditions(values)
        if len(values.bindings) > most(values):
            return _by_path(key, values) or _by_kind(key, values) or ValueSet.of(_any_of(key, values))
    # Settings that a file or the user chooses are objects that the program may have written to.
    if values.are(Unknown) and not values.all(lambda value: value.config):
        return ValueSet.of(_any_of(key, values))
    return values


def all_as_one(key: Hashable, values: Values) -> Value:
    """One value that stands for any of several."""
    values = without_conditions(values)
    joined = _joined(key, values)
    return _any_of(key, values) if joined is None else joined


def most(values: Values) -> int:
    """How many values of these kinds may be kept one by one."""
    # None is what stands there before the `elif` chain.
    return MAX_CHOICES if values.all(lambda value: value.is_choice or value == NONE) else MAX_VALUES


def _by_path(key: Hashable, values: Values) -> Values | None:
    """Of a cell that holds a tuple for each path: what stands in all of them, and what in any. So a dictionary keeps
    what it had before a dozen options each added something to it, or not."""
    cell = key[1] if type(key) is tuple and len(key) == 2 else None
    paths = [(each.value.items, each.condition) for each in values.bindings if isinstance(each.value, TupleOf)]
    rest = [each for each in values.bindings if not isinstance(each.value, TupleOf)]
    if not isinstance(cell, PathsCell) or len(rest) > 1:
        return None
    found: dict[Values, list[Binding[Values]]] = {}
    for items, when in paths:
        # A list may hold one item twice.
        for name, held in dict(zip(items[:: cell.step], items[cell.step - 1 :: cell.step], strict=True)).items():
            found.setdefault(name, []).append(Binding(held, when))
    always: list[Values] = []
    ever: list[Values] = []
    for name, held_on in found.items():
        first = held_on[0].value
        if any(each.value != first for each in held_on):
            first = widened((key, name), union(each.value.guarded_by(each.condition) for each in held_on))
        part = (name, first)[: cell.step]
        ever += part
        always += part if len(held_on) == len(paths) else ()
    common = reduce(Condition.intersection, (when for _, when in paths))
    kept: dict[Value, Condition] = {TupleOf(tuple(each)): common for each in (always, ever)}
    return ValueSet([*starmap(Binding, kept.items()), *rest])


def _by_kind(key: Hashable, values: Values) -> Values | None:
    """One value for all of each kind, and one for all that is unknown; None where somebody does not know how to join
    them, or where they are of too many kinds."""
    kinds: dict[type[Value], list[Binding[Value]]] = {}
    for binding in values.bindings:
        kinds.setdefault(type(binding.value), []).append(binding)
    found: list[Binding[Value]] = []
    for kind, bindings in kinds.items():
        alike = ValueSet(bindings)
        # Who asks for a name that is not bound gets no further. Beside a rank or a number, what is unknown may be one.
        if alike.single == NONE or alike.single is UNBOUND:
            found += bindings
            continue
        joined = _any_of(key, alike) if kind is Unknown else _joined(key, alike)
        if joined is None:
            return None
        found.append(Binding(joined, reduce(Condition.intersection, (each.condition for each in bindings))))
    return ValueSet(found) if len(found) <= MAX_KINDS else None


def _joined(key: Hashable, values: Values) -> Value | None:
    """What values of one kind have in common, where somebody knows."""
    # Imported late: few programs have so many of anything.
    from gpudoctor.lint.domain.one_of_several import JOINS

    (kind, *others) = {type(value) for value in values}
    return JOINS[kind](("widened", key), list(values)) if not others and kind in JOINS else None


def _any_of(key: Hashable, values: Values) -> Unknown:
    # A tensor may have been reduced since on another path: then nothing is certain of what may be either.
    shards = shards_of(value for value in values if isinstance(value, Unknown))
    # A setting that is one of several settings is the same on all ranks still.
    config = all(value.config for value in values)
    why = next((value.why for value in values if isinstance(value, Unknown)), "too many possible values")
    # One of many texts is a text.
    kinds = {type(value.value).__name__ if isinstance(value, Const) else "" for value in values}
    kind = kinds.pop() if len(kinds) == 1 else ""
    among = tuple(value for value in values if isinstance(value, Const)) if kind == "str" else ()
    return Unknown(Widened(key, values), why, "", divergence_of(values), config, shards, kind=kind, among=among)
