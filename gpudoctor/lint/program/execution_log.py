"""What happened while a program was executed on paper, in order, and what of it hangs together."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property, reduce
from typing import TypeVar, cast, overload

from gpudoctor.coverage import Cause
from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.event_context import Event, Loop
from gpudoctor.lint.events.knowledge import Guess, Imprecision
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.process import Caught
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.program.guard_log import GuardLog
from gpudoctor.record import dataclass, field

E = TypeVar("E", bound=Event)
F = TypeVar("F", bound=Event)


_ByType = dict[type[Event], list[Event]]


def _of_types(groups: _ByType, types: Sequence[type[Event]]) -> Iterator[Event]:
    """The events of these types, in order."""
    if len(types) == 1:
        return iter(groups.get(types[0], ()))
    found = [event for kind in types for event in groups.get(kind, ())]
    return iter(sorted(found, key=lambda event: event.order))


@dataclass(frozen=True, kw_only=True)
class ExecutionLog:
    """What one execution has done. Read only.

    `log` is the list of events in order; `has_entry` is False for a file that starts nothing, whose functions were
    executed one by one with unknown arguments.
    """

    log: tuple[Event, ...]
    has_entry: bool = True
    parts: Mapping[Value, frozenset[Value]] = field(default_factory=dict)
    """The modules that each module has taken in, on any path."""
    answers: GuardLog = field(default_factory=GuardLog, compare=False)
    """What a rule was told that makes it silent."""

    @cached_property
    def _by_type(self) -> _ByType:
        groups: _ByType = {}
        for event in self.log:
            groups.setdefault(type(event), []).append(event)
        return groups

    @cached_property
    def _by_loop(self) -> dict[Hashable, _ByType]:
        loops: dict[Hashable, _ByType] = {}
        for event in self.log:
            for identity in {loop.identity for loop in event.loops}:
                loops.setdefault(identity, {}).setdefault(type(event), []).append(event)
        return loops

    @cached_property
    def happened(self) -> dict[str, list[Event]]:
        """The events, by the names of their classes."""
        return {kind.__name__: events for kind, events in self._by_type.items()}

    @cached_property
    def _by_place(self) -> dict[Location, list[Event]]:
        places: dict[Location, list[Event]] = {}
        for event in self.log:
            places.setdefault(event.location, []).append(event)
        return places

    def at(self, place: Location) -> Sequence[Event]:
        """What happens there, in order."""
        return self._by_place.get(place, ())

    @overload
    def events(self, kind: type[E], /) -> Iterator[E]: ...
    @overload
    def events(self, kind: type[E], other: type[F], /) -> Iterator[E | F]: ...
    @overload
    def events(self, *types: type[E]) -> Iterator[E]: ...
    def events(self, *types: type[Event]) -> Iterator[Event]:
        """The events of these types, in order."""
        return _of_types(self._by_type, types)

    def has(self, *types: type[Event]) -> bool:
        """Some event of these types happened."""
        return any(kind in self._by_type for kind in types)

    @property
    def whole(self) -> bool:
        """It has an entry: where not, nothing may be said about what is absent."""
        if not self.has_entry:
            self.answers.note(Cause.NO_ENTRY)
        return self.has_entry

    @cached_property
    def lost(self) -> tuple[Imprecision, ...]:
        """Where knowledge ended."""
        return tuple(self.events(Imprecision))

    @cached_property
    def stops(self) -> tuple[Imprecision, ...]:
        """The limits that were reached."""
        return tuple(event for event in self.lost if event.limit)

    @cached_property
    def guesses(self) -> dict[Location, Guess]:
        """Where something was taken for what its name says."""
        return {event.location: event for event in self.events(Guess)}

    @cached_property
    def forwards(self) -> dict[Hashable, Forward]:
        """Module calls by their identity, as tensors' graphs name them."""
        return {event.identity: event for event in self.events(Forward)}

    def calls_in_graph(self, of: Backward | Tensor) -> list[Forward]:
        """The module calls through which a value was made, or through which gradients flow, in order."""
        # A graph may name calls of an earlier execution, which the log no longer holds.
        found = [call for identity in of.forwards if (call := self.forwards.get(identity)) is not None]
        return sorted(found, key=lambda call: call.order)

    def shared_by(self, event: Event) -> Condition:
        """What had to hold for all events of its kind at its place: told once, they need no more than that."""
        alike = (each.condition for each in self.at(event.location) if type(each) is type(event))
        return reduce(Condition.intersection, alike, event.condition)

    def is_caught(self, event: Event, error: str) -> bool:
        """A handler around takes this exception of Python's there, and the program goes on: nothing ends."""
        return self.handler_of(event, error) is not None

    def handler_of(self, event: Event, error: str) -> Caught | None:
        """The handler that takes it."""
        return next((each for each in self.events(Caught) if each.takes(error) and each.tries(event)), None)

    def within(self, module: Value) -> frozenset[Value]:
        """The module under all wrappers, with all its parts."""
        core = module.core
        known = self._within.get(core)
        if known is not None:
            return known
        found: set[Value] = set()
        todo = [core]
        while todo:
            each = todo.pop()
            if each not in found:
                found.add(each)
                todo += (*self.parts.get(each, ()), *(each.members if isinstance(each, Module) else ()))
        known = self._within[core] = frozenset(found)
        return known

    @cached_property
    def _within(self) -> dict[Value, frozenset[Value]]:
        """What was found out about modules: a dozen rules ask about the same ones."""
        return {}

    def iterations_of(self, loader: Value) -> tuple[Iterate, ...]:
        """The loops over a loader."""
        return tuple(event for event in self.events(Iterate) if event.loader == loader)

    def during(self, loop: Loop, *types: type[E]) -> Iterator[E]:
        """The events of these types inside one execution of a loop."""
        return cast("Iterator[E]", _of_types(self._by_loop.get(loop.identity, {}), types))

    def in_known_order(self, one: Event, other: Event) -> bool:
        """What came first is known: functions of a library are read one by one, whichever is called first."""
        return self.has_entry or one.context.frames[:2] == other.context.frames[:2]
