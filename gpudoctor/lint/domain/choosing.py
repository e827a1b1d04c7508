"""What the user chooses at the start, out of what a program offers."""

from __future__ import annotations

from collections.abc import Hashable

from gpudoctor.lint.domain.function import BoundMethod, ProjectModule
from gpudoctor.lint.domain.value import Anonymous, Value, Values, singleton
from gpudoctor.lint.flow.condition import ALWAYS, Atom, Literal
from gpudoctor.lint.flow.valueset import Binding, ValueSet


def one_by(what: Hashable, choices: list[Value]) -> Values:
    """One of these on all ranks, the same one wherever the same thing decides."""
    if len(choices) == 1:
        return singleton(choices[0])
    bindings, when = [], ALWAYS
    for value in choices[:-1]:
        atom = Atom(Anonymous("choice", (what, value)), text=f"{choice_name(value)} is chosen", switch=True)
        bindings.append(Binding(value, when.conjoined_with(Literal(atom, True))))
        when = when.conjoined_with(Literal(atom, False))
    return ValueSet([*bindings, Binding(choices[-1], when)])


def choice_name(value: Value) -> str:
    """What a function, class or module is called."""
    if isinstance(value, BoundMethod):
        return value.name
    return value.name if isinstance(value, ProjectModule) else value.label
