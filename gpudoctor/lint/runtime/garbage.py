"""The garbage collector, asked seldom.

Syntax trees are many objects and no garbage, and Python would look at all of them again each time that some more are
there. What the execution on paper leaves behind is freed without the collector, but for a little now and then.
"""

from __future__ import annotations

import gc
import sys
from _thread import allocate_lock
from types import TracebackType

_MANY = 300_000
"""So many more objects than at the last look: 20 to 40 MiB."""
_LOCK = allocate_lock()


class _Collector:
    """The one of this process, which all threads share."""

    pausing = 0
    """How many want it to rest."""
    was_enabled = False
    may_freeze = False
    """Nobody else has frozen objects: to thaw ours would thaw all."""
    blocks = 0
    """Blocks of memory that were taken after the last look at all objects there are."""


_collector = _Collector()


class SeldomCollecting:
    """Inside, the collector works only where `collect_if_many` finds that it should.

    Where several are open, one inside of another or in several threads, the last one lets it work again.
    """

    def __enter__(self) -> None:
        with _LOCK:
            _collector.pausing += 1
            if _collector.pausing > 1:
                return
            _collector.was_enabled = gc.isenabled()
            gc.disable()
            if _collector.was_enabled:
                _collector.may_freeze = not gc.get_freeze_count()
                _clear_up()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        with _LOCK:
            _collector.pausing -= 1
            if _collector.pausing or not _collector.was_enabled:
                return
            # Together they make all that is there old: otherwise it would be looked at right now.
            if _collector.may_freeze:
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def _clear_up() -> None:
    """Look at all objects if many have been left behind by lints before this one in the same process.

    What is made old at the end of each, Python alone would not look at again: it waits until as much as a quarter of
    it has grown old by itself.
    """
    now = sys.getallocatedblocks()
    if not _collector.blocks or now < _collector.blocks:
        _collector.blocks = now
    elif now - _collector.blocks > _MANY:
        gc.collect()
        # What is left may be the program of this lint, which the next one must look at again, or be there for good.
        left = sys.getallocatedblocks()
        _collector.blocks = min(left, (_collector.blocks + left) // 2)


def collect_if_many() -> None:
    """Look for garbage if much has been made since the last look. What stays is not looked at again."""
    if gc.get_count()[0] > _MANY:
        gc.collect()
        if _collector.may_freeze:
            gc.freeze()
