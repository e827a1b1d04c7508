"""What is known of a speculative run."""

from __future__ import annotations

from collections.abc import Hashable
from itertools import islice

from gpudoctor.lint.events.event_context import Event


class Speculation:
    """What was found out in a speculative run, once it is over."""

    __slots__ = ("_book", "_pages", "events", "returned", "studied", "whole")

    def __init__(self, book: list[Hashable]) -> None:
        self._book = book
        self._pages = len(book), len(book)
        self.events: list[Event] = []
        """What it would have logged."""
        self.studied: list[Hashable] = []
        """The classes whose `forward` was looked at in it."""
        self.whole = True
        """All of it was followed."""
        self.returned = True
        """It came to its end."""

    def close(self, returned: bool) -> None:
        """It is over."""
        self._pages = self._pages[0], len(self._book)
        self.returned = returned

    def reads(self, name: str) -> bool:
        """A variable of this name was read in it."""
        keys = (key for key in islice(self._book, *self._pages) if type(key) is tuple and len(key) == 2)
        return any(type(scope) is tuple and each == name for scope, each in keys)
