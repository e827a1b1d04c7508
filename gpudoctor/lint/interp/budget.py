"""What one execution may take of time and memory, looked at between steps and, where a step does not end, by a timer.

A program can be written so that a single step takes for ever: values in values, twice as many with each line. The
steps count themselves; a timer of the process looks in while one of them is under way. Where there is no such timer
(Windows, or a thread beside the main one), the steps alone look.
"""

from __future__ import annotations

import contextlib
import gc
import os
import sys
from functools import cache
from typing import TYPE_CHECKING

from gpudoctor.lint.interp.limits import MAX_MEMORY, MIN_MEMORY

try:
    # Of this thread alone: what others compute meanwhile takes nothing of its budget.
    from time import thread_time as cpu_time
except ImportError:  # a system that does not tell threads apart
    from time import process_time as cpu_time

if TYPE_CHECKING:
    import signal
    from types import FrameType, TracebackType
    from typing import Any
else:
    # All that `signal` adds are enumerations, which take longer to make than most files to judge.
    import _signal as signal

_LOOK_EVERY = 0.1
_MIB = 1024**2
_NO_LIMIT = float("inf")


class OutOfBudget(Exception):
    """A limit on the whole execution was reached."""


class Budget:
    """Steps, processor time and memory from now on. As a context, it ends with `OutOfBudget` whatever is done inside.

    Whoever makes steps counts them; what is left of them is written here between one execution and the next.

    Inside of another one, it alone is looked at until it ends.
    """

    def __init__(self, seconds: float, steps: float = _NO_LIMIT) -> None:
        self.seconds = seconds
        self.steps = steps
        self._deadline = cpu_time() + seconds
        self._memory_limit = _memory_at_first() + MAX_MEMORY
        if _peak_memory() + MIN_MEMORY > self._memory_limit:
            self._memory_limit = max(self._memory_limit, _memory() + MIN_MEMORY)
        self._collected = False
        self._looking = False
        self._outer: Budget | None = None
        self._before: Any = None

    @property
    def left(self) -> float:
        """Seconds that are left."""
        return max(self._deadline - cpu_time(), 0.0)

    def part(self, least: float, most: float = _NO_LIMIT) -> Budget:
        """A budget for a part of what is done, from now on: what is left, within these seconds."""
        return Budget(min(max(self.left, least), most))

    def check(self) -> None:
        """Raise where the time is over or too much memory was taken, unless a timer looks by itself."""
        # Asking for the time is a call of the system, which takes as long as many steps.
        if not self._looking:
            self._check()

    def _check(self) -> None:
        self._check_memory()
        if cpu_time() > self._deadline:
            raise OutOfBudget(f"more than {self.seconds:.0f} seconds of execution")

    def __enter__(self) -> None:
        self.look()

    def look(self) -> bool:
        """Let a timer look from now on, if none does; whether one does then."""
        if self._looking:
            return True
        if not hasattr(signal, "setitimer"):
            return False
        now = signal.getsignal(signal.SIGVTALRM)
        around = getattr(now, "__self__", None)
        self._outer = around if isinstance(around, Budget) else None
        # Somebody else's timer is left alone.
        if self._outer is None and now not in (signal.SIG_DFL, signal.SIG_IGN):
            return False
        try:
            self._before = signal.signal(signal.SIGVTALRM, self._look)
        except ValueError:  # only the main thread may
            self._outer = None
            return False
        self._looking = True
        signal.setitimer(signal.ITIMER_VIRTUAL, _LOOK_EVERY, _LOOK_EVERY)
        return True

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._stop_looking()

    def _look(self, _: int, frame: FrameType | None) -> None:
        # It was on its way when the looking ended: raised now, it would leave the timer running, and end what follows.
        if not self._looking:
            return
        # A module that is only half imported would stay so, and of contexts that are being left the rest is not left.
        while frame is not None:
            code = frame.f_code
            leaves = code.co_name == "__exit__" and code.co_filename == contextlib.__file__
            if leaves or code.co_filename.startswith("<frozen importlib"):
                return
            frame = frame.f_back
        try:
            self._check()
        except OutOfBudget:
            self._stop_looking()
            raise

    def _stop_looking(self) -> None:
        if not self._looking:
            return
        self._looking = False
        if self._outer is not None:
            signal.signal(signal.SIGVTALRM, self._outer._look)
            return
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        # The default is death, and one may still be on its way: to be ignored in between takes it away.
        signal.signal(signal.SIGVTALRM, signal.SIG_IGN)
        if self._before != signal.SIG_IGN:
            signal.signal(signal.SIGVTALRM, self._before)

    def _check_memory(self) -> None:
        if _peak_memory() <= self._memory_limit or _memory() <= self._memory_limit:
            return
        if not self._collected:
            # What programs before have left behind is none of this one's. Before it is done, the timer may look again.
            self._collected = True
            gc.collect()
        else:
            raise OutOfBudget(f"more than {MAX_MEMORY // _MIB} MiB of memory")


def _memory() -> int:
    """The bytes that the process takes now; the most that it has ever taken where the system does not tell."""
    try:
        with open("/proc/self/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return _peak_memory()


def _peak_memory() -> int:
    """The most bytes that the process has taken until now; 0 where the system does not say."""
    try:
        import resource
    except ImportError:  # Windows
        return 0
    # Kilobytes, but for macOS, which counts bytes.
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


@cache
def _memory_at_first() -> int:
    """What it had taken before the first program: what a program takes is added to it, and not to what others took."""
    return _peak_memory()
