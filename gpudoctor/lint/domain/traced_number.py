"""Numbers of which it is noted what becomes of them, so that a call can be done again with others.

While a call is remembered, each number that it is given is one of these. What is computed with it says how; wherever
it decides something, as any look at its value may, that is noted: only where that would come out the same with other
numbers is another call like it.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Mapping

from gpudoctor.lint.domain.value import Const

Way = tuple[object, ...]
"""How a number came about: a name of its own, or a step and what it was done with."""


class Trace:
    """What numbers have decided, in order, while somebody wants to know."""

    __slots__ = ("looked_at", "names", "open")

    def __init__(self) -> None:
        self.open = True
        self.names = 0
        self.looked_at: list[tuple[Way, object]] = []
        """How a value came about, and what it was."""

    def number(self, value: int | float) -> TracedNumber:
        """A number that is given to a call."""
        self.names += 1
        return TracedNumber(value, ("given", id(self), self.names), self)


class TracedNumber(Const):
    """A number that a call was given, or that it has computed from one."""

    __slots__ = ("number", "trace", "way")
    is_text = False

    def __init__(self, number: int | float, way: Way, trace: Trace) -> None:
        self.number = number
        self.way = way
        self.trace = trace

    @property
    def value(self) -> int | float:
        """The number. Whoever asks may go another way with another one."""
        self.note(self.way, self.number)
        return self.number

    def note(self, way: Way, value: object) -> None:
        """Something is decided by what comes of the number."""
        if self.trace.open:
            self.trace.looked_at.append((way, value))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const) or type(number_of(other)) is not type(self.number):
            return False
        if way_of(other) == self.way:
            return True
        result = number_of(other) == self.number
        self.note(("compared", ast.Eq, self.way, way_of(other)), result)
        return result

    def __hash__(self) -> int:
        return hash((type(self.number), self.number if self.number == self.number else None))


def number_of(value: Const) -> object:
    """What a constant is, where nothing is decided by it."""
    return value.number if isinstance(value, TracedNumber) else value.value


def is_number(value: object) -> bool:
    """A number of the program, of which another one would do as well."""
    if isinstance(value, TracedNumber):
        return True
    return isinstance(value, Const) and type(value.value) in (int, float)


def way_of(value: Const) -> object:
    """How a constant came about; itself where it was not traced."""
    return value.way if isinstance(value, TracedNumber) else value


def traced(result: object, step: Way, *of: Const) -> Const:
    """What a step makes of constants, one of which is traced."""
    first = next(each for each in of if isinstance(each, TracedNumber))
    if type(result) in (int, float):
        assert isinstance(result, (int, float))
        return TracedNumber(result, (*step, *map(way_of, of)), first.trace)
    # Yes or no: it is there to decide something.
    first.note((*step, *map(way_of, of)), result)
    return Const(result)


def found_again(way: object, numbers: Mapping[Hashable, Const], steps: Callable[..., Const | None]) -> Const | None:
    """What would have come about with other numbers; None where one is not known, or Python would refuse."""
    if isinstance(way, Const):
        return way
    known = numbers.get(way)
    if known is not None or not isinstance(way, tuple) or way[0] == "given":
        return known
    of = [found_again(each, numbers, steps) for each in way[2:]]
    return steps(way[0], way[1], of) if None not in of else None
