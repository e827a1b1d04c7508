"""How Python writes an expression: what `ast.unparse` gives, at a small part of its cost for the usual forms.

Unparsing sets up a visitor with its tables of precedence for each expression, and collects the text in pieces. Here
each form is one format; what is seldom written, such as a `lambda`, is left to `ast.unparse`.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Sequence
from typing import Any

_MAX_LINES, _MAX_COLUMNS = 40, 1_000
"""Longer expressions are not written out anew."""
_PLAIN = frozenset({str, int, bool, float, type(None)})
_INFINITE = float("inf")
_TEST, _OR, _AND, _NOT, _COMPARISON, _OPERATION, _SUM, _PRODUCT, _SIGN, _POWER, _ATOM = (
    3, 4, 5, 6, 7, 8, 12, 13, 14, 15, 17,
)  # fmt: skip
"""How closely forms bind their parts, as `ast` counts it: one that binds less than its place asks for has brackets."""
_OPERATORS: dict[type[ast.operator], tuple[str, int]] = {
    ast.Add: ("+", _SUM), ast.Sub: ("-", _SUM), ast.Mult: ("*", _PRODUCT), ast.Div: ("/", _PRODUCT),
    ast.Mod: ("%", _PRODUCT), ast.FloorDiv: ("//", _PRODUCT), ast.MatMult: ("@", _PRODUCT), ast.Pow: ("**", _POWER),
    ast.BitOr: ("|", _OPERATION), ast.BitXor: ("^", 9), ast.BitAnd: ("&", 10), ast.LShift: ("<<", 11),
    ast.RShift: (">>", 11),
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_SIGNS: dict[type[ast.unaryop], tuple[str, int]] = {
    ast.USub: ("-", _SIGN), ast.UAdd: ("+", _SIGN), ast.Invert: ("~", _SIGN), ast.Not: ("not ", _NOT),
}  # fmt: skip


class _NotPlain(Exception):
    """A form that is not written here."""


def written(node: ast.AST) -> str:
    """The node as Python would write it, on one line where it is an expression."""
    try:
        return _write(node)
    except _NotPlain:
        return ast.unparse(node)


def shown(node: ast.AST, lines: Sequence[str]) -> str:
    """The node for a message, of a file with these lines."""
    # Of a table over hundreds of lines the beginning is enough, and all that is shown.
    if isinstance(node, ast.expr) and _is_long(node):
        line = lines[node.lineno - 1].encode("utf-8", "replace")[node.col_offset :]
        text = line[:_MAX_COLUMNS].decode("utf-8", "replace").rstrip()
        # As it stands there: what steers a terminal must not get into a message.
        return "".join(each if each.isprintable() else "?" for each in text) + " ..."
    return written(node)


def _is_long(node: ast.expr) -> bool:
    lines = (node.end_lineno or node.lineno) - node.lineno
    return lines > _MAX_LINES or (lines == 0 and (node.end_col_offset or 0) - node.col_offset > _MAX_COLUMNS)


def _write(node: ast.AST, level: int = _TEST) -> str:
    """The node in a place whose parts are bound as closely as `level`."""
    write = _WRITERS.get(type(node))
    if write is None:
        raise _NotPlain
    return write(node, level)


def _bracketed(text: str, own: int, level: int) -> str:
    return f"({text})" if level > own else text


def _all(nodes: Iterable[ast.AST]) -> str:
    return ", ".join([_write(each) for each in nodes])


def _name(node: ast.Name, level: int) -> str:
    return node.id


def _constant(node: ast.Constant, level: int) -> str:
    value = node.value
    # A number that is infinite and a `u"…"` are written with care.
    if type(value) not in _PLAIN or node.kind is not None or value == _INFINITE:
        raise _NotPlain
    return repr(value)


def _attribute(node: ast.Attribute, level: int) -> str:
    # `1 .real` has a space.
    if type(node.value) is ast.Constant:
        raise _NotPlain
    return f"{_write(node.value, _ATOM)}.{node.attr}"


def _call(node: ast.Call, level: int) -> str:
    parts = [_write(each) for each in node.args]
    parts += [f"{each.arg}={_write(each.value)}" if each.arg else f"**{_write(each.value)}" for each in node.keywords]
    return f"{_write(node.func, _ATOM)}({', '.join(parts)})"


def _starred(node: ast.Starred, level: int) -> str:
    return f"*{_write(node.value, _OPERATION)}"


def _subscript(node: ast.Subscript, level: int) -> str:
    index = node.slice
    if isinstance(index, ast.Tuple) and len(index.elts) > 1:
        return f"{_write(node.value, _ATOM)}[{_all(index.elts)}]"
    return f"{_write(node.value, _ATOM)}[{_one_index(index)}]"


def _one_index(index: ast.expr) -> str:
    # A tuple of one has its comma and no brackets, as it is written without.
    if isinstance(index, ast.Tuple) and index.elts:
        return f"{_write(index.elts[0])},"
    return _write(index)


def _slice(node: ast.Slice, level: int) -> str:
    step = f":{_write(node.step)}" if node.step is not None else ""
    first = _write(node.lower) if node.lower is not None else ""
    return f"{first}:{_write(node.upper) if node.upper is not None else ''}{step}"


def _list(node: ast.List, level: int) -> str:
    return f"[{_all(node.elts)}]"


def _tuple(node: ast.Tuple, level: int) -> str:
    return f"({_all(node.elts)}{',' if len(node.elts) == 1 else ''})"


def _signed(node: ast.UnaryOp, level: int) -> str:
    sign, own = _SIGNS[type(node.op)]
    # Whether a sign behind `**` has brackets is another question in each version of Python.
    if level == _POWER:
        raise _NotPlain
    return _bracketed(f"{sign}{_write(node.operand, own)}", own, level)


def _binary(node: ast.BinOp, level: int) -> str:
    sign, own = _OPERATORS[type(node.op)]
    to_the_right = own == _POWER
    left, right = _write(node.left, own + to_the_right), _write(node.right, own + (not to_the_right))
    return _bracketed(f"{left} {sign} {right}", own, level)


def _compare(node: ast.Compare, level: int) -> str:
    text = _write(node.left, _COMPARISON + 1)
    for sign, right in zip(node.ops, node.comparators, strict=True):
        text += f" {_COMPARISONS[type(sign)]} {_write(right, _COMPARISON + 1)}"
    return _bracketed(text, _COMPARISON, level)


def _connected(node: ast.BoolOp, level: int) -> str:
    word, own = (" and ", _AND) if isinstance(node.op, ast.And) else (" or ", _OR)
    # `ast` asks more of each further part, up to an atom.
    parts = [_write(each, min(own + index, _ATOM)) for index, each in enumerate(node.values, 1)]
    return _bracketed(word.join(parts), own, level)


def _conditional(node: ast.IfExp, level: int) -> str:
    body, test, otherwise = _write(node.body, _TEST + 1), _write(node.test, _TEST + 1), _write(node.orelse, _TEST)
    return _bracketed(f"{body} if {test} else {otherwise}", _TEST, level)


def _augmented(node: ast.AugAssign, level: int) -> str:
    return f"{_write(node.target)} {_OPERATORS[type(node.op)][0]}= {_write(node.value)}"


def _assert(node: ast.Assert, level: int) -> str:
    return f"assert {_write(node.test)}{f', {_write(node.msg)}' if node.msg is not None else ''}"


def _raise(node: ast.Raise, level: int) -> str:
    if node.exc is None:
        return "raise"
    return f"raise {_write(node.exc)}{f' from {_write(node.cause)}' if node.cause is not None else ''}"


_WRITERS: dict[type[ast.AST], Callable[[Any, int], str]] = {
    ast.Name: _name,
    ast.Constant: _constant,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Starred: _starred,
    ast.Subscript: _subscript,
    ast.Slice: _slice,
    ast.List: _list,
    ast.Tuple: _tuple,
    ast.UnaryOp: _signed,
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.BoolOp: _connected,
    ast.IfExp: _conditional,
    ast.AugAssign: _augmented,
    ast.Assert: _assert,
    ast.Raise: _raise,
}
