"""Functions that were followed often enough, and never did anything that rules ask about.

Metrics, tokenizers and readers of files take thousands of statements in loops in loops, and the budget that they take
is missing where the program trains. What such a function gives and writes is unknown from then on; it is what it always
was where that was one thing.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable
from types import NoneType

from gpudoctor.lint.domain.abstract_state import NO, ContainerState, ObjectState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, Enumerated, ListOf, TupleOf
from gpudoctor.lint.domain.data import Dataset
from gpudoctor.lint.domain.function import BoundMethod, Class, Function, Instance, Library, ProjectModule, class_of
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.traced_number import number_of
from gpudoctor.lint.domain.value import (
    Anonymous,
    Const,
    Text,
    Truth,
    Unknown,
    Value,
    Values,
    divergence_of,
    shards_of,
    singleton,
)
from gpudoctor.lint.events.collective import Discard, LeaveLoop
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.files import ChangeFolder, ReadFile
from gpudoctor.lint.events.host_waits import ClockRead
from gpudoctor.lint.events.knowledge import Escape, Imprecision
from gpudoctor.lint.events.process import (
    ArgumentDeclared,
    ArgumentsParsed,
    Caught,
    EnvironmentRead,
    ReadOwn,
    SeedSet,
    SettingRead,
    Swallowed,
)
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.contents import add_more, possible_pairs
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.function_traits import CallMemory, Habit
from gpudoctor.lint.interp.limits import MAX_QUIET_STATEMENTS, SHORT_CALL
from gpudoctor.lint.interp.position import NEVER, Frame
from gpudoctor.record import dataclass

_PLAIN = (Const, Unknown, Text, Truth, ListOf, DictOf, Instance)
"""What a function may be given, and give, that is data: nothing to train with, and nothing to call."""
_CODE = (Class, Function, BoundMethod, Library, ProjectModule)
_OBJECTS = (Instance, Dataset, Unknown, Text)
# To see these a second time would tell no rule anything new.
_REPEATABLE = (
    Imprecision, Escape, SettingRead, EnvironmentRead, ClockRead, ReadOwn, ArgumentDeclared, ArgumentsParsed, ReadFile
)  # fmt: skip
_MINOR = (Caught, Swallowed, Discard, SeedSet, ChangeFolder)
"""Of these rules know once they have happened in a function."""
_NESTED = 2
"""So many levels deep a table of what there is to make may lie in another one."""
_LOOKED_AT = 32
"""So many entries of it are looked at."""
_CONTENTS = (ContainerState.items, ContainerState.entries, ContainerState.more, ContainerState.by_rank)


@dataclass(frozen=True)
class EffectWatch:
    """What was there before a function was followed."""

    statements: int
    events: int
    clock: int
    oldest_write: int

    @classmethod
    def begin(cls, m: Evaluator) -> EffectWatch:
        """Watch from now on what is written."""
        watch = cls(m.statements, len(m.log), m.clock, m.oldest_write)
        m.oldest_write = NEVER
        return watch

    def end(self, m: Evaluator, function: Function, frame: Frame, arguments: Arguments, result: Values) -> None:
        """Remember what the call has done, and what it took."""
        # Written only to what it made itself: nothing of it outlives the call but the result.
        own = m.oldest_write >= self.clock
        m.oldest_write = min(m.oldest_write, self.oldest_write)
        cost = m.statements - self.statements
        if cost < SHORT_CALL:
            return
        if own and not m.unreachable:
            m.memories.setdefault(function, CallMemory()).cost += cost
        habit = m.habits.get(function.node)
        # Nothing would come of looking through its events.
        if habit is None or not habit.loud:
            quiet = all(isinstance(event, _MINOR) or self._is_repeatable(event) for event in m.log[self.events :])
            _note_call(m, function, frame, arguments.values(), cost, quiet, result)

    def _is_repeatable(self, event: Event) -> bool:
        if not isinstance(event, LeaveLoop):
            return isinstance(event, _REPEATABLE)
        # Only ways out of the caller's loops, and quiet ends of some ranks, matter to the caller.
        own = event.loop is None or event.loop.entered >= self.events
        return own and (event.how != "exit" or not event.condition.divergence & (Divergence.RANK | Divergence.LOCAL))


def _note_call(
    m: Evaluator, function: Function, frame: Frame, given: list[Value], cost: int, quiet: bool, result: Values
) -> None:
    """Remember what a call has done that is over."""
    if m.muted:
        return
    habit = m.habits.setdefault(function.node, Habit())
    habit.loud = habit.loud or not quiet or m.unreachable or not all(_is_mere_data(m, each) for each in result)
    habit.loud = habit.loud or not all(
        isinstance(each, Module) or each == frame.receiver or _is_mere_data(m, each) for each in given
    )
    if habit.loud:
        return
    habit.cost += cost
    habit.kinds.update(map(_kind, given))
    habit.results.update(dict.fromkeys(result))
    for side in frame.exits:
        for key, values in side.writes.items():
            _note_write(habit, frame.receiver, key, values)


def _note_write(habit: Habit, receiver: Value | None, key: Hashable, values: Values) -> None:
    """Remember what was written that was there before."""
    habit.loud = habit.loud or not _may_be_anything(key)
    if isinstance(key, tuple) and len(key) == 2:
        owner, name = key
        key = (None if owner == receiver else owner), name
        habit.written[key] = values if habit.written.get(key, values) == values else None


def _is_mere_data(m: Evaluator, value: Value) -> bool:
    plain = all(isinstance(each, (*_PLAIN, TupleOf, Enumerated)) for each in _parts([value]))
    return plain and not _decides_later(m, value, _NESTED)


def _decides_later(m: Evaluator, value: Value, levels: int) -> bool:
    """Settings, or a table of what there is to make: somebody will look up what to train, and with what."""
    if not isinstance(value, DictOf):
        return isinstance(value, _CODE)
    if m.flag(value, ObjectState.of_settings) is not NO:
        return True
    held = dict.fromkeys([each for _, values in possible_pairs(m, value)[:_LOOKED_AT] for each in values])
    return levels > 0 and any(_decides_later(m, each, levels - 1) for each in held)


def _kind(value: Value) -> object:
    """What a function may be followed differently for: another class has other methods, and None is often asked for."""
    if isinstance(value, Const):
        plain = number_of(value)
        return plain if isinstance(plain, (bool, NoneType)) else type(plain)
    return class_of(value) or (value.made_by if isinstance(value, Module) else type(value))


def _may_be_anything(key: Hashable) -> bool:
    """A name, an attribute of an object of the program, or what a container holds."""
    if not isinstance(key, tuple) or len(key) != 2:
        # An entry of what was read from a file.
        return isinstance(key, tuple) and isinstance(key[0], Unknown)
    owner, name = key
    if isinstance(owner, (ListOf, DictOf)):
        return name in _CONTENTS
    return isinstance(name, str) and (isinstance(owner, _OBJECTS) or not isinstance(owner, Value))


def by_habit(m: Evaluator, habit: Habit, arguments: Arguments, node: ast.AST) -> Values | None:
    """The result of a call without following it; None where it must be followed."""
    if habit.loud or habit.cost < MAX_QUIET_STATEMENTS or not habit.kinds.issuperset(map(_kind, arguments.values())):
        return None
    unknown = _unknowns(m, habit, arguments, node)
    receiver = next(iter(arguments.positional[0]), None) if arguments.positional else None
    for (owner, name), values in habit.written.items():
        _write(m, (receiver if owner is None else owner, name), values, unknown)
    if habit.written:
        for value in arguments.values():
            if isinstance(value, (ListOf, DictOf)):
                add_more(m, value, unknown("more items"))
    only = [*habit.results]
    same = len(only) == 1 and isinstance(only[0], (Const, Text, Truth))
    return singleton(only[0]) if same else unknown("a result")


def _write(m: Evaluator, key: tuple[Hashable, str], always: Values | None, unknown: Callable[[str], Values]) -> None:
    owner, name = key
    if isinstance(owner, (ListOf, DictOf)):
        add_more(m, owner, unknown("more items"))
    else:
        m.write(key, unknown(name) if always is None else always)


def _unknowns(m: Evaluator, habit: Habit, arguments: Arguments, node: ast.AST) -> Callable[[str], Values]:
    """Makes values of which is known how far ranks may disagree about them."""
    written = [each for values in habit.written.values() for each in values or ()]
    parts = _parts([*arguments.values(), *habit.results, *written])
    divergence, shards = divergence_of(parts), shards_of(parts)

    def unknown(what: str) -> Values:
        term = Anonymous(what, m.allocation_site(m.place(node)))
        return singleton(Unknown(term, "a function that was followed often enough", "", divergence, shards=shards))

    return unknown


def _parts(values: Iterable[Value]) -> dict[Value, None]:
    """These values and what tuples among them hold, each once: what is twice in a tuple may be twice in its parts."""
    found = dict.fromkeys(values)
    todo = list(found)
    while todo:
        value = todo.pop()
        items = value.items if isinstance(value, (TupleOf, Enumerated)) else ()
        fresh = dict.fromkeys([each for item in items for each in item if each not in found])
        found.update(fresh)
        todo += fresh
    return found
