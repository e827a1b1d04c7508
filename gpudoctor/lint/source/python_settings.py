"""A file of Python that only gives names to plain values, as configurations of OpenMMLab are: what it holds."""

from __future__ import annotations

import ast
import os
from collections.abc import Callable
from typing import Any

from gpudoctor.lint.source.group_options import OPEN


def settings_in(text: str, folder: str, read: Callable[[str], object]) -> object:
    """The values by their names, put over those of the files in `_base_`; None where it does more than that. What it
    computes is left open."""
    found: dict[str, Any] = {}
    for statement in ast.parse(text).body:
        match statement:
            case ast.Expr(ast.Constant()) | ast.Import() | ast.ImportFrom():
                continue
            case ast.Assign([ast.Name(name)], value) | ast.AnnAssign(ast.Name(name), value=ast.expr() as value):
                found[name] = _written(value, found)
            case _:
                return None
    bases = found.pop("_base_", ())
    below: object = {}
    for base in [bases] if isinstance(bases, str) else bases:
        below = _put_over(below, read(os.path.normpath(os.path.join(folder, base))) or {})
    return _put_over(below, found)


def _put_over(below: object, above: object) -> object:
    if not isinstance(below, dict) or not isinstance(above, dict) or above.pop("_delete_", False):
        return above
    return {**below, **{key: _put_over(below.get(key), value) for key, value in above.items()}}


def _written(node: ast.expr, known: dict[str, object]) -> Any:
    match node:
        case ast.Constant(value):
            return value
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as number)):
            return -number
        case ast.List(items) | ast.Tuple(items):
            return [_written(each, known) for each in items]
        case ast.Dict(keys, values) if all(isinstance(key, ast.Constant) for key in keys):
            return {
                _written(key, known): _written(value, known) for key, value in zip(keys, values, strict=True) if key
            }
        case ast.Call(ast.Name("dict"), [], keywords) if all(each.arg for each in keywords):
            return {each.arg: _written(each.value, known) for each in keywords}
        case ast.Name(name):
            return known.get(name, OPEN)
    return OPEN
