"""Errors that end a command, each with the exit code that the user sees.

    GpudoctorError              2
    ├── UsageError              2   wrong arguments: names the wrong thing and the nearest right one
    ├── ConfigError             2   an unreadable configuration file or an unknown key
    └── InternalError           3   a bug of ours, with a paragraph to paste into a report

Raised anywhere, caught once, at the edge of the command line.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import ClassVar

_FRAMES = 4


class GpudoctorError(Exception):
    """The root of all errors that a user is meant to read."""

    exit_code: ClassVar[int] = 2


class UsageError(GpudoctorError):
    """The command was called in a way that it cannot answer."""


class ConfigError(GpudoctorError):
    """A configuration file cannot be read or says something unknown."""


class InternalError(GpudoctorError):
    """A bug of gpudoctor itself."""

    exit_code: ClassVar[int] = 3


def internal_error(what: str, error: Exception) -> InternalError:
    """The bug that `error` is: what was being done, the error, and where it was raised."""
    trail = " < ".join(_trail(error.__traceback__))
    bug = InternalError(f"{what}: {type(error).__name__}: {error}\nat {trail}")
    bug.__cause__ = error
    return bug


def nearest(wrong: str, right: Iterable[str]) -> str:
    """`; did you mean `x`?` for the end of a message, or nothing where no right one comes close."""
    # Imported late: it costs milliseconds, and most runs have nothing to suggest.
    from difflib import get_close_matches

    lowered = {each.lower(): each for each in right}
    close = get_close_matches(wrong.lower(), lowered, n=1)
    return f"; did you mean `{lowered[close[0]]}`?" if close else ""


def nearest_file(missing: str) -> str:
    """The same of a file or folder that is not there: the nearest one beside it."""
    folder, name = os.path.split(missing)
    try:
        beside = os.listdir(folder or ".")
    except OSError:
        return ""
    return nearest(name, beside)


def _trail(traceback: TracebackType | None) -> Iterator[str]:
    """The last frames, innermost first, with paths that tell nothing about whose machine it is."""
    frames = []
    while traceback is not None:
        frames.append((traceback.tb_frame.f_code, traceback.tb_lineno))
        traceback = traceback.tb_next
    for code, line in frames[: -_FRAMES - 1 : -1]:
        parts = code.co_filename.replace(os.sep, "/").split("/")
        yield f"{'/'.join(parts[-3:])}:{line} in {code.co_name}"
