"""The garbage collector, asked seldom.

Syntax trees are many objects and no garbage, and Python would look at all of them again each time that some more are
there. What the execution on paper leaves behind is freed without the collector, but for a little now and then.
"""

from __future__ import annotations

import atexit
import gc
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_MANY = 300_000
"""So many more objects than at the last look: 20 to 40 MiB."""
_blocks = 0
"""Blocks of memory that were taken after the last look at all objects there are."""

# Python looks for garbage once more when it ends, and the system frees all at once a moment later.
atexit.register(gc.freeze)


class SeldomCollecting:
    """Inside, the collector works only where `collect_if_many` finds that it should."""

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()
        if self._was_enabled:
            _clear_up()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        # Inside of another one, that one ends it.
        if self._was_enabled:
            # Together they make all that is there old: otherwise it would be looked at right now.
            gc.freeze()
            gc.unfreeze()
            gc.enable()


def _clear_up() -> None:
    """Look at all objects if many have been left behind by lints before this one in the same process.

    What is made old at the end of each, Python alone would not look at again: it waits until as much as a quarter of
    it has grown old by itself.
    """
    global _blocks
    now = sys.getallocatedblocks()
    if not _blocks:
        _blocks = now
    elif now - _blocks > _MANY:
        # Imported late: few processes come here. What the last program has named keeps all of it.
        from gpudoctor.lint.flow.interning import forget_keys

        forget_keys()
        gc.unfreeze()
        gc.collect()
        _blocks = sys.getallocatedblocks()


def collect_if_many() -> None:
    """Look for garbage if much has been made since the last look. What stays is not looked at again."""
    if gc.get_count()[0] > _MANY:
        gc.collect()
        gc.freeze()
