"""Path conditions: which tests had to come out how for the program to get here.

A condition is a conjunction of literals; a literal is an atom (one test, recognised wherever it is asked again) and
the answer that it had. Whether an atom differs between ranks is a property of the atom, so that "only some ranks get
here" is a question about the path.
"""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import NamedTuple

from gpudoctor.diagnostic import Location
from gpudoctor.lint.flow.interning import conjunctions, interned, rank_of, ranked
from gpudoctor.record import dataclass


class Divergence(enum.Flag):
    """What a value or a test depends on, as far as ranks may disagree about it."""

    NONE = 0
    RANK = enum.auto()
    """The identity of the rank: `rank == 0`."""
    LOCAL = enum.auto()
    """Data that this rank alone has computed: its loss, its clock, its random numbers."""
    BATCH_INDEX = enum.auto()
    """A counter of the loop: the same on all ranks, but not in every iteration."""
    UNREAD = enum.auto()
    """What code says that was not read: nobody knows whether ranks agree about it."""

    # The operators of `enum.Flag` look each result up anew, and these are asked all the time.
    def __or__(self, other: Divergence) -> Divergence:
        return _DEPENDENCES[self._value_ | other._value_]

    def __and__(self, other: Divergence) -> Divergence:
        return _DEPENDENCES[self._value_ & other._value_]

    def __bool__(self) -> bool:
        return self._value_ != 0


class PassedBy(enum.Enum):
    """Which ranks get past some tests."""

    EVERY_RANK = "every rank"
    SOME_RANKS = "some ranks"
    UNCERTAIN = "uncertain"
    """The rank may be among what is asked, in code that was not read or under a name that is not known."""


_DEPENDENCES = tuple(map(Divergence, range(sum(each.value for each in Divergence) + 1)))


MAYBE_BY_RANK = Divergence.RANK | Divergence.UNREAD
"""What may be the rank, or come from it: a test of it tells ranks apart, or none."""


_FAR = float("inf")
_MOST_CONJUNCTIONS = 5_000
_MAX_TESTS = 6
"""So many tests are taken both ways before it counts as open whether conditions leave a gap."""


@dataclass(frozen=True)
class Inequality:
    """That something is less than, greater than or the same as a number: such tests may answer one another."""

    subject: Hashable
    kind: str
    number: float

    def span(self, holds: bool) -> tuple[tuple[float, int], tuple[float, int]] | None:
        """From where to where the number lies; the second of a pair says just below or just above."""
        if self.kind == ">":
            return ((self.number, 1), (_FAR, 0)) if holds else ((-_FAR, 0), (self.number, 0))
        if self.kind == "<":
            return ((-_FAR, 0), (self.number, -1)) if holds else ((self.number, 0), (_FAR, 0))
        return ((self.number, 0), (self.number, 0)) if holds else None

    def settles(self, holds: bool, other: Inequality | Equality) -> bool | None:
        """What the other test says where this one has this answer: behind `n > 1`, `n == 1` fails."""
        if not isinstance(other, Inequality):
            return None
        here, there = self.span(holds), other.span(True)
        if here is None or there is None or self.subject != other.subject:
            return None
        if here[1] < there[0] or there[1] < here[0]:
            return False
        return True if there[0] <= here[0] and here[1] <= there[1] else None


@dataclass(frozen=True)
class Equality:
    """That something is a certain text: then it is no other."""

    subject: Hashable
    text: str

    def settles(self, holds: bool, other: Inequality | Equality) -> bool | None:
        """What the other test says where this one has this answer: behind `mode == "fit"`, `mode == "test"` fails."""
        if not holds or not isinstance(other, Equality) or self.subject != other.subject:
            return None
        return self.text == other.text


@dataclass(frozen=True, slots=True, eq=False)
class Atom:
    """One test of the program. Two atoms with the same key always have the same answer.

    `text` is how the source writes it, `place` where it was asked first. `ranks` says, where it is known, for which
    ranks it holds: `rank 0`. `switch` marks a test on what the user chooses at the start, one answer for all ranks.
    `every` holds the literals that all hold where this one does (a conjunction), `none` those that all fail where
    this one fails (a disjunction). `tells_kind` marks a test that says of what kind a value is.
    """

    key: Hashable
    divergence: Divergence = Divergence.NONE
    text: str = ""
    place: Location | None = None
    ranks: str = ""
    switch: bool = False
    every: tuple[Literal, ...] = ()
    none: tuple[Literal, ...] = ()
    bound: Inequality | Equality | None = None
    tells_kind: bool = False

    def __post_init__(self) -> None:
        # Keys hold whole values; compared by identity, asking the same test again costs nothing.
        object.__setattr__(self, "key", interned(self.key))
        ranked(self.key)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Atom) and self.key is other.key

    def __hash__(self) -> int:
        return id(self.key)

    def __repr__(self) -> str:
        return self.text or str(self.key)


class Literal(NamedTuple):
    """An atom and the answer that it had."""

    atom: Atom
    holds: bool

    def negated(self) -> Literal:
        return Literal(self.atom, not self.holds)

    def __repr__(self) -> str:
        return repr(self.atom) if self.holds else f"not ({self.atom!r})"


Refutations = tuple[list[frozenset[Literal]], list[frozenset[Literal]]]
_BY_NOTHING: Refutations = ([], [])


class Condition:
    """A conjunction of literals; the empty one always holds. Immutable."""

    __slots__ = (
        "_bounded", "_composed", "_depends", "_excluded", "_hash", "_in_order", "_kinds", "_opposite", "_refuted_by",
        "literals",
    )  # fmt: skip

    def __init__(self, literals: frozenset[Literal] = frozenset()) -> None:
        self.literals = literals
        self._hash = hash(literals)
        self._opposite: frozenset[Literal] | None = None
        self._excluded: dict[Condition, bool] | None = None
        self._depends: Divergence | None = None
        self._bounded: tuple[Literal, ...] | None = None
        self._composed: tuple[Literal, ...] | None = None
        self._refuted_by: Refutations | None = None
        self._kinds: tuple[Literal, ...] | None = None
        self._in_order: tuple[Literal, ...] | None = None

    def __iter__(self) -> Iterator[Literal]:
        # The set has another order in each run, since atoms are hashed by their place in memory.
        if len(self.literals) < 2:
            return iter(self.literals)
        if self._in_order is None:
            self._in_order = tuple(sorted(self.literals, key=lambda each: (rank_of(each.atom.key), each.holds)))
        return iter(self._in_order)

    def __bool__(self) -> bool:
        return bool(self.literals)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Condition) and self.literals == other.literals)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return " and ".join(sorted(map(repr, self.literals))) or "always"

    def conjoined_with(self, literal: Literal) -> Condition:
        """This and one more literal, with all that follows from it."""
        if literal in self.literals:
            return self
        # A branch that is followed again leads to the same condition, of which much is known by then. The same test at
        # another place is told at that one.
        known, way = conjunctions(), (self, literal, id(literal[0].place))
        found: Condition | None = known.get(way)
        if found is None:
            # They live as long as the program is executed: of timm's training that came to 50 MiB.
            if len(known) >= _MOST_CONJUNCTIONS:
                known.clear()
            found = known[way] = Condition(self.literals | frozenset(_consequences(literal)))
        return found

    def answer(self, literal: Literal) -> bool | None:
        """Whether the literal holds here: True, False, or None where this does not say."""
        if literal in self.literals:
            return True
        # A plain pair is equal to the other literal, and made much faster.
        if (literal[0], not literal[1]) in self.literals:
            return False
        return self._compared(literal) if literal.atom.bound is not None else None

    def leaves_open(self, literal: Literal, path: Condition) -> bool | None:
        """What is left where this always holds: behind `size in (512, 1024)`, on a path where it is not the one, it is
        the other. None where the path leaves more than this literal open."""
        told = self.answer(literal)
        if told is not None:
            return told
        for whole in self.composed:
            parts = whole.atom.none or whole.atom.every
            here = next((part for part in parts if part.atom == literal.atom), None)
            if here is None:
                continue
            others = (part for part in parts if part is not here)
            if all((part.atom, part.holds is not whole.holds) in path.literals for part in others):
                return (here.holds is whole.holds) is literal.holds
        return None

    def leaves_alone(self, path: Condition) -> Iterator[Literal]:
        """What must hold on a path, where this always holds: of tests one of which holds the last that may."""
        for whole in self.composed:
            parts = whole.atom.none or whole.atom.every
            left = [part for part in parts if (part.atom, part.holds is not whole.holds) not in path.literals]
            if len(left) == 1:
                yield Literal(left[0].atom, left[0].holds is whole.holds)

    def _compared(self, literal: Literal) -> bool | None:
        """What comparisons of the same thing with other numbers or texts say."""
        bound = literal.atom.bound
        assert bound is not None
        for atom, holds in self.bounded:
            told = atom.bound.settles(holds, bound) if atom.bound is not None else None
            if told is not None:
                return told is literal.holds
        return None

    @property
    def bounded(self) -> tuple[Literal, ...]:
        """The comparisons with a number or a text."""
        if self._bounded is None:
            self._bounded = tuple(each for each in self.literals if each.atom.bound is not None)
        return self._bounded

    @property
    def kinds(self) -> tuple[Literal, ...]:
        """What says of what kind values are."""
        if self._kinds is None:
            self._kinds = tuple([each for each in self.literals if each[0].tells_kind])
        return self._kinds

    def and_(self, other: Condition) -> Condition:
        """This and the other."""
        if other.literals <= self.literals:
            return self
        return other if self.literals <= other.literals else Condition(self.literals | other.literals)

    def along_with(self, other: Condition) -> Condition | None:
        """This and the other; None where the two can never hold together."""
        return None if self.excludes(other) else self.and_(other)

    def excludes(self, other: Condition) -> bool:
        """The two can never hold together."""
        if not self.literals or not other.literals:
            return False
        if self._opposite is None:
            self._opposite = frozenset([literal.negated() for literal in self.literals])
        if not self._opposite.isdisjoint(other.literals):
            return True
        mine = self.refuted_by if self._refuted_by is None else self._refuted_by
        theirs = other.refuted_by if other._refuted_by is None else other._refuted_by
        # Asked all the time, and mostly of conditions without such tests.
        if mine is _BY_NOTHING and theirs is _BY_NOTHING and not (self.bounded and other.bounded):
            return False
        # Of composed tests, numbers and texts a program has few, and asks of the same ones.
        if self._excluded is None:
            self._excluded = {}
        known = self._excluded.get(other)
        if known is None:
            known = self._excluded[other] = self._is_settled_by(other)
        return known

    def _is_settled_by(self, other: Condition) -> bool:
        """A comparison, or a test that is made of several, could not come out in one as it did in the other."""
        if any(each <= other.literals for each in self.refuted_by[0]):
            return True
        if any(each <= self.literals for each in other.refuted_by[0]):
            return True
        if self.bounded and any(self._compared(each) is False for each in other.bounded):
            return True
        return any(all(map(other.answer, each)) for each in self.refuted_by[1]) or any(
            all(map(self.answer, each)) for each in other.refuted_by[1]
        )

    @property
    def refuted_by(self) -> Refutations:
        """With what a test that is made of several could not have come out as it did: of each such test, what is left
        open here. Those come last that hold a comparison, which others may answer."""
        if self._refuted_by is None:
            plain: list[frozenset[Literal]] = []
            compared: list[frozenset[Literal]] = []
            for whole in self.composed:
                parts = [each.negated() if whole.holds else each for each in whole.atom.none or whole.atom.every]
                answers = [self.answer(each) for each in parts]
                if False not in answers:
                    left = frozenset([each for each, answer in zip(parts, answers, strict=True) if answer is None])
                    (plain if all(each.atom.bound is None for each in left) else compared).append(left)
            self._refuted_by = (plain, compared) if plain or compared else _BY_NOTHING
        return self._refuted_by

    @property
    def composed(self) -> tuple[Literal, ...]:
        """What says of several tests that one of them holds, or that one fails, and not which."""
        if self._composed is None:
            self._composed = tuple([each for each in self.literals if (each[0].none if each[1] else each[0].every)])
        return self._composed

    def implies(self, other: Condition) -> bool:
        """Wherever this holds, the other does."""
        return other.literals <= self.literals

    def implies_one_of(self, others: Sequence[Condition]) -> bool:
        """Wherever this holds, one of the others does."""
        return any(map(self.implies, others)) or not complement(self, others)

    def difference(self, other: Condition) -> Condition:
        """What this asks beyond the other."""
        if not other.literals:
            return self
        left = self.literals - other.literals
        if not left:
            return ALWAYS
        return self if len(left) == len(self.literals) else Condition(left)

    def intersection(self, other: Condition) -> Condition:
        """What both ask."""
        if self.literals <= other.literals:
            return self
        return other if other.literals <= self.literals else Condition(self.literals & other.literals)

    def depending_on(self, what: Divergence) -> tuple[Literal, ...]:
        """The literals that depend on `what`, in an order that is the same in each run."""
        found = (each for each in self.literals if each.atom.divergence & what and not self._follows(each))
        return tuple(sorted(found, key=lambda literal: (str(literal.atom.place), literal.atom.text, literal.holds)))

    @property
    def divergence(self) -> Divergence:
        """All that its literals depend on."""
        if self._depends is None:
            found = Divergence.NONE
            for literal in self.literals:
                if literal.atom.divergence and not self._follows(literal):
                    found |= literal.atom.divergence
            self._depends = found
        return self._depends

    @property
    def passed_by(self) -> PassedBy:
        """Which ranks get past these tests. What a rank has computed tells ranks apart too, and is asked for apart."""
        if not self.divergence & MAYBE_BY_RANK:
            return PassedBy.EVERY_RANK
        sure = any(not each.atom.divergence & Divergence.UNREAD for each in self.depending_on(Divergence.RANK))
        return PassedBy.SOME_RANKS if sure else PassedBy.UNCERTAIN

    def _follows(self, literal: Literal) -> bool:
        """Another literal says so already: behind `if not (sharded or rank == 0): return`, where `sharded` holds."""
        if literal.holds:
            return any(part in self.literals for part in literal.atom.none)
        return any(part.negated() in self.literals for part in literal.atom.every)


ALWAYS = Condition()


def _consequences(literal: Literal) -> Iterator[Literal]:
    yield literal
    # Of `distributed and rank == 0` both follow when it holds, neither when it fails.
    for part in literal.atom.every if literal.holds else ():
        yield from _consequences(part)
    for part in () if literal.holds else literal.atom.none:
        yield from _consequences(part.negated())


def asked_on_each(ways: Sequence[Condition]) -> list[Literal]:
    """The tests that come out alike on each of these ways, be it of another object of the same name each time: a class
    that is made for two data sets asks both what they are called."""
    if len(ways) < 2:
        return list(ways[0]) if ways else []
    asked = [frozenset(map(_as_written, way)) for way in ways[1:]]
    return [each for each in ways[0] if all(_as_written(each) in others for others in asked)]


def _as_written(literal: Literal) -> Hashable:
    return literal.atom.place, repr(literal.atom.key), literal.holds


def disjunction(one: Condition, other: Condition) -> Condition | None:
    """One condition for `one or other` where that is again a conjunction, else None."""
    if one.implies(other):
        return other
    if other.implies(one):
        return one
    # Both answers of one test: the test no longer matters.
    if len(one.literals) == len(other.literals):
        common = one.literals & other.literals
        if len(common) == len(one.literals) - 1:
            (left,), (right,) = one.literals - common, other.literals - common
            if left.atom == right.atom:
                return Condition(common)
    return None


def whole(condition: Condition) -> Literal | None:
    """The one literal from which all of a condition follows: that of a test, be it made of several."""
    for literal in condition:
        if condition.literals <= frozenset(_consequences(literal)):
            return literal
    return None


def _leave_nothing(base: Condition, conditions: Sequence[Condition]) -> bool:
    """What both sides of one test have left behind, as most do."""
    single: set[Literal] = set()
    for each in conditions:
        asked = each.literals - base.literals
        if len(asked) < 2:
            for literal in asked:
                if (literal[0], not literal[1]) in single:
                    return True
                single.add(literal)
            if not asked:
                return True
    return False


def complement(base: Condition, conditions: Iterable[Condition], tests: int = _MAX_TESTS) -> list[Condition]:
    """Where `base` holds and none of the conditions does, or more than that where it takes too many tests to see."""
    conditions = list(conditions)
    if _leave_nothing(base, conditions):
        return []
    left = [each for each in conditions if not each.excludes(base)]
    if any(all(base.answer(literal) for literal in each) for each in left):
        return []
    if not left or not tests:
        return [base]
    open_ones = [literal for literal in left[0] if base.answer(literal) is None]
    # Of `distributed and rank == 0` the whole is asked, from which its parts follow.
    asked = max(open_ones, key=lambda each: (len(list(_consequences(each))), repr(each)))
    return [gap for each in (asked, asked.negated()) for gap in complement(base.conjoined_with(each), left, tests - 1)]
