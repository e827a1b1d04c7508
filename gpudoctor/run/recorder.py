"""One process writes down what it does: lines of JSON in a file of its own, whole whatever becomes of the process.

Nothing here may fail into the user's program, draw a random number, or take part in a collective.
"""

from __future__ import annotations

import functools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, TypeVar

from gpudoctor.run.places import own_place

MOST_BYTES = 20_000_000
"""Of one process; what comes later is only counted."""
_MOST_FAULTS = 5

F = TypeVar("F", bound=Callable[..., Any])


class Recorder:
    """Appends to the file of this process. A child that was forked begins one of its own with its first line."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._pid = 0
        self._file = -1
        self._path = ""
        self._node = (0, 0)
        self._written = 0
        self._faults = 0
        self.off = False
        self.cost = 0.0
        """Seconds that instruments have taken so far."""

    def write(self, kind: str, /, **facts: Any) -> None:
        """Append one line; it reaches the file at once."""
        if self.off:
            return
        if self._pid != os.getpid():
            self._open()
        line = json.dumps({"kind": kind, "at": time.time(), **facts}, separators=(",", ":"), default=str) + "\n"
        data = line.encode("utf-8", "backslashreplace")
        if self._written + len(data) > MOST_BYTES and kind not in ("crash", "over", "fault"):
            return
        try:
            # One call, so that a line is there or not; the rest of a short write would come too late.
            os.write(self._still_ours(), data)
        except OSError:
            # A full disk: the training goes on without us.
            self.off = True
        self._written += len(data)

    @property
    def begun(self) -> bool:
        """This process has written something."""
        return self._pid == os.getpid()

    def place(self) -> list[Any] | None:
        """The line of the user's code that led to the instrument that asks."""
        return list(place) if (place := own_place(3)) else None

    def guarded(self, instrument: F) -> F:
        """Our own errors become a line in the recording, and the time that we take is counted."""

        @functools.wraps(instrument)
        def careful(*args: Any, **keywords: Any) -> Any:
            if self.off:
                return None
            began = time.perf_counter()
            try:
                return instrument(*args, **keywords)
            except Exception as error:  # the border to the user's program
                self._note(instrument, error)
                return None
            finally:
                self.cost += time.perf_counter() - began

        return careful  # type: ignore[return-value]

    def _note(self, instrument: Callable[..., Any], error: Exception) -> None:
        self._faults += 1
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
        self.write("fault", instrument=instrument.__name__, error=f"{type(error).__name__}: {error}", where=where)
        if self._faults >= _MOST_FAULTS:
            self.off = True

    def _open(self) -> None:
        self._pid = os.getpid()
        self._written = 0
        self._path = os.path.join(self.folder, f"process-{self._pid}-{time.time_ns()}.jsonl")
        try:
            self._file = self._opened()
        except OSError:
            self.off = True
            return
        self.write("process", pid=self._pid, parent=os.getppid(), **_identity())

    def _opened(self) -> int:
        file = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        status = os.fstat(file)
        self._node = status.st_dev, status.st_ino
        return file

    def _still_ours(self) -> int:
        """A program that closes what it has not opened may have been given our number for a file of its own."""
        try:
            status = os.fstat(self._file)
        except OSError:
            status = None
        if status is None or (status.st_dev, status.st_ino) != self._node:
            self._file = self._opened()
        return self._file


_LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "SLURM_PROCID", "SLURM_NTASKS")


def _identity() -> dict[str, Any]:
    return {
        "host": os.uname().nodename,
        "python": sys.version.split()[0],
        "torch": getattr(sys.modules.get("torch"), "__version__", ""),
        "arguments": sys.argv[:50],
        "main": getattr(sys.modules.get("__main__"), "__file__", None),
        "launch": {name: os.environ[name] for name in _LAUNCHED if name in os.environ},
    }
