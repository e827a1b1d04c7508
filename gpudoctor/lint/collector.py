"""The garbage collector, asked seldom.

Syntax trees are many objects and no garbage, and Python would look at all of them again each time that some more are
there. What the execution on paper leaves behind is freed without the collector, but for a little now and then.
"""

from __future__ import annotations

import atexit
import gc
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType

_MANY = 300_000
"""So many more objects than at the last look: 20 to 40 MiB."""

# Python looks for garbage once more when it ends, and the system frees all at once a moment later.
atexit.register(gc.freeze)


class SeldomCollecting:
    """Inside, the collector works only where `collect_if_many` finds that it should."""

    def __enter__(self) -> None:
        self._was_enabled = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        # Inside of another one, that one ends it.
        if self._was_enabled:
            # Together they make all that is there old: otherwise it would be looked at right now.
            gc.freeze()
            gc.unfreeze()
            gc.enable()


def collect_if_many() -> None:
    """Look for garbage if much has been made since the last look. What stays is not looked at again."""
    if gc.get_count()[0] > _MANY:
        gc.collect()
        gc.freeze()
