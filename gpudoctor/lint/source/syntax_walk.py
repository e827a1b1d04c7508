"""All nodes below a node of a syntax tree, those of a kind, or all statements."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import TypeVar

N = TypeVar("N", bound=ast.AST)

_NO_NODES = {
    "arg", "asname", "attr", "conversion", "ctx", "id", "is_async", "kind", "kwd_attrs", "level", "module", "name",
    "op", "ops", "rest", "simple", "tag", "type_comment", "type_ignores",
}  # fmt: skip
"""Fields that hold a text or a number, or what nobody asks for but at the node itself: its context, its operator."""
_WITHOUT = {
    "Constant": {"value"}, "MatchSingleton": {"value"}, "Global": {"names"}, "Nonlocal": {"names"},
}  # fmt: skip
"""Fields of these classes alone that hold none."""
_WITH = {"TypeAlias": {"name"}}
"""Fields of these classes alone that hold one."""


class _FieldsWithNodes(dict[type[ast.AST], tuple[str, ...]]):
    """The fields of a class of nodes that may hold nodes: most nodes are names and constants, which have none."""

    def __missing__(self, kind: type[ast.AST]) -> tuple[str, ...]:
        none = (_NO_NODES | _WITHOUT.get(kind.__name__, set())) - _WITH.get(kind.__name__, set())
        fields = self[kind] = tuple(name for name in kind._fields if name not in none)
        return fields


_FIELDS = _FieldsWithNodes()


def bound_by(node: ast.AST) -> str:
    """The name that this node binds by itself, be it an assignment, a definition or an import; empty elsewhere."""
    match node:
        case ast.Name(name, ast.Store() | ast.Del()):
            return name
        case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
            return name
        case ast.alias(name, asname):
            return (asname or name).partition(".")[0]
    return ""


def imported_names(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, str]]:
    """The names by which the imports among these nodes call what they bring from elsewhere, and its dotted names."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((alias.asname or alias.name, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield from ((alias.asname or alias.name, f"{node.module}.{alias.name}") for alias in node.names)


def walk(node: ast.AST) -> list[ast.AST]:
    """What `ast.walk` gives, in its order, at a fraction of its cost; without contexts and operators, for which nobody
    asks but at the names and operations."""
    found = [node]
    fields = _FIELDS
    for each in found:
        for name in fields[type(each)]:
            value = getattr(each, name, None)
            if type(value) is list:
                found += value if None not in value else [part for part in value if part is not None]
            elif value is not None:
                found.append(value)
    return found


def parts_of(node: ast.AST) -> list[ast.AST]:
    """What `ast.iter_child_nodes` gives, without contexts and operators."""
    found: list[ast.AST] = []
    for name in _FIELDS[type(node)]:
        value = getattr(node, name, None)
        if isinstance(value, list):
            found += value if None not in value else [part for part in value if part is not None]
        elif value is not None:
            found.append(value)
    return found


def nodes_of(kind: type[N], node: ast.AST) -> list[N]:
    """The node itself and those below it, as far as they are of this kind."""
    return [each for each in walk(node) if isinstance(each, kind)]


def statements(node: ast.AST) -> list[ast.AST]:
    """All statements below a node, with handlers and cases around them: a fifth of the nodes."""
    found = [node]
    for each in found:
        for value in each.__dict__.values():
            if type(value) is list and value and isinstance(value[0], _AROUND):
                found += value
    return found


_AROUND = (ast.stmt, ast.excepthandler, ast.match_case)
