"""Fewer values where a name may hold too many: without it, each loop would double what it holds."""

from __future__ import annotations

from collections.abc import Hashable

from gpudoctor.lint.domain.symbols import Widened
from gpudoctor.lint.domain.value import NONE, Unknown, Value, Values
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet, without_conditions
from gpudoctor.lint.hooks import HOOKS
from gpudoctor.lint.interp.limits import MAX_CHOICES, MAX_VALUES


def widened(key: Hashable, values: Values) -> Values:
    """Fewer values: several unknown ones become one, and too many of any kind too."""
    if len(values.bindings) <= 2:
        return values
    if len(values.bindings) > most(values):
        values = without_conditions(values)
    unknown = [binding for binding in values.bindings if isinstance(binding.value, Unknown)]
    if len(values.bindings) > MAX_VALUES and not unknown:
        joined = _joined(key, values)
        if joined is not None:
            return ValueSet.of(joined)
    if len(unknown) == len(values.bindings) or len(values.bindings) > most(values):
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


def _joined(key: Hashable, values: Values) -> Value | None:
    """What values of one kind have in common, where somebody knows."""
    (kind, *others) = {type(value) for value in values}
    return HOOKS.joins[kind](("widened", key), list(values)) if not others and kind in HOOKS.joins else None


def _any_of(key: Hashable, values: Values) -> Unknown:
    divergence, shards = Divergence.NONE, frozenset[Value]()
    for value in values:
        divergence |= value.divergence
        # A tensor may have been reduced since on another path: then nothing is certain of what may be either.
        shards |= value.shards if isinstance(value, Unknown) else frozenset()
    # A setting that is one of several settings is the same on all ranks still.
    config = all(isinstance(value, Unknown) and value.config for value in values)
    why = next((value.why for value in values if isinstance(value, Unknown)), "too many possible values")
    return Unknown(Widened(key, values), why, "", divergence, config, shards)
