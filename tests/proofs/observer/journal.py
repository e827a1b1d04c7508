"""Lines of JSON, one file for each process."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING

import torch.distributed as dist
from torch.utils.data import get_worker_info

from gpudoctor.run import instruments

if TYPE_CHECKING:
    from pathlib import Path

_INSTRUMENTS = os.path.dirname(instruments.__file__) + os.sep


class Journal:
    """What one process does, in order. Follows forks: a child continues in a file of its own."""

    def __init__(self, folder: Path, program: Path) -> None:
        self._folder = folder
        self._program = str(program.resolve())
        self._pid = 0
        self._file = -1
        self._identity: dict[str, object] = {}

    def begin(self, identity: dict[str, object]) -> None:
        """Say who this process is; children that it forks say it again."""
        self._identity = identity
        self._open()

    def write(self, kind: str, **facts: object) -> None:
        """Append one line at once."""
        if get_worker_info() is not None:
            return
        if os.getpid() != self._pid:
            self._open()
        if dist.is_available() and dist.is_initialized():
            facts["rank"] = dist.get_rank()
        line = json.dumps({"kind": kind, **facts}) + "\n"
        os.write(self._file, line.encode())

    def called_by_program(self) -> bool:
        """The user's own code called the observer's function, with nothing in between but the instruments of a run."""
        frame = sys._getframe(2)
        while frame.f_back is not None and frame.f_code.co_filename.startswith(_INSTRUMENTS):
            frame = frame.f_back
        return frame.f_code.co_filename.startswith(self._program)

    def within_program(self) -> bool:
        """The user's own code is somewhere above the caller."""
        frame = sys._getframe(1)
        while frame is not None:
            if frame.f_code.co_filename.startswith(self._program):
                return True
            frame = frame.f_back
        return False

    def _open(self) -> None:
        forked = self._pid != 0
        self._pid = os.getpid()
        path = self._folder / f"journal-{self._pid}.jsonl"
        # A descriptor far from the low ones: programs that count or close descriptors should not meet it.
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self.write("process", **self._identity, pid=self._pid, forked=forked)
