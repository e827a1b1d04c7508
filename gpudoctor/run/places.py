"""Which line of the user's own code led here."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from types import FrameType

Place = tuple[str, int]
"""File and line."""

PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
"""Where we are."""
_FOLDERS = ("stdlib", "platstdlib", "purelib", "platlib")
FOREIGN = (PACKAGE, *{sysconfig.get_paths()[name] + os.sep for name in _FOLDERS})
"""Folders that are not the user's: Python's, those of installed packages, and ours."""


def is_own(path: str) -> bool:
    """The file is the user's: neither Python's, nor an installed package's, nor ours."""
    return not (path.startswith(("<", *FOREIGN)) or f"{os.sep}site-packages{os.sep}" in path)


def own_place() -> Place | None:
    """The innermost line of the user's code above the caller."""
    for frame in _above(sys._getframe(1)):
        if is_own(frame.f_code.co_filename):
            return os.path.abspath(frame.f_code.co_filename), frame.f_lineno
    return None


def called_by_own() -> bool:
    """The user's code has called the caller, with nothing but torch.distributed in between."""
    for frame in _above(sys._getframe(1)):
        path = frame.f_code.co_filename
        if not path.startswith(PACKAGE) and f"torch{os.sep}distributed{os.sep}" not in path:
            return is_own(path)
    return False


def _above(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
