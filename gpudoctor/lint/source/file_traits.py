"""What is known of a file before it is followed: what it is to its project, and whether it concerns any rule."""

from __future__ import annotations

import enum

from gpudoctor.record import dataclass


class Role(enum.IntEnum):
    """What a file is, and, of programs, how surely."""

    PART = 0
    """It defines or prepares something for others: a module, a configuration, the tests that a runner collects."""
    SCRIPT = 1
    """Its top level does something, so that it is a program where no other program imports it."""
    MAIN = 2
    """It says what to do as the main program, as only a program does."""


@dataclass(frozen=True)
class FileTraits:
    """What was seen of a file: `path` without links, and `shown` to users.

    `quiet` says that it is about nothing that a built-in rule is about, unless it is a program; `commented` that
    comments in it speak to us, and `is_test` that a runner of tests collects what it defines.
    """

    path: str
    shown: str
    role: Role
    quiet: bool
    commented: bool
    is_test: bool = False
