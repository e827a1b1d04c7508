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
    if len(values.bindings) > MAX_VALUES:
        values = without_conditions(values)
    unknown = [binding for binding in values.bindings if isinstance(binding.value, Unknown)]
    if len(values.bindings) > MAX_VALUES and not unknown:
        (kind, *others) = {type(value) for value in values}
        if not others and kind in HOOKS.joins:
            return ValueSet.of(HOOKS.joins[kind](("widened", key), list(values)))
    if len(unknown) == len(values.bindings) or len(values.bindings) > _most(values):
        divergence, shards = Divergence.NONE, frozenset[Value]()
        for value in values:
            divergence |= value.divergence
            shards |= value.shards
        # A setting that is one of several settings is the same on all ranks still.
        config = all(isinstance(value, Unknown) and value.config for value in values)
        why = unknown[0].value.why if unknown and isinstance(unknown[0].value, Unknown) else "too many possible values"
        return ValueSet.of(Unknown(Widened(key, values), why, "", divergence, config, shards))
    return values


def _most(values: Values) -> int:
    # None is what stands there before the `elif` chain.
    return MAX_CHOICES if values.all(lambda value: value.is_choice or value == NONE) else MAX_VALUES
