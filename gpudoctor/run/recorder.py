"""One process writes down what it does: lines of JSON in a file of its own, whole whatever becomes of the process.

Nothing here may fail into the user's program, draw a random number, or take part in a collective.
"""

from __future__ import annotations

import contextlib
import functools
import json
import os
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from gpudoctor.run import clock
from gpudoctor.run.append_log import ByCalls, InMemory, appended
from gpudoctor.run.places import own_place
from gpudoctor.run.protocol import VIRTUAL_NODE
from gpudoctor.run.stand_ins import standing_for

MOST_BYTES = 20_000_000
"""Of one process; what comes later is only counted."""
_MOST_FAULTS = 5
"""Of one instrument, which is put away then; the others go on."""
_SHOW_LIFE_EVERY = 0.5
"""Seconds. Whoever looks from outside sees by the time of the file that this process goes on."""

F = TypeVar("F", bound=Callable[..., Any])


class Recorder:
    """Appends to the file of this process. A child that was forked begins one of its own with its first line."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._pid = 0
        self._path = ""
        self._file: InMemory | ByCalls
        self.silent_until = 0.0
        """When it is time to say that this process goes on."""
        self._written = 0
        self._inside = False
        self.off = False
        self.cost = 0.0
        """Seconds that instruments have taken so far."""

    def write(self, kind: str, /, **facts: Any) -> None:
        """Append one line; it is in the file at once."""
        if not self.off:
            self.append(_encode({"kind": kind, "at": clock.time(), **facts}), kind in ("crash", "over", "fault"))

    def append(self, line: str, always: bool = False) -> None:
        """Append a line that is written as JSON already, if there is room left or it must be there."""
        if self.off:
            return
        if self._pid != os.getpid():
            self._open()
        data = f"{line}\n".encode("utf-8", "backslashreplace")
        try:
            if always or self._written + len(data) <= MOST_BYTES:
                self._file.append(data)
                self._written += len(data)
            self.show_life()
        except OSError:
            # A full disk: the training goes on without us.
            self.off = True

    def show_life(self) -> None:
        """Say that this process goes on, also where it has nothing to write."""
        now = clock.monotonic()
        if now > self.silent_until and self.begun:
            self.silent_until = now + _SHOW_LIFE_EVERY
            # A program may have become another user.
            with contextlib.suppress(PermissionError):
                os.utime(self._path)

    @property
    def begun(self) -> bool:
        """This process has written something."""
        return self._pid == os.getpid()

    def place(self) -> list[Any] | None:
        """The line of the user's code that led to the instrument that asks."""
        return list(place) if (place := own_place()) else None

    def guarded(self, instrument: F) -> F:
        """Our own errors become a line in the recording, and the time that we take is counted."""
        faults = 0

        @functools.wraps(instrument)
        def careful(*args: Any, **keywords: Any) -> Any:
            nonlocal faults
            if self.off or faults >= _MOST_FAULTS:
                return None
            # What another one calls is on the other's account.
            outermost, self._inside = not self._inside, True
            began = clock.perf_counter()
            try:
                return instrument(*args, **keywords)
            except Exception as error:  # the border to the user's program
                faults += 1
                self._note(instrument, error)
                return None
            finally:
                if outermost:
                    self._inside = False
                    self.cost += clock.perf_counter() - began

        return careful  # type: ignore[return-value]

    def before(self, called: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, of whose calls `note` is told first what each is given."""
        told = self.guarded(note)

        @standing_for(called)
        def watched(*args: Any, **keywords: Any) -> Any:
            told(*args, **keywords)
            return called(*args, **keywords)

        return watched

    def after(self, called: Callable[..., Any], note: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, of whose calls `note` is told what each has returned, and what it was given."""
        told = self.guarded(note)

        @standing_for(called)
        def watched(*args: Any, **keywords: Any) -> Any:
            returned = called(*args, **keywords)
            told(returned, *args, **keywords)
            return returned

        return watched

    def _note(self, instrument: Callable[..., Any], error: Exception) -> None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        where = f"{os.path.basename(trace.tb_frame.f_code.co_filename)}:{trace.tb_lineno}" if trace else ""
        # What the program has done to Python may be the reason, and then this fails, too.
        with contextlib.suppress(Exception):
            self.write("fault", instrument=instrument.__name__, error=f"{type(error).__name__}: {error}", where=where)

    def _open(self) -> None:
        self._pid = os.getpid()
        self._written = 0
        self._path = os.path.join(self.folder, f"process-{self._pid}-{clock.time_ns()}.jsonl")
        try:
            self._file = appended(self._path)
        except OSError:
            self.off = True
            return
        self.write("process", pid=self._pid, parent=os.getppid(), **_identity())


_encode = json.JSONEncoder(separators=(",", ":"), default=str).encode

_LAUNCHED = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "SLURM_PROCID", "SLURM_NTASKS")


def _identity() -> dict[str, Any]:
    return {
        "host": os.environ.get(VIRTUAL_NODE) or os.uname().nodename,
        "python": sys.version.split()[0],
        "torch": getattr(sys.modules.get("torch"), "__version__", ""),
        "arguments": sys.argv[:50],
        "main": getattr(sys.modules.get("__main__"), "__file__", None),
        "launch": {name: os.environ[name] for name in _LAUNCHED if name in os.environ},
    }
