"""Whether what a file calls leads to training, as far as syntax shows: a search through the files of its project.

A module that registers its classes when it is imported calls functions as a program does. What tells the two apart is
where these calls lead, not what they are called: into a table, or to a backward pass, a loader, a wrapper, a launch.
They are followed through the definitions of the project. Nothing is executed, so a call of an object that is only known
when the program runs is not followed. Where a class is made, all its methods count: who calls which is not asked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache, partial
from itertools import islice

from gpudoctor.lint.discovery.content_signs import concerns_training, speaks_of_training
from gpudoctor.lint.discovery.top_level import DEFINITIONS, Definition, Import, at_top, bindings, library_of, name_parts
from gpudoctor.lint.source.library_roots import is_strange
from gpudoctor.lint.source.project import ModuleFile, Project
from gpudoctor.lint.source.syntax_walk import nodes_of, walk
from gpudoctor.manifest.compiled import pattern, prefixes, trains
from gpudoctor.record import dataclass

STARTERS = frozenset({*prefixes("calls_given"), "functools.partial", "jsonargparse.cli.CLI", "wandb.agent"})
"""Library functions that call what they are given, or hand it on to be called."""

MAX_FILES = 40
"""So many files of the project are asked for definitions, or for words about training."""
MAX_DEFINITIONS = 200


def leads_to_training(statements: Iterable[ast.stmt], module: ModuleFile, project: Project) -> bool:
    """What these statements of a module call trains, or starts what trains, as far as syntax shows."""
    return _CallSearch(project).finds(statements, module, lambda name, own: not own and is_training_call(name))


def goes_backward(statements: Iterable[ast.stmt], module: ModuleFile, project: Project) -> bool:
    """What these statements call asks for gradients: they are a training of their own."""
    return _CallSearch(project).finds(statements, module, lambda name, _: name.endswith(".backward"))


def calls_own_code(statements: Iterable[ast.stmt], module: ModuleFile, project: Project) -> bool:
    """These statements call what the file defines or takes from the project, or hand it to be called; or they may,
    where the file or a helper that it imports says where else modules are looked for.

    `setup(…)` and `print(…)` start no code of the project's.
    """
    if any(map(looks_elsewhere, (module, *project.imports_of(module)))):
        return True
    search = _CallSearch(project)
    targets = (each for call in _calls_in(statements) for each in search.targets_of(call, search.names_of(module), {}))
    return next(targets, None) is not None


def looks_elsewhere(module: ModuleFile) -> bool:
    """It says where modules are looked for, or imports some whose names it computes."""
    return re.search(_SEARCHES, module.source.text) is not None


def may_train_unread(module: ModuleFile, project: Project) -> bool:
    """A library of which nothing is known may train in it, as `registry.get_trainer_class(…)` says. Whether it is asked
    to, its execution shows."""
    if not speaks_of_training(module.source.text.encode("utf-8", "replace")):
        return False
    imports = bindings(walk(module.source.tree))
    roots = {library_of(name, imports) for name in imports}
    return any(is_strange(root) and project.find(module, root) is None for root in sorted(roots))


_SEARCHES = r"\bsys\.path\b|from sys import .*\bpath\b|\baddsitedir\b|\bimport_module\b"


def reaches_training(start: ModuleFile, project: Project) -> bool:
    """The module, or one of those that it imports, and these in turn, has to do with training."""
    reached, seen = [start], {start}
    # A large project has hundreds of helpers; most trainings are found in the nearest few.
    for module in islice(reached, MAX_FILES):
        # What it finds elsewhere is known once it is executed.
        if concerns_training(module.source.text.encode("utf-8", "replace")) or looks_elsewhere(module):
            return True
        # In the order of the imports: where there are too many, the same ones are left out each time.
        new = [each for each in dict.fromkeys(project.imports_of(module)) if each not in seen]
        seen.update(new)
        reached += new
    return False


@dataclass(frozen=True, eq=False)
class _TopLevelNames:
    """What the names at the top level of a module stand for."""

    module: ModuleFile
    definitions: dict[str, Definition]
    imports: dict[str, Import]
    assigned: dict[str, list[ast.expr]]
    decorated: dict[str, list[Definition]]
    """Definitions by the name with which a decorator of theirs begins: `@app.command()` makes it a part of `app`."""


def _names_of(module: ModuleFile) -> _TopLevelNames:
    """The names of a module."""
    statements = list(at_top(module.source.tree.body, with_handlers=True))
    found = _TopLevelNames(module, {}, bindings(statements), {}, {})
    for each in statements:
        if isinstance(each, DEFINITIONS):
            found.definitions[each.name] = each
            for decorator in each.decorator_list:
                found.decorated.setdefault(name_parts(decorator)[0], []).append(each)
        elif isinstance(each, (ast.Assign, ast.AnnAssign)) and isinstance(each.value, (ast.Call, ast.Dict)):
            for target in each.targets if isinstance(each, ast.Assign) else [each.target]:
                if isinstance(target, ast.Name):
                    found.assigned.setdefault(target.id, []).append(each.value)
    return found


_Target = tuple[_TopLevelNames, ast.AST]
"""Code of the project that is executed, and the module that it stands in."""


class _CallSearch:
    """One search through a project. Each definition is visited once."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._names: dict[str, _TopLevelNames] = {}

    def finds(
        self,
        statements: Iterable[ast.stmt],
        module: ModuleFile,
        is_meant: Callable[[str, bool], bool],
    ) -> bool:
        """A call is meant, by its name and whether it calls code of the project."""
        names = self.names_of(module)
        pending: list[_Target] = [(names, each) for each in statements]
        seen = {node for _, node in pending}
        while pending and len(seen) < MAX_DEFINITIONS + len(module.source.tree.body):
            names, node = pending.pop()
            inner = bindings(walk(node))
            imports = {**names.imports, **inner}
            for call in _calls_in([node]):
                name = _library_name(call.func, imports)
                targets = list(self.targets_of(call, names, inner))
                if is_meant(name, bool(targets)):
                    return True
                new = [each for each in targets if each[1] not in seen]
                seen.update(each for _, each in new)
                pending += new
        return False

    def names_of(self, module: ModuleFile) -> _TopLevelNames:
        path = module.source.path
        if path not in self._names:
            self._names[path] = _names_of(module)
        return self._names[path]

    def targets_of(self, call: ast.Call, names: _TopLevelNames, inner: dict[str, Import]) -> Iterator[_Target]:
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

    def _meant(self, node: ast.expr, names: _TopLevelNames, inner: dict[str, Import]) -> Iterator[_Target]:
        """The code of the project that an expression stands for: a function, a class, or how an object is made."""
        # `COMMANDS[name]()`
        parts = name_parts(node.value if isinstance(node, ast.Subscript) else node)
        if parts[0] in inner:
            yield from self._imported(inner[parts[0]], parts[1:], names)
        elif parts[0]:
            yield from self._at_top(parts, names, depth=0)

    def _at_top(self, parts: list[str], names: _TopLevelNames, depth: int) -> Iterator[_Target]:
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

    def _imported(self, bound: Import, rest: list[str], names: _TopLevelNames, depth: int = 0) -> Iterator[_Target]:
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


@lru_cache(maxsize=4096)
def is_training_call(name: str) -> bool:
    """Who calls the library function of this name trains, makes what trains, or starts ranks."""
    return trains(name) and not re.search(pattern("other meanings"), name)


def _calls_in(nodes: Iterable[ast.AST]) -> Iterator[ast.Call]:
    return (each for node in nodes for each in nodes_of(ast.Call, node))


def _library_name(node: ast.expr, imports: dict[str, Import]) -> str:
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


def _starts(call: ast.Call, names: _TopLevelNames, inner: dict[str, Import]) -> bool:
    return _library_name(call.func, {**names.imports, **inner}) in STARTERS


def _calls_a_parameter(function: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """`def launch(main, args): main(args)`, or it hands one on to what may."""
    given = {each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)}
    return any(isinstance(call.func, ast.Name) and call.func.id in given for call in _calls_in(function.body))
