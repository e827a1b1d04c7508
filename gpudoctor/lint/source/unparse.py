"""How Python writes an expression: what `ast.unparse` gives, at a small part of its cost for the plain forms.

Unparsing sets up a visitor with its tables of precedence for each expression. Nearly all that are shown are names with
dots, calls and operators on such: no part of them ever needs parentheses.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from math import isfinite
from typing import Any

# Powers and operators on bits are left out: they need more parentheses than one would think.
_PLAIN = frozenset({str, int, bool, float, type(None)})
_SUM, _PRODUCT = 1, 2
_ARITHMETIC: dict[type[ast.operator], tuple[str, int]] = {
    ast.Add: ("+", _SUM), ast.Sub: ("-", _SUM), ast.Mult: ("*", _PRODUCT), ast.Div: ("/", _PRODUCT),
    ast.Mod: ("%", _PRODUCT), ast.FloorDiv: ("//", _PRODUCT), ast.MatMult: ("@", _PRODUCT),
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


def written(node: ast.AST) -> str:
    """The node as Python would write it, on one line where it is an expression."""
    write = _WRITERS.get(type(node))
    plain = write(node) if write is not None else None
    return ast.unparse(node) if plain is None else plain


def _atom(node: ast.expr) -> str | None:
    """An expression that binds its parts more closely than any operator; None where it may need parentheses."""
    write = _ATOMS.get(type(node))
    return write(node) if write is not None else None


def _name(node: ast.Name) -> str:
    return node.id


def _constant(node: ast.Constant) -> str | None:
    value = node.value
    # A number that is infinite and a `u"…"` are written with care.
    plain = type(value) in _PLAIN and node.kind is None and (type(value) is not float or isfinite(value))
    return repr(value) if plain else None


def _attribute(node: ast.Attribute) -> str | None:
    # `1 .real` has a space.
    owner = None if type(node.value) is ast.Constant else _atom(node.value)
    return None if owner is None else f"{owner}.{node.attr}"


def _call(node: ast.Call) -> str | None:
    function = _atom(node.func)
    if function is None:
        return None
    parts = [written(each) for each in node.args]
    for each in node.keywords:
        if each.arg is None:
            return None
        parts.append(f"{each.arg}={written(each.value)}")
    return f"{function}({', '.join(parts)})"


def _subscript(node: ast.Subscript) -> str | None:
    owner, index = _atom(node.value), _atom(node.slice)
    return None if owner is None or index is None else f"{owner}[{index}]"


def _list(node: ast.List) -> str:
    return f"[{', '.join(map(written, node.elts))}]"


def _operand(node: ast.expr, binding: int) -> str | None:
    """An operand of an operator that binds as closely as this; None where it may need parentheses."""
    if isinstance(node, ast.BinOp):
        return _binary(node) if _ARITHMETIC.get(type(node.op), ("", 0))[1] >= binding else None
    if isinstance(node, ast.UnaryOp):
        return _minus(node)
    return _atom(node)


def _minus(node: ast.UnaryOp) -> str | None:
    operand = _atom(node.operand) if isinstance(node.op, ast.USub) else None
    return None if operand is None else f"-{operand}"


def _binary(node: ast.BinOp) -> str | None:
    sign, binding = _ARITHMETIC.get(type(node.op), ("", 0))
    left, right = _operand(node.left, binding), _operand(node.right, binding + 1)
    return None if left is None or right is None or not sign else f"{left} {sign} {right}"


def _compare(node: ast.Compare) -> str | None:
    if len(node.ops) > 1:
        return None
    left, right = _operand(node.left, _SUM), _operand(node.comparators[0], _SUM)
    return None if left is None or right is None else f"{left} {_COMPARISONS[type(node.ops[0])]} {right}"


def _augmented(node: ast.AugAssign) -> str | None:
    sign = _ARITHMETIC.get(type(node.op))
    return None if sign is None else f"{written(node.target)} {sign[0]}= {written(node.value)}"


_ATOMS: dict[type[ast.AST], Callable[[Any], str | None]] = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Subscript: _subscript,
    ast.List: _list,
}
_WRITERS: dict[type[ast.AST], Callable[[Any], str | None]] = {
    **_ATOMS,
    ast.BinOp: _binary,
    ast.UnaryOp: _minus,
    ast.Compare: _compare,
    ast.AugAssign: _augmented,
}
