"""What a name may hold: a few values, each with the condition under which it is that one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import starmap
from typing import Generic, TypeVar

from gpudoctor.lint.flow.condition import ALWAYS, Condition, disjunction

V = TypeVar("V", covariant=True)
W = TypeVar("W")
Met = dict[Condition, "Condition | None"]
"""What conditions come to together with one that many sets are guarded by; None where never both hold."""


class Binding(Generic[V]):
    """A value and the condition under which it is the one. Immutable; written out, because so many are made."""

    __slots__ = ("condition", "value")

    def __init__(self, value: V, when: Condition = ALWAYS) -> None:
        self.value = value
        self.condition = when

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Binding) and self.value == other.value and self.condition == other.condition

    def __hash__(self) -> int:
        return hash((self.value, self.condition))

    def __repr__(self) -> str:
        return f"{self.value!r} if {self.condition!r}" if self.condition else repr(self.value)


class ValueSet(Generic[V]):
    """The values that an expression may have. Empty only for what never returns. Immutable."""

    # Found out at once: no question is asked as often as the first two.
    __slots__ = {
        "_hash": "Computed late, since most sets are never a key.",
        "bindings": "The values with their conditions.",
        "is_definite": "There is one value, on every path.",
        "single": "The value where there is just one.",
    }

    def __init__(self, bindings: Iterable[Binding[V]]) -> None:
        self.bindings = bindings = tuple(bindings)
        self._hash: int | None = None
        self.single: V | None = None
        self.is_definite = False
        if len(bindings) == 1:
            (only,) = bindings
            self.single = only.value
            self.is_definite = not only.condition.literals

    @staticmethod
    def of(value: W) -> ValueSet[W]:
        """The set of one value."""
        return set_of(value)

    def __iter__(self) -> Iterator[V]:
        """The values, whatever their conditions."""
        if len(self.bindings) == 1:
            return iter((self.bindings[0].value,))
        return iter([binding.value for binding in self.bindings])

    def __len__(self) -> int:
        return len(self.bindings)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, ValueSet) or len(self.bindings) != len(other.bindings):
            return False
        # To compare two values is less than to hash them.
        return (len(self.bindings) == 1 or hash(self) == hash(other)) and self.bindings == other.bindings

    def __hash__(self) -> int:
        if self._hash is None:
            self._hash = hash(self.bindings)
        return self._hash

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.bindings)) or "nothing"

    def restrict(self, condition: Condition) -> ValueSet[V]:
        """Without the values that `condition` excludes."""
        # By far the most sets hold one value, and hold it always.
        if self.is_definite or not condition.literals:
            return self
        kept = [b for b in self.bindings if not b.condition.literals or not b.condition.excludes(condition)]
        return self if len(kept) == len(self.bindings) else ValueSet(kept)

    def guarded_by(self, condition: Condition, met: Met | None = None) -> ValueSet[V]:
        """The same values, each only where `condition` holds too. Who guards many sets by it keeps what it `met`."""
        if not condition.literals:
            return self
        if self.is_definite:
            return set_of(self.bindings[0].value, condition)
        met = {} if met is None else met
        kept: list[Binding[V]] = []
        for each in self.bindings:
            when = each.condition
            both = met[when] if when in met else met.setdefault(when, when.along_with(condition))
            if both is not None:
                kept.append(Binding(each.value, both))
        return ValueSet(kept)

    def map(self, change: Callable[[V], W]) -> ValueSet[W]:
        """Each value changed, the conditions kept."""
        if len(self.bindings) == 1:
            (only,) = self.bindings
            return set_of(change(only.value), only.condition)
        return ValueSet([Binding(change(b.value), b.condition) for b in self.bindings])

    def all(self, test: Callable[[V], bool]) -> bool:
        """There is a value, and the test holds for each."""
        if len(self.bindings) == 1:
            return test(self.bindings[0].value)
        return bool(self.bindings) and all(test(b.value) for b in self.bindings)

    def any(self, test: Callable[[V], bool]) -> bool:
        """The test holds for some value."""
        if len(self.bindings) == 1:
            return test(self.bindings[0].value)
        return any(test(b.value) for b in self.bindings)

    def are(self, *kinds: type) -> bool:
        """There is a value, and each is of such a kind."""
        return bool(self.bindings) and all(isinstance(b.value, kinds) for b in self.bindings)

    def has(self, *kinds: type) -> bool:
        """Some value is of such a kind."""
        return any(isinstance(b.value, kinds) for b in self.bindings)


_new = object.__new__


def set_of(value: W, when: Condition = ALWAYS) -> ValueSet[W]:
    """The set of one value."""
    # Most sets are made here, and to call a class takes three times as long.
    only: Binding[W] = _new(Binding)
    only.value = value
    only.condition = when
    made: ValueSet[W] = _new(ValueSet)
    made.bindings = (only,)
    made._hash = None
    made.single = value
    made.is_definite = not when.literals
    return made


def union(sets: Iterable[ValueSet[V]]) -> ValueSet[V]:
    """All values of all sets; a value that comes twice keeps the weaker condition."""
    given = [each for each in sets if each.bindings]
    if len(given) == 1 and len(given[0].bindings) == 1:
        return given[0]
    bindings = [binding for each in given for binding in each.bindings]
    if len(bindings) < 2:
        return ValueSet(bindings)
    found: dict[V, list[Condition]] = {}
    for binding in bindings:
        conditions = found.setdefault(binding.value, [])
        if conditions:
            _weaken(conditions, binding.condition)
        else:
            conditions.append(binding.condition)
    return ValueSet([Binding(value, when) for value, conditions in found.items() for when in conditions])


def without_conditions(values: ValueSet[V]) -> ValueSet[V]:
    """No value twice: it is there under what its conditions have in common."""
    when: dict[V, Condition] = {}
    for binding in values.bindings:
        known = when.get(binding.value)
        when[binding.value] = binding.condition if known is None else known.intersection(binding.condition)
    return values if len(when) == len(values.bindings) else ValueSet(starmap(Binding, when.items()))


def _weaken(conditions: list[Condition], new: Condition) -> None:
    for index, old in enumerate(conditions):
        # Without it, each `if` in a loop would double what a name holds.
        merged = disjunction(old, new)
        if merged is not None:
            del conditions[index]
            _weaken(conditions, merged)
            return
    conditions.append(new)
