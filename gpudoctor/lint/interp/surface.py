"""The names that the body of a module binds, told without executing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence


def names_bound(body: Sequence[ast.stmt]) -> tuple[str, ...] | None:
    """The names in order, or None where only executing would tell: a star import brings what it likes."""
    names: dict[str, None] = {}
    for statement in _statements(body):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names[statement.name] = None
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                if alias.name == "*":
                    return None
                names[alias.asname or alias.name.partition(".")[0]] = None
        else:
            names.update(dict.fromkeys(_stored(statement)))
    return tuple(names)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that an import executes, in order. Without recursion: a chain of `elif` is as deep as long."""
    todo = list(reversed(body))
    while todo:
        statement = todo.pop()
        yield statement
        inner = [getattr(statement, part, []) for part in ("body", "handlers", "orelse", "finalbody")]
        if not isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            todo += reversed([each for part in inner for each in part])


def _stored(statement: ast.stmt) -> Iterator[str]:
    if isinstance(statement, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.For, ast.With)):
        yield from (
            node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        )
