"""What a fix changes of a file: each change at the place of a node, with the text of what is new.

Steps of a repair become changes, and are refused, on the tree that was executed (`steps`). Only `rewrite` applies them.
"""

from __future__ import annotations

import enum

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass


class NoFix(Exception):
    """The repair cannot be written well in this program."""


class Where(enum.Enum):
    """Where new statements stand: `BEFORE` one and the comments above it, `FIRST` in the block that it begins, or
    `AFTER` it."""

    BEFORE = "before"
    FIRST = "first"
    AFTER = "after"


@dataclass(frozen=True)
class NewExpression:
    """Another expression in the place of the one here."""

    at: Location
    text: str


@dataclass(frozen=True)
class NewStatement:
    """Another simple statement in the place of the one here."""

    at: Location
    text: str


@dataclass(frozen=True)
class NewLines:
    """Statements beside the one here, of the same block. A tab stands for one step of indentation."""

    at: Location
    lines: tuple[str, ...]
    where: Where


@dataclass(frozen=True)
class NewHeader:
    """The statement here becomes the block of a compound statement with this header."""

    at: Location
    header: str


@dataclass(frozen=True)
class NewDecorator:
    """One more decorator of the function here, the innermost."""

    at: Location
    text: str


@dataclass(frozen=True)
class NewName:
    """One more name that the `from` import here takes."""

    at: Location
    name: str


@dataclass(frozen=True)
class NewArguments:
    """Arguments of the call here: other `values` in the place of those, some `added`, and those that are `removed`."""

    at: Location
    values: tuple[tuple[Location, str], ...] = ()
    added: tuple[str, ...] = ()
    removed: tuple[Location, ...] = ()


@dataclass(frozen=True)
class Removed:
    """The simple statement here goes."""

    at: Location


@dataclass(frozen=True)
class Moved:
    """The statement here stands before another one of its block."""

    at: Location
    before: Location


TreeChange = (
    NewExpression | NewStatement | NewLines | NewHeader | NewDecorator | NewName | NewArguments | Removed | Moved
)  # fmt: skip


def is_within(inner: Location, outer: Location) -> bool:
    """All of a place is a part of another one."""
    if inner.path != outer.path or (inner.line, inner.column) < (outer.line, outer.column):
        return False
    return (inner.end_line, inner.end_column) <= (outer.end_line, outer.end_column)
