"""Whether statements of a module lead to training: the calls in them, followed through the definitions of the project.

A module that registers its classes when it is imported calls functions as a program does. What tells the two apart is
where these calls lead, not what they are called: into a table, or to a backward pass, a loader, a wrapper, a launch.

Nothing is executed, so a call of an object that is only known when the program runs is not followed. Where a class is
made, all its methods count: who calls which is not asked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from gpudoctor.lint.discovery.prefilter import is_training_call
from gpudoctor.lint.source.project import ModuleFile
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.lint.source.project import Project

STARTERS = frozenset(
    """
    absl.app.run argh.dispatch_command clize.run cyclopts.run defopt.run fire.Fire functools.partial jsonargparse.CLI
    jsonargparse.auto_cli plac.call simple_parsing.parse tyro.cli typer.run wandb.agent
    """.split()
)
"""Library functions that call what they are given, or hand it on to be called."""

MAX_FILES = 40
"""So many files of the project are asked for definitions."""
MAX_DEFINITIONS = 200

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_IMPORTS = (ast.Import, ast.ImportFrom)
_Import = tuple["ast.Import | ast.ImportFrom", ast.alias]


def leads_to_training(statements: Iterable[ast.stmt], module: ModuleFile, project: Project) -> bool:
    """What these statements of a module call trains, or starts what trains, as far as syntax shows."""
    return _Search(project).finds(statements, module)


def calls_own_code(statements: Iterable[ast.stmt], module: ModuleFile, project: Project) -> bool:
    """These statements call what the file defines or takes from the project, or hand it to be called.

    `setup(…)`, `print(…)` and `sys.path.append(…)` start no code of the project's.
    """
    search = _Search(project)
    return any(search.targets_of(call, search.names_of(module), {}) for call in _calls_in(statements))


@dataclass(frozen=True, slots=True, eq=False)
class _Names:
    """What the names at the top level of a module stand for."""

    module: ModuleFile
    definitions: dict[str, _Definition]
    imports: dict[str, _Import]
    assigned: dict[str, list[ast.expr]]
    decorated: dict[str, list[_Definition]]
    """Definitions by the name with which a decorator of theirs begins: `@app.command()` makes it a part of `app`."""


_Target = tuple[_Names, ast.AST]
"""Code of the project that is executed, and the module that it stands in."""


class _Search:
    """One search through a project. Each definition is visited once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._names: dict[str, _Names] = {}

    def finds(self, statements: Iterable[ast.stmt], module: ModuleFile) -> bool:
        names = self.names_of(module)
        pending: list[_Target] = [(names, each) for each in statements]
        seen = {node for _, node in pending}
        while pending and len(seen) < MAX_DEFINITIONS + len(module.source.tree.body):
            names, node = pending.pop()
            inner = _bindings(each for each in ast.walk(node) if isinstance(each, _IMPORTS))
            for call in _calls_in([node]):
                targets = list(self.targets_of(call, names, inner))
                if not targets and is_training_call(_library_name(call.func, {**names.imports, **inner})):
                    return True
                new = [each for each in targets if each[1] not in seen]
                seen.update(each for _, each in new)
                pending += new
        return False

    def names_of(self, module: ModuleFile) -> _Names:
        path = module.source.path
        if path not in self._names:
            self._names[path] = _names_of(module)
        return self._names[path]

    def targets_of(self, call: ast.Call, names: _Names, inner: dict[str, _Import]) -> Iterator[_Target]:
        """The code of the project that a call executes: what is called, and what that one is given to call."""
        called = list(self._meant(call.func, names, inner))
        yield from called
        given = [*call.args, *(keyword.value for keyword in call.keywords)]
        functions = [node for _, node in called if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        starts = any(map(_calls_a_parameter, functions)) if called else _starts(call, names, inner)
        if starts:
            yield from (target for each in given for target in self._meant(each, names, inner))
            # `fire.Fire()`: all that the file defines are commands.
            if not called and not given:
                yield from ((names, each) for each in names.definitions.values())

    def _meant(self, node: ast.expr, names: _Names, inner: dict[str, _Import]) -> Iterator[_Target]:
        """The code of the project that an expression stands for: a function, a class, or how an object is made."""
        parts = name_parts(node)
        if parts[0] in inner:
            yield from self._imported(inner[parts[0]], parts[1:], names)
        elif parts[0]:
            yield from self._at_top(parts, names, depth=0)

    def _at_top(self, parts: list[str], names: _Names, depth: int) -> Iterator[_Target]:
        name = parts[0]
        if name in names.definitions:
            node = names.definitions[name]
            # `operator.register_autograd(backward)` does not call the function `operator`.
            if len(parts) > 1 and not isinstance(node, ast.ClassDef):
                return
            yield names, node
        elif name in names.assigned:
            yield from ((names, each) for each in names.assigned[name])
        elif name in names.imports and depth < _MAX_REEXPORTS:
            yield from self._imported(names.imports[name], parts[1:], names, depth)
        # The commands of a group, wherever the group itself comes from.
        yield from ((names, each) for each in names.decorated.get(name, ()))

    def _imported(self, bound: _Import, rest: list[str], names: _Names, depth: int = 0) -> Iterator[_Target]:
        """What `from module import name` has bound, or an attribute of the module that an import has."""
        node, alias = bound
        find = partial(self._project.find, names.module)
        if isinstance(node, ast.ImportFrom):
            found, rest = find(node.module or "", node.level), [alias.name, *rest]
        else:
            found = find(alias.name if alias.asname else alias.name.partition(".")[0])
        while found is not None and rest:
            inside = self._project.submodule(found, rest[0])
            if inside is None:
                break
            # A package's own name comes before a module inside of it, as in Python.
            if isinstance(found, ModuleFile) and rest[0] in self.names_of(found).definitions:
                break
            found, rest = inside, rest[1:]
        if isinstance(found, ModuleFile) and rest and self._may_ask(found):
            yield from self._at_top(rest, self.names_of(found), depth + 1)

    def _may_ask(self, module: ModuleFile) -> bool:
        return module.source.path in self._names or len(self._names) < MAX_FILES


_MAX_REEXPORTS = 5


def _names_of(module: ModuleFile) -> _Names:
    found = _Names(module, {}, {}, {}, {})
    statements = list(at_top(module.source.tree.body, with_handlers=True))
    found.imports.update(_bindings(each for each in statements if isinstance(each, _IMPORTS)))
    for each in statements:
        if isinstance(each, _DEFINITIONS):
            found.definitions[each.name] = each
            for decorator in each.decorator_list:
                found.decorated.setdefault(name_parts(decorator)[0], []).append(each)
        elif isinstance(each, (ast.Assign, ast.AnnAssign)) and isinstance(each.value, ast.Call):
            for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                if isinstance(target, ast.Name):
                    found.assigned.setdefault(target.id, []).append(each.value)
    return found


def _bindings(imports: Iterable[ast.Import | ast.ImportFrom]) -> dict[str, _Import]:
    return {(alias.asname or alias.name).partition(".")[0]: (node, alias) for node in imports for alias in node.names}


_COMPOUND = (ast.If, ast.For, ast.While, ast.AsyncFor, ast.With, ast.AsyncWith, ast.Try)


def at_top(body: Iterable[ast.stmt], *, with_handlers: bool = False) -> Iterator[ast.stmt]:
    """The statements that an import executes, without those of functions and classes."""
    # Without recursion: a chain of `elif` is as deep as it is long.
    todo = list(body)[::-1]
    while todo:
        statement = todo.pop()
        yield statement
        if not isinstance(statement, _COMPOUND):
            continue
        if isinstance(statement, (ast.If, ast.For, ast.While, ast.AsyncFor)):
            todo += (*statement.body, *statement.orelse)[::-1]
        elif isinstance(statement, (ast.With, ast.AsyncWith)):
            todo += statement.body[::-1]
        else:
            handled = (each for handler in statement.handlers if with_handlers for each in handler.body)
            todo += (*statement.body, *handled, *statement.orelse, *statement.finalbody)[::-1]


def _calls_in(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    return (each for node in nodes for each in ast.walk(node) if isinstance(each, ast.Call))


def name_parts(node: ast.expr) -> list[str]:
    """`runner(cfg).go` as `["runner", "go"]`; nothing first where it begins with no name."""
    names: list[str] = []
    while isinstance(node, (ast.Call, ast.Attribute)):
        if isinstance(node, ast.Attribute):
            names.append(node.attr)
        node = node.func if isinstance(node, ast.Call) else node.value
    return [node.id if isinstance(node, ast.Name) else "", *reversed(names)]


def _library_name(node: ast.expr, imports: dict[str, _Import]) -> str:
    """The dotted name of what is called, through whichever import, as far as it is none of the project's."""
    first, *rest = name_parts(node)
    bound = imports.get(first)
    if bound is not None:
        statement, alias = bound
        if isinstance(statement, ast.ImportFrom):
            first = f"{statement.module or ''}.{alias.name}"
        elif alias.asname:
            first = alias.name
    return ".".join((first, *rest))


def _starts(call: ast.Call, names: _Names, inner: dict[str, _Import]) -> bool:
    return _library_name(call.func, {**names.imports, **inner}) in STARTERS


def _calls_a_parameter(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """`def launch(main, args): main(args)`, or it hands one on to what may."""
    given = {each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    return any(isinstance(call.func, ast.Name) and call.func.id in given for call in _calls_in(function.body))
