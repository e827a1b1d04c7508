"""How a file calls a name of a library, and the import that it lacks."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.lint.fix.syntax import NoFix

if TYPE_CHECKING:
    from gpudoctor.lint.fix.syntax import Syntax

Change = tuple[int, int, str]
"""From offset, to offset, the text instead."""

_USUAL = {"torch.distributed": "dist", "torch.nn": "nn", "torch.multiprocessing": "mp"}
"""Under which names everybody imports these modules."""
_BOTH = {
    "torch.utils.data.DistributedSampler": "torch.utils.data.distributed.DistributedSampler",
    "torch.nn.parallel.DistributedDataParallel": "torch.nn.parallel.distributed.DistributedDataParallel",
}
"""Names that can be imported from two modules."""
_FUTURE = "__future__"


def called(name: str, at: ast.AST, syntax: Syntax) -> tuple[str, list[Change]]:
    """What to write for a library's name at a node, and the changes that import it."""
    for wanted in (name, *([_BOTH[name]] if name in _BOTH else [])):
        known = _known(wanted, at, syntax)
        if known:
            return known, []
    module, _, last = name.rpartition(".")
    if not module:
        return _imported(name, f"import {name}", name, syntax)
    # `import torch` brings its own names and these parts along.
    whole = any(dotted == name.partition(".")[0] and alias == dotted for alias, dotted in _bound(at, syntax))
    if whole and "." not in module:
        return name, []
    if last[:1].isupper():
        listed = _listed(module, last, syntax)
        if listed is not None:
            return listed
    if whole:
        return name, []
    if last[:1].isupper():
        return _imported(last, f"from {module} import {last}", last, syntax)
    usual = _USUAL.get(module)
    if usual and usual not in syntax.names:
        return _imported(f"{usual}.{last}", f"import {module} as {usual}", usual, syntax)
    return _imported(name, f"import {module}", "", syntax)


def _known(name: str, at: ast.AST, syntax: Syntax) -> str:
    """The name by an import that is there; the shortest way. `torch` alone is left for later."""
    found = [
        alias + name[len(dotted) :]
        for alias, dotted in _bound(at, syntax)
        if name == dotted or (name.startswith(f"{dotted}.") and (alias != dotted or "." in dotted))
    ]
    return min(found, key=len, default="")


def _bound(at: ast.AST, syntax: Syntax) -> Iterator[tuple[str, str]]:
    """Names that imports give here, with what they stand for."""
    around = [syntax.tree, *syntax.enclosing(at, ast.FunctionDef, ast.AsyncFunctionDef)]
    hidden = bound_around(at, syntax)
    for scope in around:
        for statement in scope.body:  # type: ignore[attr-defined]
            if isinstance(statement, ast.Import):
                for alias in statement.names:
                    if (alias.asname or alias.name).partition(".")[0] not in hidden:
                        yield alias.asname or alias.name, alias.name
            elif isinstance(statement, ast.ImportFrom) and not statement.level:
                for alias in statement.names:
                    if (alias.asname or alias.name) not in hidden:
                        yield alias.asname or alias.name, f"{statement.module}.{alias.name}"


def bound_around(at: ast.AST, syntax: Syntax) -> set[str]:
    """Names that a function around a node gives a meaning of its own."""
    found: set[str] = set()
    for function in syntax.enclosing(at, ast.FunctionDef, ast.AsyncFunctionDef):
        for node in ast.walk(function):
            if isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    return found


def _listed(module: str, last: str, syntax: Syntax) -> tuple[str, list[Change]] | None:
    """Add the name to the import that takes others from the same module."""
    for statement in _head(syntax):
        if isinstance(statement, ast.ImportFrom) and statement.module == module and not statement.level:
            if statement.names[0].name == "*" or last in syntax.names:
                return None
            return last, [_in_order(statement.names, last, syntax)]
    return None


def _in_order(listed: list[ast.alias], name: str, syntax: Syntax) -> Change:
    """Where a name belongs in a list of imports: sorted in where the others are, else at the end."""
    names = [each.name for each in listed]
    following = next((each for each in listed if each.name > name), None)
    if following is not None and sorted(names) == names:
        start = syntax.span(following)[0]
        return start, start, f"{name}, "
    end = syntax.span(listed[-1])[1]
    return end, end, f", {name}"


def _imported(text: str, line: str, binds: str, syntax: Syntax) -> tuple[str, list[Change]]:
    """An import of its own, where imports of its kind stand."""
    if binds in syntax.names:
        raise NoFix(f"`{binds}` means something else in this file")
    root = line.split()[1].partition(".")[0]
    at = _place_for(root, syntax)
    # Libraries stand apart from what Python brings along.
    roots = [_root(each) for each in _head(syntax)]
    apart = (
        root in sys.stdlib_module_names and bool(roots) and not any(each in sys.stdlib_module_names for each in roots)
    )
    return text, [(at, at, f"{line}\n\n" if apart else f"{line}\n")]


def _place_for(root: str, syntax: Syntax) -> int:
    """Where an import line belongs: after the imports of the same library, those of Python first."""
    head = [each for each in _head(syntax) if _root(each) != _FUTURE]
    same = [each for each in head if _root(each) == root]
    if root in sys.stdlib_module_names:
        same = [each for each in head if _root(each) in sys.stdlib_module_names]
        plain = [each for each in same if isinstance(each, ast.Import)]
        before = [each for each in plain if _root(each) < root]
        following = next(iter(plain or same or head), None)
        if before or following is None:
            return _after(before[-1], syntax) if before else _top(syntax)
        return syntax.line_start(syntax.span(following)[0])
    last = next(reversed(same or head), None)
    return _after(last, syntax) if last is not None else _top(syntax)


def _head(syntax: Syntax) -> list[ast.stmt]:
    """The imports at the top of the file."""
    found: list[ast.stmt] = []
    for statement in syntax.tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            found.append(statement)
        # Settings of the environment and fallbacks stand among them; what follows a definition is no head any more.
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
    return found


def _root(statement: ast.stmt) -> str:
    if isinstance(statement, ast.ImportFrom):
        return (statement.module or "").partition(".")[0]
    return statement.names[0].name.partition(".")[0] if isinstance(statement, ast.Import) else ""


def _top(syntax: Syntax) -> int:
    """Before the first statement that is neither the page of the file nor an import from the future."""
    for statement in syntax.tree.body:
        page = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not page and _root(statement) != _FUTURE:
            return syntax.line_start(syntax.start(statement))
    raise NoFix("an empty file")


def _after(statement: ast.stmt, syntax: Syntax) -> int:
    end = syntax.end_of_lines(statement)
    if end == len(syntax.text):
        raise NoFix("nothing but imports")
    return end + 1
