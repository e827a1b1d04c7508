"""Values of a program in words."""

from __future__ import annotations

from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.function import Library
from gpudoctor.lint.domain.rank import Rank, Size
from gpudoctor.lint.domain.value import Allocated, Const, Text, Unknown, Value
from gpudoctor.lint.flow.valueset import ValueSet

_LONGEST = 70


def shown(value: Value | ValueSet[Value] | None) -> str:
    """How the program itself would call a value, or what it is."""
    if value is None:
        return "nothing"
    if isinstance(value, ValueSet):
        return _cut(" or ".join(dict.fromkeys(map(shown, value)))) or "nothing"
    match value:
        case Const():
            return repr(value.value)
        case Rank() | Size():
            return str(value.kind.value)
        case Device():
            return value.type if value.index is None else f"{value.type}:{shown(value.index)}"
        case Text():
            return _cut("".join(_part(part) for part in value.parts))
        case TupleOf():
            return f"({', '.join(map(shown, value.items))})"
        case Library():
            return value.name
        case Unknown() | Allocated():
            # Some labels are words of ours, such as "the model".
            return value.label if " " in value.label else f"`{value.label}`" if value.label else "something unknown"
    return type(value).__name__.lower()


def _part(part: Value) -> str:
    """A part of a text: constants as they are, the rest in braces, as in an f-string."""
    if isinstance(part, Const):
        return str(part.value)
    if isinstance(part, Text):
        return "".join(map(_part, part.parts))
    return f"{{{shown(part).strip('`')}}}"


def _cut(text: str) -> str:
    # A path that was joined in a loop has a description without end.
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def listed(**settings: Value | ValueSet[Value] | None) -> str:
    """The settings that were given, behind what they belong to: `, shuffle=True`."""
    return "".join(f", {name}={shown(value)}" for name, value in settings.items() if value is not None)
