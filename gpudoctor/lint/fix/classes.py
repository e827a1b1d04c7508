"""Constructors of classes: the call of the one above."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpudoctor.lint.fix.syntax import NoFix

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Location
    from gpudoctor.lint.fix.imports import Change
    from gpudoctor.lint.fix.syntax import Syntax


def super_first(syntax: Syntax, at: Location) -> list[Change]:
    """Make the call of the constructor above the first statement of the constructor around a place."""
    function = _constructor(syntax, at)
    first = _first_statement(function)
    indent = syntax.indent(first)
    start = syntax.line_start(syntax.start(first))
    calls = [each for each in function.body if _calls_above(each, syntax)]
    if len(calls) > 1 or any(isinstance(each, ast.Return) for each in ast.walk(function) if each is not function):
        raise NoFix("a constructor with ways of its own")
    if not calls:
        return [(start, start, f"{indent}super().__init__()\n")]
    call = calls[0]
    if any(isinstance(node, ast.Name) and _is_bound_in(node.id, function) for node in ast.walk(call)):
        raise NoFix("what it is given is made before")
    begin, end = syntax.line_start(syntax.start(call)), syntax.end_of_lines(call) + 1
    return [(start, start, syntax.text[begin:end]), (begin, end, "")]


def _constructor(syntax: Syntax, at: Location) -> ast.FunctionDef:
    statement = syntax.statement(at)
    if isinstance(statement, ast.ClassDef):
        found: ast.AST | None = next((each for each in statement.body if _is_constructor(each)), None)
    else:
        found = next(syntax.enclosing(statement, ast.FunctionDef), None)
    if not isinstance(found, ast.FunctionDef) or not _is_constructor(found):
        raise NoFix("no constructor around")
    return found


def _is_constructor(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__init__"


def _first_statement(function: ast.FunctionDef) -> ast.stmt:
    first = function.body[0]
    page = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1
    return function.body[1] if page else first


def _calls_above(statement: ast.stmt, syntax: Syntax) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and syntax.written(call.func).endswith(".__init__")


def _is_bound_in(name: str, function: ast.FunctionDef) -> bool:
    nodes = ast.walk(function)
    return any(isinstance(each, ast.Name) and each.id == name and isinstance(each.ctx, ast.Store) for each in nodes)
