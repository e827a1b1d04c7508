"""Modes of torch functions belong to a thread: each thread of the program is given the mode, too.

The thread that pins batches and the replicas of DataParallel are threads of Python.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable
from typing import Any


def install(in_mode: Callable[[], contextlib.AbstractContextManager[Any]]) -> None:
    """Have each thread that Python starts begin with the mode in place."""
    bootstrap = threading.Thread._bootstrap_inner  # type: ignore[attr-defined]

    @functools.wraps(bootstrap)
    def watched(thread: threading.Thread) -> None:
        with in_mode():
            bootstrap(thread)

    threading.Thread._bootstrap_inner = watched  # type: ignore[attr-defined]
