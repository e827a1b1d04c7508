"""How a file calls a name of a library, and the import that it lacks.

Where an import belongs is decided here and not by `AddImportsVisitor` of `libcst.codemod`: that puts those of Python
behind those of libraries, and a new name before the others, and takes longer to load than all else of libcst.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator

from gpudoctor.lint.fix.changes import NewLines, NewName, NoFix, TreeChange, Where
from gpudoctor.lint.fix.nodes import FileNodes, stored_in
from gpudoctor.lint.source.syntax_walk import imported_names, nodes_of

_USUAL = {"torch.distributed": "dist", "torch.nn": "nn", "torch.multiprocessing": "mp"}
"""Under which names everybody imports these modules."""
_BOTH = {
    "torch.utils.data.DistributedSampler": "torch.utils.data.distributed.DistributedSampler",
    "torch.nn.parallel.DistributedDataParallel": "torch.nn.parallel.distributed.DistributedDataParallel",
}
"""Names that can be imported from two modules."""
_FUTURE = "__future__"


def called(name: str, at: ast.AST, nodes: FileNodes) -> tuple[str, list[TreeChange]]:
    """What to write for a library's name at a node, and the changes that import it."""
    for wanted in (name, *([_BOTH[name]] if name in _BOTH else [])):
        known = _known(wanted, at, nodes)
        if known:
            return known, []
    module, _, last = name.rpartition(".")
    if not module:
        return name, [_import(f"import {name}", name, nodes)]
    # `import torch` brings its own names and these parts along.
    whole = any(dotted == name.partition(".")[0] and alias == dotted for alias, dotted in _bound(at, nodes))
    if whole and "." not in module:
        return name, []
    if last[:1].isupper():
        taking = _taking_from(module, nodes)
        if taking is not None and taking.names[0].name != "*" and last not in nodes.names:
            return last, [NewName(nodes.place(taking), last)]
    if whole:
        return name, []
    if last[:1].isupper():
        return last, [_import(f"from {module} import {last}", last, nodes)]
    usual = _USUAL.get(module)
    if usual and usual not in nodes.names:
        return f"{usual}.{last}", [_import(f"import {module} as {usual}", usual, nodes)]
    return name, [_import(f"import {module}", "", nodes)]


def _known(name: str, at: ast.AST, nodes: FileNodes) -> str:
    """The name by an import that is there; the shortest way. `torch` alone is left for later."""
    found = [
        alias + name[len(dotted) :]
        for alias, dotted in _bound(at, nodes)
        if name == dotted or (name.startswith(f"{dotted}.") and (alias != dotted or "." in dotted))
    ]
    return min(found, key=len, default="")


def _bound(at: ast.AST, nodes: FileNodes) -> Iterator[tuple[str, str]]:
    """Names that imports give here, with what they stand for."""
    around = [nodes.tree, *nodes.enclosing(at, ast.FunctionDef, ast.AsyncFunctionDef)]
    hidden = bound_around(at, nodes)
    for scope in around:
        for name, dotted in imported_names(scope.body):  # type: ignore[attr-defined]
            if name.partition(".")[0] not in hidden:
                yield name, dotted


def bound_around(at: ast.AST, nodes: FileNodes) -> set[str]:
    """Names that a function around a node gives a meaning of its own."""
    found: set[str] = set()
    for function in nodes.enclosing(at, ast.FunctionDef, ast.AsyncFunctionDef):
        found.update(stored_in(function), (node.arg for node in nodes_of(ast.arg, function)))
    return found


def _taking_from(module: str, nodes: FileNodes) -> ast.ImportFrom | None:
    """The import at the top that takes names from a module."""
    taking = (each for each in _head(nodes) if isinstance(each, ast.ImportFrom) and not each.level)
    return next((each for each in taking if each.module == module), None)


def _import(line: str, binds: str, nodes: FileNodes) -> NewLines:
    """An import of its own, where imports of its kind stand: after those of the same library, those of Python first."""
    if binds in nodes.names:
        raise NoFix(f"`{binds}` means something else in this file")
    root = line.split()[1].partition(".")[0]
    head = [each for each in _head(nodes) if _root(each) != _FUTURE]
    pythons = [each for each in head if _root(each) in sys.stdlib_module_names]
    if root in sys.stdlib_module_names:
        plain: list[ast.Import | ast.ImportFrom] = [each for each in pythons if isinstance(each, ast.Import)]
        behind = [each for each in plain if _root(each) < root][-1:]
        before = (plain or pythons or head)[:1]
    else:
        behind, before = ([each for each in head if _root(each) == root] or head)[-1:], []
    if behind:
        return NewLines(nodes.place(behind[0]), (line,), Where.AFTER)
    # Libraries stand apart from what Python brings along.
    apart = root in sys.stdlib_module_names and head and not pythons
    lines = (line, "") if apart else (line,)
    return NewLines(nodes.place(before[0] if before else _first_of_all(nodes)), lines, Where.BEFORE)


def _head(nodes: FileNodes) -> list[ast.Import | ast.ImportFrom]:
    """The imports at the top of the file."""
    found: list[ast.Import | ast.ImportFrom] = []
    for statement in nodes.tree.body:
        if isinstance(statement, (ast.Import, ast.ImportFrom)):
            found.append(statement)
        # Settings of the environment and fallbacks stand among them; what follows a definition is no head any more.
        elif isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            break
    return found


def _root(statement: ast.Import | ast.ImportFrom) -> str:
    name = (statement.module or "") if isinstance(statement, ast.ImportFrom) else statement.names[0].name
    return name.partition(".")[0]


def _first_of_all(nodes: FileNodes) -> ast.stmt:
    """The first statement that is neither the page of the file nor an import from the future."""
    for statement in nodes.tree.body:
        page = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
        if not page and not (isinstance(statement, ast.ImportFrom) and _root(statement) == _FUTURE):
            return statement
    raise NoFix("an empty file")
