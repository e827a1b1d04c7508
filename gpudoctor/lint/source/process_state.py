"""Python's own state: its stack of calls, and what is borrowed of all threads: the limit on open calls, the filters of
warnings.

Other threads may borrow it at the same time. Whoever is the last to give it back leaves it as it was.
"""

from __future__ import annotations

import sys
import warnings
from _thread import RLock  # `threading` takes ten times as long to load
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_ROOM = 1 << 16
"""Words that a frame claims: it gets a block of its own, of which as much again is left for what it calls."""
_USUAL_LIMIT = 1_000
_LOCK = RLock()
_wanted: dict[object, int] = {}
"""The limits that are asked for now."""
_found = 0
"""The limit that there was before."""


@contextmanager
def fresh_stack() -> Iterator[None]:
    """Inside, as many calls may be open as if none were until now.

    Python limits how many are open together, its own parser counts ours, too, and a chain of imports opens some for
    each of its files.
    """
    open_now, frame, asks = 0, sys._getframe(), object()
    while frame is not None:
        open_now, frame = open_now + 1, frame.f_back  # type: ignore[assignment]
    try:
        _want(asks, _USUAL_LIMIT + open_now)
        yield
    finally:
        _want(asks, None)


def _want(asks: object, limit: int | None) -> None:
    global _found
    with _LOCK:
        if not _wanted:
            _found = sys.getrecursionlimit()
        if limit is not None:
            _wanted[asks] = limit
        else:
            _wanted.pop(asks, None)
        sys.setrecursionlimit(max(_found, *_wanted.values(), 0))


@contextmanager
def no_warnings() -> Iterator[None]:
    """Inside, nothing warns: old escapes in strings are the business of their author's linter. One thread at a time:
    left in another order than they were entered, two such contexts would leave the filters of the first behind."""
    with _LOCK, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def with_room(function: F) -> F:
    """A function whose calls go deep, with room for them. The memory is only touched as far as they do.

    Python keeps the frames of open calls in blocks of 16 KiB, and hands a block back as soon as its last frame has
    ended. Following a program goes up and down through a hundred frames for each statement. Where that crosses the
    edge of a block, each call asks the system for memory and gives it back: 9,000 times in a lint of 60 programs, a
    twentieth of its time.
    """
    function.__code__ = function.__code__.replace(co_stacksize=_ROOM)
    return function
