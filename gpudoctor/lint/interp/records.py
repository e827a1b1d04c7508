"""What an execution keeps beside its memory, for the parts that write and read it."""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.value import Value, Values
from gpudoctor.record import dataclass, field

if TYPE_CHECKING:
    from gpudoctor.lint.flow.store import Store


@dataclass(frozen=True, slots=True)
class CallRecord:
    """One call: its result, and what it read that was there before."""

    result: Values
    read: dict[Hashable, Values | None]

    def holds(self, store: Store[Value]) -> bool:
        """Nothing that it read has changed."""
        return all(store.get(key) == values for key, values in self.read.items())


@dataclass(slots=True)
class Summary:
    """A long function without effect: its calls by their arguments."""

    calls: dict[Hashable, CallRecord] = field(default_factory=dict)
    followed: int = 0
    cost: int = 0
    """The most statements that it took."""
