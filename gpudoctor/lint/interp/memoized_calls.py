"""Calls that were followed before with the same arguments, and are done again from memory.

A network is made of dozens of alike blocks, each by a constructor that takes as many statements as the first one. What
such a call has read, written and returned is remembered, and where a later one would read the same, its writes are
repeated with everything that it has made made anew: the layers of the tenth block are its own. That costs one
statement for each object. What it has logged is logged again, on the way that leads through the new call.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from enum import Enum
from typing import TYPE_CHECKING, Any

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.constant_folding import done_again
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.device import CPU
from gpudoctor.lint.domain.function import Class, Library
from gpudoctor.lint.domain.traced_number import TracedNumber, found_again, is_number
from gpudoctor.lint.domain.value import (
    Allocated,
    Anonymous,
    Const,
    Term,
    Text,
    Truth,
    Unknown,
    Value,
    Values,
    singleton,
)
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
from gpudoctor.lint.flow.condition import Condition, Literal
from gpudoctor.lint.flow.valueset import Binding, ValueSet
from gpudoctor.lint.interp.function_traits import CallMemory, LeftBehind, RememberedCall
from gpudoctor.lint.interp.likeness import EXCHANGED, Likeness, answer_on
from gpudoctor.lint.interp.position import Notes
from gpudoctor.record import fields, replace

if TYPE_CHECKING:
    from gpudoctor.lint.events.event_context import EventContext, Loop
    from gpudoctor.lint.interp.evaluator import Evaluator

_TOLD_ONCE = (
    ArgumentDeclared, ArgumentsParsed, Caught, Discard, EnvironmentRead, Imprecision, ReadFile, SettingRead, Swallowed,
)  # fmt: skip
"""To see these a second time at the same place would tell no rule anything new."""
_BEGINS = (InitGroup, Spawn, UseManaged, Wrap)
"""What may begin the execution anew."""
_WITHOUT_PARTS = frozenset((Const, Library, Class, Location, Text, str, bool, float, type(None)))
"""Kinds of what holds nothing that was made, or is the same for all that was."""


def repeated(
    m: Evaluator, memory: CallMemory, arguments: Arguments, at: Location, made: Value | None = None
) -> Values | None:
    """The result of a call where an earlier one has done the same; None where it has to be followed.

    Where it is to construct an object, that is not among the arguments, and nothing is known of it yet.
    """
    if not memory.calls or not _may_repeat(m):
        return None
    for past in memory.calls.get(_kinds(m, arguments), ()):
        likeness = Likeness(m)
        if (m.listener is None or past.heard is not None) and likeness.found(past, arguments):
            memory.repeated = True
            m.tick()
            return _Repetition(m, past, made, likeness, at).done()
    return None


def noted(
    m: Evaluator,
    memory: CallMemory,
    arguments: Arguments,
    run: Callable[[Arguments], Values],
    made: Value | None = None,
) -> Values:
    """The result of a call that is followed, which is noted where it may pay."""
    if not memory.pays or not _may_repeat(m):
        return run(arguments)
    memory.noted += 1
    with _CallWatch(m, made) as watch:
        given = watch.traced(arguments)
        result = run(given)
        done = watch.call(given, result)
    if done is not None:
        memory.calls.setdefault(_kinds(m, arguments), []).append(done)
    return result


def _may_repeat(m: Evaluator) -> bool:
    """Who looks ahead so far and no further wants it to be done."""
    return not m.muted and m.look_ends is None


def _kinds(m: Evaluator, arguments: Arguments) -> tuple[Hashable, ...]:
    """What calls have in common of which one may be a repetition of the other."""
    named = tuple([(name, _kinds_of(each)) for name, each in arguments.keywords.items()])
    return m.contexts, m.file_errors_caught, tuple(map(_kinds_of, arguments.positional)), named


def _kinds_of(values: Values) -> Hashable:
    return tuple(map(_kind_of, values))


def _kind_of(value: Value) -> Hashable:
    if is_number(value):
        return float
    if isinstance(value, TupleOf):
        return TupleOf, len(value.items)
    exchanged = isinstance(value, Unknown) or type(value) in EXCHANGED
    return type(value).__name__ if exchanged else value


def _hands_over(event: Escape) -> bool:
    """Something that rules know again goes out of sight."""
    return event.may_begin_group or any(isinstance(each, Allocated) for each in event.values)


class _CallWatch:
    """What was there before a call, and what it has read, written and asked since."""

    def __init__(self, m: Evaluator, made: Value | None) -> None:
        self._m, self._made = m, made
        self._begun = m.clock if made is None else m.age((made, ""))
        self._path, self._settled = m.path, m.settled
        self._reads, self._events, self._raised = len(m.reads), len(m.log), len(m.raised)
        self._imports, self._statements = m.spent_on_imports, m.statements
        self._young: dict[Term, bool] = {}
        self._loops = sum(not loop.inside_generator for loop in m.open_loops)
        self._outermost = m.notes is None
        self._notes = notes = Notes() if m.notes is None else m.notes
        self._written, self._asked, self._kept = len(notes.written), len(notes.asked), len(notes.kept)
        self._decided = len(notes.numbers.looked_at)
        self._listener = m.listener
        self._heard = m.listener.apart() if m.listener is not None else None

    def __enter__(self) -> _CallWatch:
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
        # A module is executed just once.
        if m.unreachable or m.path != path or m.spent_on_imports != self._imports:
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
        # Where a branch has written it, it may still be what it was.
        for key in dict.fromkeys((*m.reads[self._reads :], *before)):
            if m.age(key) < begun and not self._is_of_what_was_made(key):
                values = before[key] if key in before else now.get(key)
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
            begun, path.divergence, read, {each: answer_on(m, self._path, self._settled, each) for each in tests},
            self._made, writes,
            [(each, frozenset(m.parts[each])) for each in owners if each in m.parts],
            result, m.raised[self._raised :], m.settled.difference(self._settled), arguments,
            self._notes.numbers.looked_at[self._decided :], events, len(m.calls), len(m.frames), self._loops, path,
            m.statements - self._statements, self._heard,
        )  # fmt: skip

    def _is_of_what_was_made(self, key: Hashable) -> bool:
        """A fact about an unknown part of it."""
        owner = key[0] if isinstance(key, tuple) else key
        return isinstance(owner, Unknown) and self._holds_young(owner.term)

    def _holds_young(self, part: object) -> bool:
        if isinstance(part, Allocated):
            return self._m.age((part, "")) >= self._begun
        if isinstance(part, Unknown):
            return self._holds_young(part.term)
        if not isinstance(part, Term):
            return False
        known = self._young.get(part)
        if known is None:
            known = self._young[part] = any(map(self._holds_young, part.parts))
        return known


def _is_scope(part: object) -> bool:
    """The names of a call."""
    return isinstance(part, tuple) and len(part) == 2 and part[0] == "frame"


def _lasting(m: Evaluator, past: RememberedCall) -> list[LeftBehind]:
    """What is left of a call: what it wrote of what was there before, of what it made for others, and of what those
    hold. All else nobody can ask for any more."""
    by_owner: dict[Hashable, list[tuple[tuple[Hashable, ...], Values]]] = {}
    for key, values in past.writes:
        assert isinstance(key, tuple)
        by_owner.setdefault(key[0], []).append((key[1:], values))
    found: list[LeftBehind] = []
    todo: list[object] = [past.made, past.result, *(owner for owner in by_owner if m.age((owner, "")) < past.begun)]
    seen = set[int]()
    while todo:
        part = todo.pop()
        if type(part) in _WITHOUT_PARTS or id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, (Value, tuple)) and part in by_owner:
            held = by_owner.pop(part)
            fixed = [(rest, values) for rest, values in held if _is_fixed(values)]
            cells = [(rest, values) for rest, values in held if not _is_fixed(values)]
            todo += [values for _, values in cells]
            is_new = m.age((part, "")) >= past.begun
            found.append(LeftBehind(part, is_new, _made_of(part) if is_new else None, fixed, cells))
        if isinstance(part, ValueSet):
            todo += [binding.value for binding in part.bindings]
        elif isinstance(part, (frozenset, tuple)):
            todo += part
        elif (
            isinstance(part, (Value, Term))
            and not isinstance(part, TracedNumber)
            and (not isinstance(part, Allocated) or m.age((part, "")) >= past.begun or type(part.identity) is not int)
        ):
            record: Any = part
            todo += [getattr(record, one.name) for one in fields(record)]
    return found


def _made_of(made: object) -> tuple[object, ...] | None:
    """What it is made of, where all but its identity is the same for each call."""
    if not isinstance(made, Allocated) or type(made.identity) is not int:
        return None
    record: Any = made
    parts = tuple([getattr(record, each.name) for each in fields(record) if each.name != "identity"])
    return parts if _is_fixed(parts) else None


def _is_fixed(part: object) -> bool:
    """It is the same for each call, whatever that is given and makes."""
    if type(part) in _WITHOUT_PARTS or part is CPU or isinstance(part, Enum):
        return True
    if isinstance(part, ValueSet):
        return part.is_definite and _is_fixed(part.single)
    return isinstance(part, (frozenset, tuple)) and all(map(_is_fixed, part))


class _Repetition:
    """A call that is done again: what it made is made anew, and all else is what it was."""

    def __init__(
        self, m: Evaluator, past: RememberedCall, made: Value | None, likeness: Likeness, at: Location
    ) -> None:
        self._m, self._past, self._likeness, self._at = m, past, likeness, at
        self._renamed = likeness.values
        self._numbers, self._tests = likeness.numbers, likeness.tests
        if isinstance(past.made, Allocated) and isinstance(made, Allocated):
            self._renamed |= {past.made: made, past.made.identity: made.identity}

    def done(self) -> Values:
        """Write what it wrote, and give back what it returned."""
        m, past, again = self._m, self._past, self._again
        if not past.lasting:
            past.lasting.extend(_lasting(m, past))
        self._make_plain([each for each in past.lasting if each.made_of is not None])
        for each in past.lasting:
            owner = again(each.owner)
            held = [*each.fixed, *[(rest, self._set_again(values)) for rest, values in each.cells]]
            if not each.is_new:
                for rest, values in held:
                    m.write((owner, *rest), values)
            else:
                m.store.begin(owner, held)
                if m.notes is not None:
                    m.notes.written += [((owner, *rest), None) for rest, _ in held]
        for whole, parts in past.parts:
            if whole in self._renamed:
                m.parts.setdefault(again(whole), set()).update(map(again, parts))
        self._logged = len(m.log)
        for event in past.events:
            said = {name: again(held) for name, held in event.said.items()}
            m.replay_event(replace(event, context=self._context_again(event.context), **said))
        if m.listener is not None:
            m.listener.add(past.heard)
        # Who notes what is done around it.
        m.reads += map(self._likeness.key, past.read)
        if m.notes is not None:
            m.notes.asked += map(self._literal_again, past.asked)
        m.raised += past.raised
        m.settled = m.settled.and_(past.settled)
        # To make an object anew takes as long as a statement does, and never counts more than the call itself.
        m.statements += min(len(past.lasting), past.statements)
        result: Values = again(past.result)
        return result

    def _make_plain(self, left: list[LeftBehind]) -> None:
        """Others in the place of objects that are the same but for what they hold."""
        left = [each for each in left if each.owner not in self._renamed]
        if not left:
            return
        for each, identity in zip(left, self._m.identities(len(left), "again", left[0].owner.identity), strict=True):
            old, parts = each.owner, each.made_of
            assert parts is not None
            self._renamed[old] = type(old)(identity, *parts)
            self._renamed[old.identity] = identity

    def _context_again(self, old: EventContext) -> EventContext:
        """The way there, which leads through the new call."""
        m, past = self._m, self._past
        here = m.event_context(old.location)
        entered = tuple(map(self._asked_again, old.conditions_at_entry[past.frames :]))
        return replace(
            here,
            calls=(*here.calls, self._at, *old.calls[past.calls + 1 :]),
            condition=self._asked_again(old.condition),
            function=old.function,
            evaluating=old.evaluating,
            contexts=old.contexts,
            frames=(*here.frames, *map(self._again, old.frames[past.frames :])),
            loops=(*here.loops, *map(self._loop_again, old.loops[past.loops :])),
            conditions_at_entry=(*here.conditions_at_entry, *entered),
            called_by_decorator=(*here.called_by_decorator, *old.called_by_decorator[past.frames :]),
        )

    def _loop_again(self, old: Loop) -> Loop:
        before = sum(event.order < old.entered for event in self._past.events)
        told = ("identity", "over", "frame", "items", "source")
        return replace(old, entered=self._logged + before, **{name: self._again(getattr(old, name)) for name in told})

    def _asked_again(self, old: Condition) -> Condition:
        """What was asked since the call began, on the path that leads here."""
        return self._m.path.and_(self._condition_again(old.difference(self._past.path)))

    def _again(self, old: Any) -> Any:
        """What stands in the place of something that the call has left: itself, unless the call has made it."""
        kind = type(old)
        if kind in _WITHOUT_PARTS:
            return old
        if kind is TracedNumber:
            return found_again(old.way, self._numbers, done_again) or old
        if kind is Truth:
            return Truth(self._literal_again(old.literal)) if self._tests else old
        if kind is ValueSet:
            return self._set_again(old)
        if kind is int:
            return self._identity_again(old)
        if kind is Anonymous and type(old.of) is int:
            # What nobody knows of two calls is the same: so it was where the second was not followed.
            return old
        if kind is tuple and not _is_scope(old):
            parts = [self._again(each) for each in old]
            return old if all(new is each for new, each in zip(parts, old, strict=True)) else tuple(parts)
        if kind is tuple or isinstance(old, (Value, Term)):
            known = self._renamed.get(old)
            if known is None:
                known = self._renamed[old] = self._made_anew(old)
            return known
        return frozenset(map(self._again, old)) if kind is frozenset else old

    def _set_again(self, old: Values) -> Values:
        if old.is_definite:
            new = self._renamed.get(old.single) or self._again(old.single)
            return old if new is old.single else singleton(new)
        bindings = [(each, self._again(each.value)) for each in old.bindings]
        if not self._tests and all(each.value is new for each, new in bindings):
            return old
        return ValueSet([Binding(new, self._condition_again(each.condition)) for each, new in bindings])

    def _condition_again(self, old: Condition) -> Condition:
        if not self._tests or not old.literals:
            return old
        return Condition(frozenset(map(self._literal_again, old.literals)))

    def _literal_again(self, old: Literal) -> Literal:
        return Literal(self._tests.get(old.atom, old.atom), old.holds)

    def _made_anew(self, old: Any) -> Any:
        m, begun = self._m, self._past.begun
        if type(old) is tuple:
            # The scope of a call whose names a function of its own still sees.
            return m.open_scope() if m.age((old, "")) >= begun else old
        if not isinstance(old, Allocated):
            return self._record_again(old)
        identity = self._identity_again(old.identity)
        # Nothing younger is in what was there before.
        if identity is old.identity:
            return old
        return self._record_again(old, identity=identity)

    def _identity_again(self, old: Hashable) -> Hashable:
        if type(old) is tuple:
            parts = tuple(map(self._identity_again, old))
            return old if all(new is each for new, each in zip(parts, old, strict=True)) else parts
        if type(old) is not int:
            other: Hashable = self._again(old)
            return other
        known: Hashable = self._renamed.get(old)
        if known is None:
            fresh = self._m.age((old, "")) >= self._past.begun
            known = self._renamed[old] = self._m.identities(1, "again", old)[0] if fresh else old
        return known

    def _record_again(self, old: Any, **changes: object) -> Any:
        for each in fields(old):
            held = getattr(old, each.name)
            if each.name not in changes and (new := self._again(held)) is not held:
                changes[each.name] = new
        return replace(old, **changes) if changes else old
