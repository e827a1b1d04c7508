"""Fewer values where a name may hold too many: without it, each loop would double what it holds."""

from __future__ import annotations

from collections.abc import Hashable

from gpudoctor.lint.domain.function import Class, Function, Instance, Library, Partial, ProjectModule
from gpudoctor.lint.domain.optim import Optimizer, Scheduler
from gpudoctor.lint.domain.symbols import Widened
from gpudoctor.lint.domain.tensor import Tensor, one_of_several
from gpudoctor.lint.domain.value import NONE, Unknown, Value, Values
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet, without_conditions
from gpudoctor.lint.interp.limits import MAX_CHOICES, MAX_VALUES


def widened(key: Hashable, values: Values) -> Values:
    """Fewer values: several unknown ones become one, and too many of any kind too."""
    if len(values.bindings) <= 2:
        return values
    if len(values.bindings) > MAX_VALUES:
        values = without_conditions(values)
    unknown = [binding for binding in values.bindings if isinstance(binding.value, Unknown)]
    if len(values.bindings) > MAX_VALUES and not unknown:
        tensors = [value for value in values if isinstance(value, Tensor)]
        if len(tensors) == len(values.bindings):
            return ValueSet.of(one_of_several(("widened", key), tensors))
    if len(unknown) == len(values.bindings) or len(values.bindings) > _most(values):
        divergence, shards = Divergence.NONE, frozenset[Value]()
        for value in values:
            divergence |= value.divergence
            shards |= value.shards if isinstance(value, Unknown) else frozenset()
        # A setting that is one of several settings is the same on all ranks still.
        config = all(isinstance(value, Unknown) and value.config for value in values)
        why = unknown[0].value.why if unknown and isinstance(unknown[0].value, Unknown) else "too many possible values"
        return ValueSet.of(Unknown(Widened(key, values), why, "", divergence, config, shards))
    return values


def _most(values: Values) -> int:
    return MAX_CHOICES if values.all(_is_choice) else MAX_VALUES


def _is_choice(value: Value) -> bool:
    """What an `elif` chain over experiments picks one of, and None before it. Loops do not pile these up."""
    kinds = (Class, Function, Partial, Library, Instance, ProjectModule, Optimizer, Scheduler)
    return isinstance(value, kinds) or value == NONE
