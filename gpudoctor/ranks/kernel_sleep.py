"""Until when a process sleeps: the kernel tells what it was asked for, and the process need not be stopped for that."""

from __future__ import annotations

import platform
import struct

from gpudoctor.ranks.process_tree import PROC
from gpudoctor.record import dataclass

_CLOCK_NANOSLEEP = {"x86_64": "230", "aarch64": "115"}
"""The number of the call with which `time.sleep` waits, since Python 3.11."""
_MONOTONIC, _UNTIL = "0x1", "0x1"
_TIME = struct.Struct("qq")


def wakes_at(pid: int) -> float | None:
    """When the main thread wakes up, by `time.monotonic()`; None where it does not sleep until a time, or where that
    is not to be seen."""
    try:
        call = (PROC / str(pid) / "syscall").read_text().split()
        if call[:3] != [_CLOCK_NANOSLEEP.get(platform.machine()), _MONOTONIC, _UNTIL]:
            return None
        with open(PROC / str(pid) / "mem", "rb") as memory:
            memory.seek(int(call[3], 16))
            seconds, nanoseconds = _TIME.unpack(memory.read(_TIME.size))
    except (OSError, ValueError, struct.error):
        return None
    return float(seconds) + float(nanoseconds) / 1e9


@dataclass
class LongSleeps:
    """Which processes sleep on purpose, for longer than what polls does: they come back by themselves.

    `patience` is for how long something may stand still. A sleep counts that takes half of it or more, and ends before
    it is over twice.
    """

    patience: float
    _seen: dict[int, tuple[float, float]]

    def has(self, pid: int, now: float) -> bool:
        """The process is in such a sleep; how long one is shows by when it was first seen."""
        until = wakes_at(pid)
        if until is None:
            return False
        before, first = self._seen.get(pid, (None, now))
        first = first if before == until else now
        self._seen[pid] = until, first
        return until - first >= self.patience / 2 and until - now <= 2 * self.patience
