"""A bar on stderr while lint is at work: on a terminal only, and only once it takes long."""

from __future__ import annotations

import time
from typing import TextIO

_PATIENCE = 1.0
_EVERY = 0.1
_CELLS = 30


class Progress:
    """Shows how many entries are done. Call `close` before anything else is printed."""

    def __init__(self, stream: TextIO, wanted: bool) -> None:
        self._stream = stream
        self._wanted = wanted and stream.isatty()
        self._next = time.monotonic() + _PATIENCE
        self._shown = False

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if not self._wanted or now < self._next or not total:
            return
        self._next = now + _EVERY
        self._shown = True
        filled = _CELLS * done // total
        self._stream.write(f"\r[{'#' * filled}{' ' * (_CELLS - filled)}] {done} of {total} programs")
        self._stream.flush()

    def close(self) -> None:
        """Wipe the bar off."""
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
