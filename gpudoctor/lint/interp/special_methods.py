"""Operators between objects of the project: what the methods of their classes say that `a + b` or `a < b` is."""

from __future__ import annotations

import ast

from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.function import Library, class_of
from gpudoctor.lint.domain.value import Value, Values, singleton
from gpudoctor.lint.interface.contents import find_method
from gpudoctor.lint.interp.evaluator import Evaluator

_OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "truediv", ast.FloorDiv: "floordiv", ast.Mod: "mod",
    ast.Pow: "pow", ast.MatMult: "matmul", ast.BitAnd: "and", ast.BitOr: "or", ast.BitXor: "xor",
    ast.LShift: "lshift", ast.RShift: "rshift",
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Eq: ("__eq__", "__eq__"), ast.Lt: ("__lt__", "__gt__"), ast.Gt: ("__gt__", "__lt__"),
    ast.LtE: ("__le__", "__ge__"), ast.GtE: ("__ge__", "__le__"),
}  # fmt: skip
"""The method of the left side, and that of the right side, which is asked where the left one has none."""
_SIGNS: dict[type[ast.unaryop], str] = {ast.USub: "__neg__", ast.UAdd: "__pos__", ast.Invert: "__invert__"}


def operated_by_class(m: Evaluator, op: ast.operator, left: Value, right: Value, node: ast.AST) -> Values | None:
    """`left + right`, or `left += right`, where a class of the project has a method for it."""
    if class_of(left) is None and class_of(right) is None:
        return None
    name = _OPERATORS[type(op)]
    ways = [(left, f"__{name}__", right), (right, f"__r{name}__", left)]
    if isinstance(node, ast.AugAssign):
        ways.insert(0, (left, f"__i{name}__", right))
    return _first_answer(m, ways, node)


def compared_by_class(m: Evaluator, op: ast.cmpop, left: Value, right: Value, node: ast.AST) -> Values | None:
    """`left < right`, or `left in right`, where a class of the project has a method for it; of `!=` and `not in` the
    opposite."""
    if class_of(left) is None and class_of(right) is None:
        return None
    if isinstance(op, (ast.In, ast.NotIn)):
        return _first_answer(m, [(right, "__contains__", left)], node)
    names = _COMPARISONS.get(ast.Eq if isinstance(op, ast.NotEq) else type(op))
    return names and _first_answer(m, [(left, names[0], right), (right, names[1], left)], node)


def signed_by_class(m: Evaluator, op: ast.unaryop, value: Value, node: ast.AST) -> Values | None:
    """`-value`, where its class has a method for it."""
    method = find_method(m, value, _SIGNS[type(op)]) if class_of(value) is not None else None
    return None if method is None else m.call(method, NO_ARGUMENTS, node)


def _first_answer(m: Evaluator, ways: list[tuple[Value, str, Value]], node: ast.AST) -> Values | None:
    for receiver, name, other in ways:
        method = find_method(m, receiver, name) if class_of(receiver) is not None else None
        answer = m.call(method, Arguments((singleton(other),)), node) if method is not None else None
        if answer is not None and _ASK_THE_OTHER not in answer:
            return answer
    return None


_ASK_THE_OTHER = Library("builtins.NotImplemented")
