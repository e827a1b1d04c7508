"""What is computed from how many processes there are, where the launch says how many."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterable, Iterator, Mapping

from gpudoctor.lint.domain.constant_folding import compared, operated
from gpudoctor.lint.domain.rank import Size, SizeKind
from gpudoctor.lint.domain.symbols import Compares, IsTrue, NodeProduct, Operation
from gpudoctor.lint.domain.value import Const, Value, term_of

Sizes = Mapping[SizeKind, int]
"""How many there are, of what the launch says."""

_OPERATORS: Mapping[str, ast.operator] = {
    "+": ast.Add(), "-": ast.Sub(), "*": ast.Mult(), "/": ast.Div(), "//": ast.FloorDiv(), "%": ast.Mod(),
}  # fmt: skip
_TESTS: Mapping[str, ast.cmpop] = {"==": ast.Eq(), "<": ast.Lt(), ">": ast.Gt()}


def number_of(value: Value, sizes: Sizes) -> Const | None:
    """The number that a value is with these sizes; None where more must be known."""
    return _number(value, sizes, {})


def _number(value: Value, sizes: Sizes, known: dict[int, Const | None]) -> Const | None:
    if isinstance(value, Const):
        return value
    if isinstance(value, Size):
        count = sizes.get(value.kind) if not (value.as_text or value.of_part) else None
        return Const(count) if count is not None else None
    if id(value) not in known:
        known[id(value)] = _computed(value, sizes, known)
    return known[id(value)]


def _computed(value: Value, sizes: Sizes, known: dict[int, Const | None]) -> Const | None:
    match value.term:
        case Operation(sign, left, right) if sign in _OPERATORS:
            operator = _OPERATORS[sign]
        case NodeProduct(left, right):
            operator = ast.Mult()
        case _:
            return None
    one, other = _number(left, sizes, known), _number(right, sizes, known)
    found = operated(operator, one, other) if one is not None and other is not None else None
    # `int(64 / world_size)` is the same value as the quotient, which may have a rest.
    rounded = found is None or not isinstance(found.value, float) or found.value.is_integer()
    return found if rounded else None


def decided(key: Hashable, sizes: Sizes) -> bool | None:
    """What the test of this key comes to with these sizes; None where it is not about them alone."""
    match key:
        case Compares(operator, left, right) if operator in _TESTS:
            one, other = number_of(left, sizes), number_of(right, sizes)
            return compared(_TESTS[operator], one, other) if one is not None and other is not None else None
        case IsTrue(value):
            found = number_of(value, sizes)
            return bool(found.value) if found is not None else None
    return None


def asks_for_size(key: Hashable) -> bool:
    """The test is about how many processes there are."""
    return isinstance(key, (Compares, IsTrue)) and any(isinstance(part, Size) for part in _computed_from(key.parts))


def _computed_from(values: Iterable[object]) -> Iterator[object]:
    """These values and those that they are computed from, each once: `y = y + y` has few parts on many ways."""
    left = list(values)
    seen: set[int] = set()
    while left:
        value = left.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        yield value
        term = term_of(value)
        if isinstance(term, Operation):
            left += term.left, term.right
        elif isinstance(term, NodeProduct):
            left += term.size, term.number
