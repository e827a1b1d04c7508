"""Whether a call that begins here would do what an earlier one has done, and what stands in the place of what.

The earlier call was given a layer, a number, something unknown; this one is given another. As long as nothing was
found out about the first that is not so of the second, the one may stand in the place of the other.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.constant_folding import done_again
from gpudoctor.lint.domain.container import DictOf, ListOf
from gpudoctor.lint.domain.function import Instance, Namespace
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.symbols import speaks_of
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.traced_number import TracedNumber, found_again, number_of
from gpudoctor.lint.domain.value import Composed, Const, Term, Unknown, Value, Values
from gpudoctor.lint.flow.condition import Atom, Condition, Literal
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.function_traits import RememberedCall
from gpudoctor.lint.interp.operators import bound_in
from gpudoctor.record import fields, replace

EXCHANGED = frozenset((DictOf, Instance, ListOf, Module, Namespace, Tensor))
"""Kinds of what one may be as good as another of: all that is found out about it stands in the store."""
_NAMES = frozenset(("identity", "place", "label", "why"))
"""What tells such values apart, or only a reader."""


def answer_on(m: Evaluator, path: Condition, settled: Condition, literal: Literal) -> bool | None:
    """What is known of a test on a path."""
    known = path.answer(literal)
    if known is None and settled:
        known = settled.leaves_open(literal, path)
    if known is None and (assumed := m.assumptions.get(literal.atom.key)) is not None:
        known = assumed is literal.holds
    return known


class Likeness:
    """What stands in the place of what an earlier call was given: values, numbers, and tests of them."""

    def __init__(self, m: Evaluator) -> None:
        self._m = m
        self.values: dict[Hashable, Any] = {}
        self.numbers: dict[Hashable, Const] = {}
        self.tests: dict[Atom, Atom] = {}
        self._parts: dict[Hashable, Any] = {}
        self._taken: set[Hashable] = set()
        self._differs = False

    def found(self, past: RememberedCall, arguments: Arguments) -> bool:
        """A call that begins here with these arguments does the same."""
        m = self._m
        trace = m.notes.numbers.looked_at if m.notes is not None else []
        seen = len(trace)
        is_alike = self._is_given_alike(past.arguments, arguments) and self._finds_alike(past)
        if is_alike and self._decides_alike(past) and not (past.by_name and self._differs):
            return True
        # What was looked at for this alone decides nothing.
        del trace[seen:]
        return False

    def _is_given_alike(self, old: Arguments, new: Arguments) -> bool:
        if len(old.positional) != len(new.positional) or [*old.keywords] != [*new.keywords]:
            return False
        if (old.rest is None) is not (new.rest is None) or len(old.rest or ()) != len(new.rest or ()):
            return False
        return all(map(self._are_alike, (*old, *(old.rest or ())), (*new, *(new.rest or ()))))

    def _finds_alike(self, past: RememberedCall) -> bool:
        now, path = self._m.store.now, self._m.path
        for key, values in past.read.items():
            found = now.get(self.key(key))
            if found is None or values is None:
                if found is not values:
                    return False
            elif not self._are_alike(values, found.restrict(path)):
                return False
        return True

    def key(self, key: Hashable) -> Hashable:
        """What is read in the place of what was read."""
        owner: Hashable = self.values.get(key[0]) if isinstance(key, tuple) else None
        return (owner, *key[1:]) if owner is not None and isinstance(key, tuple) else key

    def _decides_alike(self, past: RememberedCall) -> bool:
        m = self._m
        for literal, answer in past.asked.items():
            new = self._test(literal.atom) if self._differs else literal.atom
            if answer_on(m, m.path, m.settled, Literal(new, literal.holds)) is not answer:
                return False
        for way, value in past.decided:
            result = found_again(way, self.numbers, done_again)
            if result is None or type(number_of(result)) is not type(value) or number_of(result) != value:
                return False
            if isinstance(result, TracedNumber):
                result.note(result.way, value)
        return True

    def _test(self, atom: Atom) -> Atom:
        """The same test of what stands in the place of what was asked."""
        known = self.tests.get(atom)
        if known is not None:
            return known
        key = self._part(atom.key)
        if key is atom.key:
            return atom
        every, none = tuple(map(self._part, atom.every)), tuple(map(self._part, atom.none))
        asked = bound_in(key) if isinstance(key, Term) else None
        new = self.tests[atom] = replace(atom, key=key, every=every, none=none, bound=asked)
        return new

    def _part(self, old: Any) -> Any:
        """A part of a test, with what stands in the place of what it was about."""
        match old:
            case Unknown() | Term():
                known = self.values.get(old) or self._parts.get(old)
                if known is None:
                    known = self._parts[old] = self._of_parts(old)
                return known
            case TracedNumber():
                return found_again(old.way, self.numbers, done_again) or old
            case Value():
                return self.values.get(old, old)
            case ValueSet():
                bindings = [(each, self._part(each.value)) for each in old.bindings]
                changed = any(new is not each.value for each, new in bindings)
                return ValueSet([type(each)(new, each.condition) for each, new in bindings]) if changed else old
            case Literal():
                return Literal(self._test(old.atom), old.holds)
            case frozenset():
                inner = frozenset(map(self._part, old))
                return old if inner == old else inner
            case tuple():
                parts = tuple(map(self._part, old))
                return parts if any(new is not each for new, each in zip(parts, old, strict=True)) else old
        return old

    def _of_parts(self, old: Unknown | Term) -> Unknown | Term:
        record: Any = old
        names = ["term"] if isinstance(old, Unknown) else [each.name for each in fields(record)]
        changes = {name: self._part(getattr(old, name)) for name in names}
        changes = {name: new for name, new in changes.items() if new is not getattr(old, name)}
        changed: Unknown | Term = replace(record, **changes) if changes else old
        return changed

    def _are_alike(self, old: Values, new: Values) -> bool:
        if old is new and old.is_definite and type(old.single) in (Const, bool):
            return True
        if len(old.bindings) != len(new.bindings):
            return False
        return all(
            self._is_alike(one.value, other.value) and self._are_tests_alike(one.condition, other.condition)
            for one, other in zip(old.bindings, new.bindings, strict=True)
        )

    def _are_tests_alike(self, old: Condition, new: Condition) -> bool:
        """They are the same tests, or tests of what stands in the place of what the others are about."""
        if old == new:
            return True
        if len(old.literals) != len(new.literals):
            return False
        for one, other in zip(old, new, strict=True):
            if one.holds is not other.holds or not self._is_part_alike(one.atom.key, other.atom.key):
                return False
            self.tests[one.atom] = other.atom
        return True

    def _is_part_alike(self, old: object, new: object) -> bool:
        """A part of a test, and that of another one."""
        if old is new:
            return True
        if type(old) is not type(new):
            return False
        match old, new:
            case Value(), Value():
                return self._is_alike(old, new)
            case ValueSet(), ValueSet():
                return self._are_alike(old, new)
            case Term(), Term():
                return all(map(self._is_part_alike, old.parts, new.parts))
            case tuple(), tuple():
                return len(old) == len(new) and all(map(self._is_part_alike, old, new))
        return old == new

    def _is_alike(self, old: Value, new: Value) -> bool:
        kind = type(old)
        if kind is TracedNumber:
            assert isinstance(old, TracedNumber)
            return self._stands_for_number(old, new)
        if old.is_constant:
            return old == new
        if kind is not type(new):
            return False
        if isinstance(old, Composed):
            return isinstance(new, Composed) and self._is_part_alike(old.parts, new.parts)
        if kind is Unknown or kind in EXCHANGED:
            return self._stands_for(old, new)
        return old == new

    def _stands_for_number(self, old: TracedNumber, new: Value) -> bool:
        if not isinstance(new, Const) or type(number_of(new)) is not type(old.number):
            return False
        known = self.numbers.setdefault(old.way, new)
        return number_of(known) == number_of(new)

    def _stands_for(self, old: Any, new: Any) -> bool:
        known = self.values.get(old)
        if known is not None:
            return bool(known == new)
        if new in self._taken:
            return False
        if old != new:
            if any(getattr(old, each.name) != getattr(new, each.name) for each in fields(old) if self._matters(each)):
                return False
            if kind_is_unknown := type(old) is Unknown:
                told = self._m.assumptions
                if any(speaks_of(key, each) for key in told for each in (old, new)):
                    return False
            self._differs = True
            if not kind_is_unknown:
                self.values[old.identity] = new.identity
        self.values[old] = new
        self._taken.add(new)
        return True

    @staticmethod
    def _matters(each: Any) -> bool:
        return each.name not in _NAMES and each.name != "term"
