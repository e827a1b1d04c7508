"""What is computed from how many processes there are, where the launch says how many."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Mapping

from gpudoctor.lint.domain.constant_folding import compared, operated
from gpudoctor.lint.domain.rank import Size, SizeKind
from gpudoctor.lint.domain.symbols import Compares, IsTrue, NodeProduct, Operation
from gpudoctor.lint.domain.value import Const, Unknown, Value

Sizes = Mapping[SizeKind, int]
"""How many there are, of what the launch says."""

_OPERATORS: Mapping[str, ast.operator] = {
    "+": ast.Add(), "-": ast.Sub(), "*": ast.Mult(), "/": ast.Div(), "//": ast.FloorDiv(), "%": ast.Mod(),
}  # fmt: skip
_TESTS: Mapping[str, ast.cmpop] = {"==": ast.Eq(), "<": ast.Lt(), ">": ast.Gt()}


def number_of(value: Value, sizes: Sizes) -> Const | None:
    """The number that a value is with these sizes; None where more must be known."""
    if isinstance(value, Const):
        return value
    if isinstance(value, Size):
        count = sizes.get(value.kind) if not (value.as_text or value.of_part) else None
        return Const(count) if count is not None else None
    match value.term if isinstance(value, Unknown) else None:
        case Operation(operator, left, right) if operator in _OPERATORS:
            return _computed(_OPERATORS[operator], left, right, sizes)
        case NodeProduct(size, number):
            return _computed(ast.Mult(), size, number, sizes)
    return None


def _computed(operator: ast.operator, left: Value, right: Value, sizes: Sizes) -> Const | None:
    one, other = number_of(left, sizes), number_of(right, sizes)
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
    return any(_holds_size(part) for part in key.parts) if isinstance(key, (Compares, IsTrue)) else False


def _holds_size(value: Hashable) -> bool:
    if isinstance(value, Size):
        return True
    match value.term if isinstance(value, Unknown) else None:
        case Operation(_, left, right) | NodeProduct(left, right):
            return _holds_size(left) or _holds_size(right)
    return False
