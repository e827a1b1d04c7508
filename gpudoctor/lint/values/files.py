"""Files and folders: what programs do with them, and what they ask before they do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.values.base import Unknown, Values
from gpudoctor.lint.values.way import Event
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.lint.flow.condition import Condition, Literal

EXISTENCE = ("os.path.exists", "os.path.isfile", "os.path.isdir")
"""Who asks whether a file is there: with its path, the key of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadFile(Event):
    """A file is read: `call` says by what."""

    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangeFolder(Event):
    """A folder is made, or removed with all that is in it (`removes`). `tolerated` where it is no error that another
    process has done so before."""

    call: str
    path: Values | None
    spelled: str = ""
    tolerated: bool = False
    removes: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Download(Event):
    """Files are fetched to `path`, without a lock, where they are not there yet. `call` is the data set or function."""

    call: str
    path: Values | None


def missing(when: Condition, path: Values | None) -> bool:
    """The program comes by only where it has found that there is no such file."""
    return any(not asked.isdisjoint(path or ()) for asked in map(_not_there, when))


def _not_there(literal: Literal) -> set[object]:
    """The paths that this answer says are not there."""
    match literal.atom.key:
        case ("true", Unknown(key=(str(question), (ValueSet() as paths, *_)))) if question in EXISTENCE:
            return set() if literal.holds else set(paths)
    return set()
