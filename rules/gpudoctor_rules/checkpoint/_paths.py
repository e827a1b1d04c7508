"""Paths that programs write to: are they the same on all ranks, and how would a reader call them?"""

from __future__ import annotations

from gpudoctor.lint.flow.condition import Dependence
from gpudoctor.lint.values.base import Const, Text, Unknown, Value, Values

_TOLD_APART = Dependence.RANK | Dependence.LOCAL | Dependence.UNREAD


def one_path(paths: Values | None) -> bool:
    """All ranks surely have the same path."""
    return paths is not None and paths.all(_agreed)


def _agreed(value: Value) -> bool:
    # One part that differs is enough to keep the files of the ranks apart.
    if isinstance(value, Text):
        return all(map(_agreed, value.parts))
    if isinstance(value, Const):
        # A path of None writes nothing, or to a place that the callee chooses.
        return value.value is not None
    # A path from unread code may hold the rank or the time: then files may differ.
    return isinstance(value, Unknown) and not value.depends & _TOLD_APART


def shown(paths: Values | None, otherwise: str = "the same path") -> str:
    """The path for a message."""
    only = paths.only if paths is not None else None
    if isinstance(only, Const) and isinstance(only.value, str) and only.value.strip():
        return f"`{only.value}`"
    label = only.label if isinstance(only, Unknown) else ""
    return f"`{label}`" if label else otherwise
