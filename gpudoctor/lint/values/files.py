"""What programs ask about files before they write them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.values.base import Unknown

if TYPE_CHECKING:
    from gpudoctor.lint.flow.condition import Condition, Literal
    from gpudoctor.lint.values.base import Values

EXISTENCE = ("os.path.exists", "os.path.isfile", "os.path.isdir")
"""Who asks whether a file is there: with its path, the key of the answer."""


def missing(when: Condition, path: Values | None) -> bool:
    """The program comes by only where it has found that there is no such file."""
    return any(not asked.isdisjoint(path or ()) for asked in map(_not_there, when))


def _not_there(literal: Literal) -> set[object]:
    """The paths that this answer says are not there."""
    match literal.atom.key:
        case ("true", Unknown(key=(str(question), (ValueSet() as paths, *_)))) if question in EXISTENCE:
            return set() if literal.holds else set(paths)
    return set()
