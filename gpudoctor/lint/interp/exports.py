"""The names that the body of a module binds, and the attributes that a file sets, told without executing it."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from gpudoctor.lint.flow.interning import for_one_program
from gpudoctor.lint.source.syntax_walk import nodes_of, walk


def names_bound(body: Sequence[ast.stmt]) -> dict[str, bool] | None:
    """The names that a star import brings, in order, and of each whether the module makes it or imports it itself.

    None where only executing would tell: a star import in the module brings what it likes.
    """
    names: dict[str, bool] = {}
    exported: list[str] | None = None
    for statement in _statements(body):
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names[statement.name] = True
        elif isinstance(statement, (ast.Import, ast.ImportFrom)):
            for alias in statement.names:
                if alias.name == "*":
                    return None
                names.setdefault(alias.asname or alias.name.partition(".")[0], False)
        else:
            names.update(dict.fromkeys(_stored(statement), True))
            exported = _exported(statement) or exported
    if exported is not None:
        return {name: made for name, made in names.items() if name in exported}
    # Python's rule where there is no `__all__`.
    return {name: made for name, made in names.items() if not name.startswith("_")}


@for_one_program
def attributes_set(module: ast.Module) -> frozenset[str]:
    """The attributes that a file sets on anything, as far as it writes their names."""
    found: set[str] = set()
    for node in walk(module):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            found.add(node.attr)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "setattr":
            found |= {str(each.value) for each in node.args if isinstance(each, ast.Constant)}
    return frozenset(found)


_UNDER_ANY_NAME = frozenset({"exec", "globals", "locals", "setattr", "vars", "__dict__", "__getattr__", "modules"})
"""What may give a module a name that is not written in it."""


def may_have(module: ast.Module, name: str) -> bool:
    """Something in this module may give it a name, whether it was executed or not."""
    for node in walk(module):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            bound = node.name
        elif isinstance(node, ast.alias):
            bound = node.asname or node.name.partition(".")[0]
        else:
            bound = getattr(node, "id", getattr(node, "attr", ""))
            if isinstance(getattr(node, "ctx", None), ast.Load) and bound not in _UNDER_ANY_NAME:
                continue
        if bound in (name, "*") or bound in _UNDER_ANY_NAME:
            return True
    return False


def _exported(statement: ast.stmt) -> list[str] | None:
    """What `__all__ = ["a", "b"]` lists."""
    if not isinstance(statement, ast.Assign) or not isinstance(statement.value, (ast.List, ast.Tuple)):
        return None
    if not any(isinstance(target, ast.Name) and target.id == "__all__" for target in statement.targets):
        return None
    return [str(each.value) for each in statement.value.elts if isinstance(each, ast.Constant)]


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
        yield from (node.id for node in nodes_of(ast.Name, statement) if isinstance(node.ctx, ast.Store))
