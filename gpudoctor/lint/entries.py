"""Which of the listed files start something: those are executed, the others are read through them."""

from __future__ import annotations

import ast
import enum
from collections.abc import Callable, Iterable, Iterator


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


def starts_something(tree: ast.Module, is_own: Callable[[ast.Import | ast.ImportFrom], bool]) -> bool:
    """Its top level calls what the file defines or takes from the project (`is_own`), or an object made of that.

    `setup(…)`, `print(…)` and `sys.path.append(…)` start no code of the project's.
    """
    own: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            own.add(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)) and is_own(statement):
            own.update((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.Assign) and _root(statement.value) in own:
            own.update(target.id for target in statement.targets if isinstance(target, ast.Name))
    acts = (each for each in _at_top(tree.body) if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call))
    return any(_root(each.value) in own for each in acts)


def _root(node: ast.expr) -> str:
    """The name with which `runner(cfg).go()` begins."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


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
