"""A call that is done again from what is remembered of one like it: what that made is made anew."""

from __future__ import annotations

from collections.abc import Hashable
from enum import Enum
from typing import TYPE_CHECKING, Any

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.constant_folding import done_again
from gpudoctor.lint.domain.device import CPU
from gpudoctor.lint.domain.function import Class, Library
from gpudoctor.lint.domain.traced_number import TracedNumber, found_again
from gpudoctor.lint.domain.value import Allocated, Anonymous, Const, Term, Text, Truth, Value, Values, singleton
from gpudoctor.lint.flow.condition import Condition, Literal
from gpudoctor.lint.flow.valueset import Binding, ValueSet
from gpudoctor.lint.interp.function_traits import LeftBehind, RememberedCall
from gpudoctor.record import fields, replace

if TYPE_CHECKING:
    from gpudoctor.lint.events.event_context import EventContext, Loop
    from gpudoctor.lint.interp.evaluator import Evaluator
    from gpudoctor.lint.interp.likeness import Likeness

_WITHOUT_PARTS = frozenset((Const, Library, Class, Location, Text, str, bool, float, type(None)))
"""Kinds of what holds nothing that was made, or is the same for all that was."""


class Repetition:
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
    seen: set[int] = set()
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
