"""Tests of counters, computed: whether two of them come out right in the same iteration of a loop."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from itertools import chain

from gpudoctor.lint.domain.container import Range
from gpudoctor.lint.domain.symbols import AllOf, AnyOf, Compares, IsTrue, Length, Operation, asked_of
from gpudoctor.lint.domain.value import Anonymous, Const, Unknown, Value
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.flow.condition import Condition, Divergence, Literal

FACTOR = 4
"""Stands for a number of micro-batches that the user chooses."""
LENGTH = 2 * FACTOR + 2
"""Stands for the length of a loader, of which the factor is no divisor."""

Number = int | float
_ARITHMETIC: dict[str, Callable[[Number, Number], Number]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "//": operator.floordiv,
    "%": operator.mod,
}
_TESTS: dict[str, Callable[[Number, Number], bool]] = {"==": operator.eq, "<": operator.lt, ">": operator.gt}


class _NotComputed(Exception):
    """Something in a test has no number that could stand for it."""


def hold_together(one: Condition, other: Condition) -> bool:
    """In some round both hold, as far as they ask for anything; False, too, where that cannot be computed."""
    literals = list(chain(one, other))
    counters, settings = set[Value](), set[Value]()
    for leaf in chain.from_iterable(map(_leaves, literals)):
        (counters if leaf.divergence & Divergence.BATCH_INDEX else settings).add(leaf)
    # Of two counters or two settings it is not known how they go together.
    if len(counters) > 1 or len(settings) > 1:
        return False
    # Not 0: some count from 1.
    rounds: Iterator[dict[Value, Number]] = (
        {**dict.fromkeys(counters, at), **dict.fromkeys(settings, FACTOR)} for at in range(1, LENGTH)
    )
    try:
        return any(all(_holds(literal, numbers) for literal in literals) for numbers in rounds)
    except (_NotComputed, ZeroDivisionError):
        return False


def only_at_the_end(when: Condition) -> bool:
    """It asks for the last round of a loop over batches: `step == len(loader) - 1`."""
    return any(_is_last(literal) for literal in when)


def _is_last(literal: Literal) -> bool:
    counters = set(_leaves(literal))
    if len(counters) != 1 or not all(each.divergence & Divergence.BATCH_INDEX for each in counters):
        return False
    try:
        found = [at for at in range(LENGTH + 1) if _holds(literal, dict.fromkeys(counters, at))]
    except (_NotComputed, ZeroDivisionError):
        return False
    # Some count from 1.
    return found in ([LENGTH - 1], [LENGTH])


def in_last_round_of(loop: Loop, when: Condition) -> bool:
    """It asks for the last round of a loop over numbers: `epoch >= epochs - 1` of `range(epochs)`."""
    over = loop.source.single if loop.source else None
    if not isinstance(over, Range):
        return False
    first, stop = over.start.single, over.stop.single
    for literal in when:
        leaves = set(_leaves(literal))
        counters = {each for each in leaves if _counts(loop, each)}
        # It may begin where another run has ended.
        numbers: dict[Value, Number] = {first: 0} if isinstance(first, Unknown) else {}
        numbers |= dict.fromkeys(leaves - counters, FACTOR)
        try:
            rounds = range(int(_number(first, {**numbers})), int(_number(stop, {**numbers})))
            found = [at for at in rounds if _holds(literal, {**numbers, **dict.fromkeys(counters, at)})]
        except (_NotComputed, ZeroDivisionError):
            continue
        if counters and found == [*rounds][-1:]:
            return True
    return False


def _counts(loop: Loop, value: Unknown) -> bool:
    match value.term:
        case Anonymous("counter", (identity, _)):
            return bool(identity == loop.identity)
    return False


def _leaves(literal: Literal) -> Iterator[Unknown]:
    """What the test asks, down to what is not made of anything else, each once."""
    todo, seen = [asked_of(literal)], set[int]()
    while todo:
        inside = todo.pop()
        for part in inside:
            if id(part) in seen:
                continue
            seen.add(id(part))
            match part:
                case Unknown() if isinstance(part.term, Operation) and part.term.operator in _ARITHMETIC:
                    todo.append(part.term.parts)
                case Unknown() if not _is_length(part):
                    yield part
                case Literal():
                    todo.append(asked_of(part))
                case frozenset():
                    todo.append(tuple(part))


def _is_length(value: Unknown) -> bool:
    return isinstance(value.term, Length)


def _holds(literal: Literal, numbers: dict[Value, Number]) -> bool:
    match literal.atom.key:
        case AllOf(literals):
            answer = all(_holds(part, numbers) for part in literals)
        case AnyOf(literals):
            answer = any(_holds(part, numbers) for part in literals)
        case IsTrue(value):
            answer = bool(_number(value, numbers))
        case Compares(operator, left, right) if operator in _TESTS:
            answer = _TESTS[operator](_number(left, numbers), _number(right, numbers))
        case _:
            raise _NotComputed
    return answer is literal.holds


def _number(value: object, numbers: dict[Value, Number]) -> Number:
    if isinstance(value, Const) and isinstance(value.value, (int, float)):
        return value.value
    if not isinstance(value, Unknown):
        raise _NotComputed
    if value in numbers:
        return numbers[value]
    if _is_length(value):
        return LENGTH
    term = value.term
    if isinstance(term, Operation) and term.operator in _ARITHMETIC:
        # Kept, since `y = y + y` asks for each of its parts twice.
        numbers[value] = _ARITHMETIC[term.operator](_number(term.left, numbers), _number(term.right, numbers))
        return numbers[value]
    raise _NotComputed
