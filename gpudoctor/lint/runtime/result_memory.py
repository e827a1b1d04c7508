"""Results that one process keeps from one lint to the next: what `cache.py` keeps in files, for an editor."""

from __future__ import annotations

from typing import TypeVar

from gpudoctor.lint.runtime.entry_result import EntryResult
from gpudoctor.lint.source.file_traits import FileTraits

K = TypeVar("K")
V = TypeVar("V")
MOST_KEPT = 200
"""Programs, or files, of which a session keeps what it found."""


class ResultMemory:
    """Results of programs and looks at files that a session keeps; the oldest ones go. Not for several threads."""

    def __init__(self) -> None:
        self.results: dict[object, EntryResult] = {}
        self.looks: dict[tuple[str, str], FileTraits] = {}

    @staticmethod
    def keep(kept: dict[K, V], key: K, value: V) -> None:
        """Put it last in a dictionary, and let go what came first where that holds too much."""
        kept.pop(key, None)
        kept[key] = value
        if len(kept) > MOST_KEPT:
            del kept[next(iter(kept))]
