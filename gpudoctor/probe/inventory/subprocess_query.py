"""Send a process to ask one part of the inventory, and wait for it no longer than allowed.

A driver that hangs may keep even a killed process from ending: then it is left behind, and what it said is kept.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

from gpudoctor.record import dataclass

if TYPE_CHECKING:
    import subprocess

_WORKER = "gpudoctor.probe.inventory.worker"
_ASKING = "asking"
_LOOK_EVERY = 0.02
_FIRST = 65536
_PATIENCE = 1.0


@dataclass(frozen=True)
class Answers:
    """What came back: pairs of a record's class name and its data; `trouble` says why there is no more."""

    told: tuple[tuple[str, Any], ...] = ()
    trouble: str = ""


class Errand:
    """A process on its way; ask `answers` once, and leave the `with` block whatever happens: then it is ended."""

    def __init__(self, part: str, environment: Mapping[str, str] | None = None) -> None:
        self._part = part
        # Our own path, and no other: the working directory may hold a `json.py`.
        code = f"import sys; sys.path[:] = {sys.path!r}; from {_WORKER} import main; main()"
        with contextlib.ExitStack() as files:
            self._out = files.enter_context(memory_file())
            self._errors = files.enter_context(memory_file())
            self._process = self._start([sys.executable, "-c", code, part, str(os.getpid())], environment)
            self._files = files.pop_all()
        self._started = time.monotonic()

    def __enter__(self) -> Errand:
        return self

    def __exit__(self, *raised: object) -> None:
        if self._process.poll() is None:
            self._kill()
        self._files.close()

    def _start(self, command: list[str], environment: Mapping[str, str] | None) -> subprocess.Popen[bytes]:
        import subprocess

        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=self._out,
            stderr=self._errors,
            env=None if environment is None else dict(environment),
            start_new_session=True,
        )

    def answers(self, limit: float) -> Answers:
        """All that was said within `limit` seconds from the start."""
        status = self._wait(limit)
        if status is None:
            self._kill()
        told, asking, last_words = self._said()
        if status is None:
            return Answers(told, f"{asking or self._part}: no answer within {limit:g} s")
        if status != 0:
            return Answers(told, f"{asking or self._part}: {_ended(status)}{f': {last_words}' if last_words else ''}")
        return Answers(told)

    def await_first(self, name: str, limit: float) -> None:
        """Wait until something of this name was said, the process has ended, or `limit` seconds are over."""
        mark = f'"{name}"'.encode()
        while self._process.poll() is None and time.monotonic() - self._started < limit:
            # Not by reading the file: the other process writes at the place where this one reads.
            if mark in os.pread(self._out.fileno(), _FIRST, 0):
                return
            time.sleep(_LOOK_EVERY)

    def recall(self) -> Answers:
        """End the process, and take what it has said; being ended is no trouble."""
        ended = self._process.poll()
        self._kill()
        told, asking, last_words = self._said()
        return Answers(told, "" if ended is None else f"{asking}: {last_words or _ended(ended)}")

    def _said(self) -> tuple[tuple[tuple[str, Any], ...], str, str]:
        """Answers, the last question, and the last line of its errors."""
        told, asking = _read(self._out)
        return told, asking, _tail(self._errors)

    def _wait(self, limit: float) -> int | None:
        while self._process.poll() is None and time.monotonic() - self._started < limit:
            time.sleep(_LOOK_EVERY)
        return self._process.returncode

    def _kill(self) -> None:
        import subprocess

        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_PATIENCE)


def memory_file() -> IO[bytes]:
    """A file for another process to write to, in memory where the system can: folders may be full, or read-only."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("gpudoctor"), "w+b")
    import tempfile

    return tempfile.TemporaryFile()


def _read(file: IO[bytes]) -> tuple[tuple[tuple[str, Any], ...], str]:
    told: list[tuple[str, Any]] = []
    asking = ""
    for name, value in _lines(file):
        if name == _ASKING:
            asking = str(value)
        else:
            told.append((name, value))
    return tuple(told), asking


def _lines(file: IO[bytes]) -> Iterator[tuple[str, Any]]:
    file.seek(0)
    for line in file:
        # A killed process may leave half a line.
        with contextlib.suppress(ValueError):
            yield from json.loads(line).items()


def _tail(file: IO[bytes]) -> str:
    file.seek(0)
    lines = file.read().decode(errors="replace").strip().splitlines()
    return lines[-1].strip() if lines else ""


def _ended(status: int) -> str:
    if status < 0:
        with contextlib.suppress(ValueError):
            return f"the process that asked was ended by {signal.Signals(-status).name}"
    return f"the process that asked ended with status {status}"
