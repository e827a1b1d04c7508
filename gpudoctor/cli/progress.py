"""A bar on stderr while lint is at work: on a terminal only, and only once it takes long."""

from __future__ import annotations

import time
from types import TracebackType
from typing import TextIO

from gpudoctor.cli.terminal import width_of
from gpudoctor.report.text import cells, written

_PATIENCE = 1.0
_EVERY = 0.1
_CELLS = 30


class Progress:
    """Shows how many programs are done, and which one is read. It is over, and wiped off, when its `with` ends."""

    def __init__(self, stream: TextIO, wanted: bool) -> None:
        self._stream = stream
        self._wanted = wanted and stream.isatty()
        self._next = time.monotonic() + _PATIENCE
        self._shown = False
        self._state: tuple[int, int, str] = (0, 0, "")
        self._timed = False

    def __enter__(self) -> Progress:
        if self._wanted:
            self._timed = self._set_timer()
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self.close()

    def __call__(self, done: int, total: int, name: str = "") -> None:
        self._state = done, total, name
        if self._wanted and total and time.monotonic() >= self._next:
            self._show()

    def close(self) -> None:
        """Wipe the bar off."""
        if self._timed:
            import signal

            self._timed = False
            signal.setitimer(signal.ITIMER_REAL, 0)
            # One may still be on its way, and the default is death.
            signal.signal(signal.SIGALRM, signal.SIG_IGN)
        if self._shown:
            self._shown = False
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def _set_timer(self) -> bool:
        """A single program may take long: nobody calls then until it is done."""
        # Imported late: where nobody looks, nothing is shown.
        import signal

        if not hasattr(signal, "setitimer") or signal.getsignal(signal.SIGALRM) not in (signal.SIG_DFL, signal.SIG_IGN):
            return False
        try:
            signal.signal(signal.SIGALRM, self._look)
        except ValueError:  # only the main thread may
            return False
        signal.setitimer(signal.ITIMER_REAL, _PATIENCE, _PATIENCE)
        return True

    def _look(self, *_: object) -> None:
        if self._timed and self._state[1]:
            self._show()

    def _show(self) -> None:
        done, total, name = self._state
        self._next = time.monotonic() + _EVERY
        self._shown = True
        filled = _CELLS * done // total
        bar = f"[{'#' * filled}{' ' * (_CELLS - filled)}] {done} of {total} programs"
        # A line that is longer than the terminal would not be wiped off.
        room = width_of(self._stream) - len(bar) - len(": ") - 1
        told = f": {_end(name, room)}" if name and room >= _LEAST else ""
        self._stream.write("\r\x1b[K" + written([bar + told]).removesuffix("\n"))
        self._stream.flush()


_LEAST = 8


def _end(name: str, room: int) -> str:
    """The end of a path, which tells more of it than its beginning."""
    if cells(name) <= room:
        return name
    while cells(name) > room - len("..."):
        name = name[1:]
    return f"...{name}"
