"""A rank that does not answer: some call that keeps Python's lock does not let it. Its stack comes by a signal.

`faulthandler` writes the stack in the signal's own handler, which needs no lock. The signal is one that nobody uses,
and is sent only to a process that is known to wait for it: any other would be killed.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

from gpudoctor.ranks.process_tree import ON_LINUX, PROC
from gpudoctor.run.places import is_own

SIGNAL = signal.SIGRTMAX - 3 if ON_LINUX else 0
"""Among the real-time signals, which have no meaning of their own."""
STACK = "stack-{pid}.txt"
"""The file, in the folder of the recording, to which the stack is written."""
_PATIENCE = 1.0
_FILE, _LINE, _FUNCTION = 'File "', '", line ', " in "
"""How `faulthandler` tells a frame: `File "train.py", line 3 in train`."""


def stack_of(pid: int, folder: Path, rank: int = 0) -> list[tuple[str, int, str, bool]]:
    """Its main thread's frames, innermost first: file, line, function, and whether that is the user's own code. Empty
    where it cannot be had. What a `rank` has forked, as the workers of its loaders, writes to its file."""
    path = folder / STACK.format(pid=rank or pid)
    if not (_heeds(pid) and _holds(pid, path)):
        return []
    with contextlib.suppress(OSError):
        before = path.stat().st_size
        os.kill(pid, SIGNAL)
        return list(_frames(_written_since(path, before)))
    return []


def _written_since(path: Path, before: int) -> str:
    """What has come to the file, once nothing more comes."""
    deadline = time.monotonic() + _PATIENCE
    size = before
    while time.monotonic() < deadline:
        time.sleep(0.05)
        now = path.stat().st_size
        if now == size > before:
            break
        size = now
    return path.read_bytes()[before:].decode("utf-8", "replace")


def _frames(text: str) -> Iterator[tuple[str, int, str, bool]]:
    for line in text.splitlines():
        _, found, rest = line.partition(_FILE)
        file, _, rest = rest.rpartition(_LINE)
        number, _, function = rest.partition(_FUNCTION)
        if found and number.isdecimal():
            yield file, int(number), function, is_own(file)


def _heeds(pid: int) -> bool:
    """It has a handler for the signal; a program that it has become since has none."""
    with contextlib.suppress(OSError, ValueError, IndexError):
        caught = (PROC / str(pid) / "status").read_text().partition("SigCgt:")[2].split()[0]
        return bool(int(caught, 16) >> (SIGNAL - 1) & 1)
    return False


def _holds(pid: int, path: Path) -> bool:
    """The file is open there: a program that closes what it has not opened may have taken its number for another."""
    with contextlib.suppress(OSError):
        return any(os.path.realpath(entry) == str(path.resolve()) for entry in (PROC / str(pid) / "fd").iterdir())
    return False
