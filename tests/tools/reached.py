"""Which functions of a program nobody calls, and which branches it never takes: a mistake there never happens.

By names alone, and generous: whatever something that may run mentions is taken to run. What is left are functions that
no line of the program's files asks for, as those of another program that shares a file with it.
"""

import ast
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import NamedTuple

from tests.tools.untaken import cut_untaken

IMPLICIT = re.compile(
    r"^__|^forward$|^backward$|^step$|^main$|_step$|_epoch|^on_|^configure_|dataloader$|^setup|^collate"
)
"""Methods that a library calls by itself."""
ANY_METHOD = "any method"
"""Mentioned by `getattr(object, name)` of a name that is computed. Whoever takes such a name out of a module mentions
all that stands at the top of it: what is mentioned then is the module's name with a star."""


class _Part(NamedTuple):
    """A function or a method, or what a file or a class does besides."""

    path: str
    name: str
    owner: str
    lines: range
    mentions: frozenset[str]
    told: bool = False
    """Something else than its name calls it: a decorator has registered it."""


def never_reached(trees: dict[str, ast.Module]) -> dict[str, list[range]]:
    """The lines of functions that are never called, and of branches that are never taken, by file. The trees lose
    these branches."""
    dead: dict[str, list[range]] = cut_untaken(trees)
    parts = [part for path, tree in trees.items() for part in _parts(path, tree)]
    mentioned: set[str] = set()
    left = parts
    while True:
        here = [part for part in left if _runs(part, mentioned)]
        if not here:
            break
        for part in here:
            mentioned |= part.mentions
        left = [part for part in left if part not in here]
    for part in left:
        dead.setdefault(part.path, []).append(part.lines)
    return dead


def _runs(part: _Part, mentioned: set[str]) -> bool:
    taken = f"{PurePath(part.path).stem}*" in mentioned or "*" in mentioned
    if part.owner:
        return (part.owner in mentioned or taken) and (
            part.name in mentioned or ANY_METHOD in mentioned or bool(IMPLICIT.search(part.name))
        )
    return part.told or part.name in mentioned or taken


def _parts(path: str, tree: ast.Module) -> Iterator[_Part]:
    modules = _modules(tree)
    rest: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield _part(path, statement, "", modules)
        elif isinstance(statement, ast.ClassDef):
            yield from _methods(path, statement, modules)
            rest |= _mentions(path, modules, *statement.bases, *statement.decorator_list)
            rest |= {statement.name} if statement.decorator_list else set()
        # To import a name is not to use it.
        elif not isinstance(statement, (ast.Import, ast.ImportFrom)):
            rest |= _mentions(path, modules, statement)
    yield _Part(path, "", "", range(0), frozenset(rest), True)


def _modules(tree: ast.Module) -> dict[str, str]:
    """What the file calls the modules that it imports, or what may be one."""
    found = {}
    for node in ast.walk(tree):
        for alias in node.names if isinstance(node, (ast.Import, ast.ImportFrom)) else ():
            found[alias.asname or alias.name.rpartition(".")[2]] = alias.name.rpartition(".")[2]
    return found


def _methods(path: str, cls: ast.ClassDef, modules: dict[str, str]) -> Iterator[_Part]:
    body = set()
    for statement in cls.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef)):
            yield _part(path, statement, cls.name, modules)
        else:
            body |= _mentions(path, modules, statement)
    yield _Part(path, "__class__", cls.name, range(0), frozenset(body))


def _part(path: str, function: ast.FunctionDef | ast.AsyncFunctionDef, owner: str, modules: dict[str, str]) -> _Part:
    lines = range(function.lineno, (function.end_lineno or function.lineno) + 1)
    told = bool(function.decorator_list) and not owner
    return _Part(path, function.name, owner, lines, frozenset(_mentions(path, modules, function)), told)


def _mentions(path: str, modules: dict[str, str], *nodes: ast.AST) -> set[str]:
    found: set[str] = set()
    for node in (each for root in nodes for each in ast.walk(root)):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        # `registry["net"]`, `getattr(models, "resnet")`.
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            found.add(node.value)
        found |= _by_any_name(node, path, modules)
    return found


def _by_any_name(node: ast.AST, path: str, modules: dict[str, str]) -> set[str]:
    """What is asked for by a name that is computed: `models.__dict__[name]`, `globals()[name]`."""
    here = f"{PurePath(path).stem}*"
    if isinstance(node, ast.Attribute) and node.attr == "__dict__" and isinstance(node.value, ast.Name):
        return {f"{modules[node.value.id]}*"} if node.value.id in modules else set()
    if not isinstance(node, ast.Call):
        return set()
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    if called in ("globals", "vars", "locals"):
        return {here}
    owner = _asked_by_text(node) if called == "eval" else ""
    if owner:
        return {f"{modules[owner]}*"} if owner in modules else {ANY_METHOD}
    if called in ("import_module", "__import__", "eval", "exec"):
        return {"*"} if not isinstance(node.func, ast.Attribute) or called == "import_module" else set()
    if called == "getattr" and len(node.args) > 1 and not isinstance(node.args[1], ast.Constant):
        owner = node.args[0]
        name = modules.get(owner.id) if isinstance(owner, ast.Name) else None
        return {f"{name}*"} if name else {ANY_METHOD}
    return set()


def _asked_by_text(call: ast.Call) -> str:
    """`eval(f"args.{name}")` asks one object for something, and can reach nothing else."""
    text = call.args[0] if call.args else None
    first = text.values[0] if isinstance(text, ast.JoinedStr) and text.values else None
    begin = first.value if isinstance(first, ast.Constant) else ""
    found = re.match(r"(\w+)\.$", begin) if isinstance(begin, str) else None
    return found[1] if found else ""
