"""Which of the listed files start something: those are executed, the others are read through them."""

from __future__ import annotations

import ast
import enum
from collections.abc import Iterable, Iterator


class Start(enum.IntEnum):
    """How surely a file is the start of a program."""

    NEVER = 0
    """It only defines things."""
    WHEN_RUN = 1
    """Its top level does things, as that of a script does, but also that of a module with side effects."""
    MAIN = 2
    """It says what to do when it is the main program."""


def start_of(tree: ast.Module, file_name: str) -> Start:
    """How surely the file with this tree is the start of a program."""
    if file_name == "__main__.py" or any(_is_main_guard(statement) for statement in tree.body):
        return Start.MAIN
    if file_name == "__init__.py" or not any(_acts(statement) for statement in _at_top(tree.body)):
        return Start.NEVER
    return Start.WHEN_RUN


def _is_main_guard(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If):
        return False
    names = [node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)]
    return "__name__" in names


def _at_top(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that an import executes, without those of functions and classes."""
    # Without recursion: a chain of `elif` is as deep as it is long.
    todo = list(body)
    while todo:
        statement = todo.pop()
        yield statement
        if isinstance(statement, ast.If):
            todo += (*statement.body, *statement.orelse)
        elif isinstance(statement, ast.Try):
            todo += (*statement.body, *statement.orelse, *statement.finalbody)


def _acts(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    return isinstance(statement, (ast.For, ast.While, ast.With))
