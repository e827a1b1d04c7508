"""How Python writes an expression: what `ast.unparse` gives, at a small part of its cost for the plain forms.

Unparsing sets up a visitor with its tables of precedence for each expression. Nearly all that are shown are names with
dots, calls and operators on such: no part of them ever needs parentheses.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

_OPERATORS: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.Mod: "%", ast.FloorDiv: "//", ast.MatMult: "@",
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
    # A number before a dot, one that is infinite, and a `u"…"` are written with care.
    return repr(node.value) if type(node.value) is str and node.kind is None else _number(node)


def _number(node: ast.Constant) -> str | None:
    return repr(node.value) if type(node.value) in (int, bool, type(None)) else None


def _attribute(node: ast.Attribute) -> str | None:
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


def _binary(node: ast.BinOp) -> str | None:
    # Powers are left out: their right side is special.
    left, right, sign = _atom(node.left), _atom(node.right), _OPERATORS.get(type(node.op))
    return None if left is None or right is None or sign is None else f"{left} {sign} {right}"


def _compare(node: ast.Compare) -> str | None:
    if len(node.ops) > 1:
        return None
    left, right = _atom(node.left), _atom(node.comparators[0])
    return None if left is None or right is None else f"{left} {_OPERATORS[type(node.ops[0])]} {right}"


_ATOMS: dict[type[ast.AST], Callable[[Any], str | None]] = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Subscript: _subscript,
}
_WRITERS: dict[type[ast.AST], Callable[[Any], str | None]] = {**_ATOMS, ast.BinOp: _binary, ast.Compare: _compare}
