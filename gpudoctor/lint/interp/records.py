"""What an execution keeps beside its memory, for the parts that write and read it."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet
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


@dataclass(frozen=True, slots=True)
class ChosenCall:
    """A call that was not followed, because a setting chooses what is called: `instantiate(cfg.trainer).train()`, a
    method `name` of what the library callable `by` returned, each empty where that is not known."""

    node: ast.Call
    place: Location
    name: str
    by: str
    given: tuple[Values, ...]
    """Its arguments."""


@dataclass(slots=True)
class IterationProbe:
    """What was called and picked while somebody listened."""

    calls: set[str] = field(default_factory=set)
    """The dotted names of the library callables."""
    picks: bool = False
    """Something begins at, or takes each n-th of, a number that is not written there: it may be a share."""
    endless: bool = False
    """There is a `while True`."""
    leaves: bool = False
    """A loop is left before its end."""
    handed_on: Values = ValueSet(())
    """What the last `yield from` goes over."""

    def called(self, name: str, args: tuple[Values, ...]) -> None:
        """A library callable is called."""
        self.calls.add(name)
        # The second of two is where it ends, which is the same for all.
        if name == "itertools.islice" and len(args) > 2:
            self.picked(args[1])

    def picked(self, *numbers: Values | None) -> None:
        """Something is picked by numbers, such as where to begin."""
        if any(not each.all(_is_alike) for each in numbers if each is not None):
            self.picks = True


def _is_alike(value: Value) -> bool:
    """A constant, or a counter that no setting has moved."""
    return isinstance(value, Const) or (value.divergence == Divergence.BATCH_INDEX and not holds_setting(value))


def holds_setting(value: object) -> bool:
    """What the user has chosen is a part of how a value was computed."""
    return any(isinstance(each, Unknown) and each.config for each in provenance_of(value))
