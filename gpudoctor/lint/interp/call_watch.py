"""What a call does while it is followed, so that one like it can be repeated: what it reads, asks, writes and logs."""

from __future__ import annotations

from collections.abc import Hashable

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.traced_number import TracedNumber, is_number
from gpudoctor.lint.domain.value import UNBOUND, Allocated, Composed, Const, Term, Unknown, Value, Values
from gpudoctor.lint.events.collective import Discard
from gpudoctor.lint.events.files import ReadFile
from gpudoctor.lint.events.knowledge import Escape, Imprecision, UseManaged
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import (
    ArgumentDeclared,
    ArgumentsParsed,
    Caught,
    EnvironmentRead,
    InitGroup,
    SettingRead,
    Spawn,
    Swallowed,
)
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.function_traits import RememberedCall
from gpudoctor.lint.interp.likeness import answer_on
from gpudoctor.lint.interp.position import Notes

_TOLD_ONCE = (
    ArgumentDeclared, ArgumentsParsed, Caught, Discard, EnvironmentRead, Imprecision, ReadFile, SettingRead, Swallowed,
)  # fmt: skip
"""To see these a second time at the same place would tell no rule anything new."""
_BEGINS = (InitGroup, Spawn, UseManaged, Wrap)
"""What may begin the execution anew."""


def _hands_over(event: Escape) -> bool:
    """Something that rules know again goes out of sight."""
    return event.may_begin_group or any(isinstance(each, Allocated) for each in event.values)


class CallWatch:
    """What was there before a call, and what it has read, written and asked since."""

    def __init__(self, m: Evaluator, made: Value | None) -> None:
        self._m, self._made = m, made
        self._begun = m.clock if made is None else m.age((made, ""))
        self._path, self._settled = m.path, m.settled
        self._reads, self._events, self._raised = len(m.reads), len(m.log), len(m.raised)
        self._imports, self._statements = m.spent_on_imports, m.statements
        self._young: dict[Term | Composed, bool] = {}
        self._loops = sum(not loop.inside_generator for loop in m.open_loops)
        self._outermost = m.notes is None
        self._notes = notes = Notes() if m.notes is None else m.notes
        self._written, self._asked, self._kept = len(notes.written), len(notes.asked), len(notes.kept)
        self._decided, self._looked_up = len(notes.numbers.looked_at), m.looked_up
        self._asked_by_name = m.asked_by_name
        self._listener = m.listener
        self._heard = m.listener.apart() if m.listener is not None else None

    def __enter__(self) -> CallWatch:
        self._m.notes, self._m.listener = self._notes, self._heard
        return self

    def __exit__(self, *_: object) -> None:
        self._m.listener = self._listener
        if self._listener is not None:
            self._listener.add(self._heard)
        if self._outermost:
            self._m.notes = None
            self._notes.numbers.open = False

    def traced(self, arguments: Arguments) -> Arguments:
        """The same arguments, of whose numbers is noted what becomes of them."""
        named = {name: self._with_traces(values) for name, values in arguments.keywords.items()}
        return Arguments(tuple(map(self._with_traces, arguments.positional)), named, arguments.rest)

    def _with_traces(self, values: Values) -> Values:
        return (
            values.map(self._with_trace)
            if any(is_number(each) or isinstance(each, TupleOf) for each in values)
            else values
        )

    def _with_trace(self, value: Value) -> Value:
        if isinstance(value, TupleOf):
            return TupleOf(tuple(map(self._with_traces, value.items)))
        if isinstance(value, TracedNumber) or not is_number(value):
            return value
        assert isinstance(value, Const)
        assert isinstance(value.value, (int, float))
        return self._notes.numbers.number(value.value)

    def call(self, arguments: Arguments, result: Values) -> RememberedCall | None:
        """The call that is over now; None where one more is no repetition of it."""
        m, begun, path = self._m, self._begun, self._path
        # A module is executed just once, and what a setting file names is another thing for another setting.
        if m.unreachable or m.path != path or (m.spent_on_imports, m.looked_up) != (self._imports, self._looked_up):
            return None
        events = [each for each in m.log[self._events :] if not isinstance(each, _TOLD_ONCE)]
        if any(isinstance(each, _BEGINS) for each in events):
            return None
        # That code was called which is not read is said once.
        silent = [each.order for each in events if isinstance(each, Escape) and not _hands_over(each)][1:]
        events = [each for each in events if each.order not in silent]
        before: dict[Hashable, Values | None] = {}
        for key, held in self._notes.written[self._written :]:
            before.setdefault(key, held)
        now = m.store.now
        read: dict[Hashable, Values | None] = {}
        asked_for = set(m.reads[self._reads :])
        for key in dict.fromkeys((*m.reads[self._reads :], *before)):
            if m.age(key) < begun and not self._is_of_what_was_made(key):
                values = before[key] if key in before else now.get(key)
                # Where a branch has written it, it may still be what it was.
                if key in asked_for or values is not None or key not in now or UNBOUND in [*now[key]]:
                    read[key] = values.restrict(path) if values is not None else None
        tests = dict.fromkeys(self._notes.asked[self._asked :])
        for values in (*arguments, *(arguments.rest or ()), *read.values()):
            for binding in values.bindings if values is not None and not values.is_definite else ():
                tests.update(dict.fromkeys(binding.condition))
        # The names of calls that are over are gone, and those that somebody still sees are not.
        writes = [(key, now[key]) for key in before if key in now]
        for scope in self._notes.kept[self._kept :]:
            writes += [((scope, name), now[scope, name]) for name in m.store.names(scope) if (scope, name) in now]
        owners = dict.fromkeys([key[0] for key, _ in writes if isinstance(key, tuple)])
        return RememberedCall(
            begun, read, {each: answer_on(m, self._path, self._settled, each) for each in tests},
            self._made, writes,
            [(each, frozenset(m.parts[each])) for each in owners if each in m.parts],
            result, m.raised[self._raised :], m.settled.difference(self._settled), arguments,
            self._notes.numbers.looked_at[self._decided :], events, len(m.calls), len(m.frames), self._loops, path,
            m.statements - self._statements, m.asked_by_name != self._asked_by_name, self._heard,
        )  # fmt: skip

    def _is_of_what_was_made(self, key: Hashable) -> bool:
        """A fact about a part of it, which is known by what it is a part of."""
        owner = key[0] if isinstance(key, tuple) else key
        return self._holds_young(owner)

    def _holds_young(self, part: object) -> bool:
        if isinstance(part, Allocated):
            if not isinstance(part.identity, tuple):
                return self._is_young(part.identity)
            return any(self._is_young(each) or self._holds_young(each) for each in part.identity)
        if isinstance(part, Unknown):
            return self._holds_young(part.term)
        if not isinstance(part, (Term, Composed)):
            return False
        known = self._young.get(part)
        if known is None:
            known = self._young[part] = any(map(self._holds_young, part.parts))
        return known

    def _is_young(self, identity: Hashable) -> bool:
        return self._m.age((identity, "")) >= self._begun
