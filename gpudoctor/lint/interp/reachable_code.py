"""What all code of a program names that may run, as far as names tell.

Not everything that runs is executed symbolically: a limit cuts off a part, unread code calls another. A function may
run whose name is in use on some way from the program's first line. By names alone, so nothing is judged by it: rules
stand back where what they miss may be done there, and training that was not seen is told.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import NamedTuple

from gpudoctor.lint.discovery.top_level import Definition, name_parts, root_name
from gpudoctor.lint.source.project import ModuleFile
from gpudoctor.lint.source.project_answers import UsedNames
from gpudoctor.lint.source.syntax_walk import nodes_of, statements, walk
from gpudoctor.record import compared

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
BY_A_TRAINER = "training_step"
"""The method of a LightningModule that its Trainer calls."""
FITS = "fit"
"""The method of the Trainer that does."""


class CodePart(NamedTuple):
    """A function or method, a class without its methods, an import under another name, or what a file does besides."""

    file: ModuleFile
    node: ast.AST | None
    name: str
    owner: str
    used: UsedNames
    code: tuple[ast.AST, ...]
    decorated: bool
    """It, or the class that has it: whoever decorates it may have it called, as a registry does."""


CodeParts = dict["ModuleFile", list[CodePart]]
"""Those of the files that were looked at, each once for all executions of an entry."""


def names_that_may_run(
    entry: ModuleFile, files: Sequence[ModuleFile], known: CodeParts, started: AbstractSet[str]
) -> UsedNames:
    """What is named in these files, all of which are imported, and in the functions to which that may lead."""
    parts = [part for file in files for part in parts_of(file, known)]
    begin = [part for part in parts if part.node is None or part.decorated or is_started(part, entry, started)]
    used = [part.used for part in reachable(begin, parts, any_method=True)]
    return UsedNames(*(frozenset[str]().union(*each) for each in zip(*map(compared, used), strict=True)))


def parts_of(file: ModuleFile, known: CodeParts) -> list[CodePart]:
    """All parts of a file, its own body last. What is `known` grows."""
    if file not in known:
        known[file] = list(_parts(file))
    return known[file]


def _parts(file: ModuleFile) -> Iterator[CodePart]:
    rest: list[ast.AST] = []
    imported = _imported(file.source.tree)

    def part(node: Definition | None, name: str, outer: ast.ClassDef | None, *code: ast.AST) -> CodePart:
        decorated = any(each.decorator_list for each in (outer or node,) if each is not None)
        return CodePart(file, node, name, outer.name if outer else "", _used_names(code, imported), code, decorated)

    for statement in file.source.tree.body:
        if isinstance(statement, FUNCTIONS):
            yield part(statement, statement.name, None, statement)
        elif isinstance(statement, ast.ClassDef):
            methods = [each for each in statement.body if isinstance(each, FUNCTIONS)]
            yield from (part(each, each.name, statement, each) for each in methods)
            # Whoever has a class may have its base class do the work.
            others = (each for each in statement.body if not isinstance(each, FUNCTIONS))
            yield part(statement, statement.name, None, *statement.bases, *others)
        elif isinstance(statement, ast.ImportFrom):
            # `from .loops import run as pretrain`, for who takes `pretrain` from here.
            for each in statement.names:
                if each.asname not in (None, each.name):
                    yield CodePart(file, each, each.asname, "", _renaming(each.name), (), False)
        elif not isinstance(statement, ast.Import):
            rest.append(statement)
    yield part(None, "", None, *rest)


def _imported(tree: ast.Module) -> dict[str, str]:
    """The names that imports bind, which may be modules; of those that a module is asked for, what it calls them."""
    imports = (each for each in statements(tree) if isinstance(each, (ast.Import, ast.ImportFrom)))
    return {
        (alias.asname or alias.name).partition(".")[0]: alias.name if isinstance(each, ast.ImportFrom) else ""
        for each in imports
        for alias in each.names
    }


def _renaming(name: str) -> UsedNames:
    return UsedNames(frozenset({name}), frozenset({name}))


def _used_names(code: Iterable[ast.AST], imported: Mapping[str, str]) -> UsedNames:
    names: set[str] = set()
    attributes: set[str] = set()
    of_modules: set[str] = set()
    called: set[str] = set()
    given: set[str] = set()
    texts: set[str] = set()
    for node in [each for root in code for each in walk(root)]:
        # By type: `isinstance` takes long to find that a node is something else, which most of them are.
        if type(node) is ast.Name:
            names.add(node.id)
            names.add(imported.get(node.id) or node.id)
        elif type(node) is ast.Attribute:
            (of_modules if root_name(node) in imported else attributes).add(node.attr)
        elif type(node) is ast.Call:
            names |= _choosing(node, imported)
            last = name_parts(node.func)[-1]
            called.add(imported.get(last) or last)
        elif type(node) is ast.keyword and node.arg is not None:
            given.add(node.arg)
        # `registry["net"]`, `getattr(models, "resnet")`; what has blanks is for people.
        elif type(node) is ast.Constant and isinstance(node.value, str) and " " not in node.value:
            texts.add(node.value)
    functions, attributes = names | of_modules, attributes | of_modules
    uses = functions | attributes | {each for each in texts if each.isidentifier()}
    return UsedNames(*map(frozenset, (uses, functions, attributes, called, given | texts)))


_ALL_OF = "*"
"""Before the name of a module of which anything may be used."""


def _choosing(call: ast.Call, modules: Mapping[str, str]) -> set[str]:
    """The texts of `registry["train"](…)`, `find("train")(…)` and `getattr(loops, "train")`; of `getattr(loops, name)`
    all that the module holds."""
    by_name = isinstance(call.func, ast.Name) and call.func.id == "getattr"
    match call.args[:2]:
        case [ast.Name() | ast.Attribute() as owner, asked] if by_name and not isinstance(asked, ast.Constant):
            return {_ALL_OF + name_parts(owner)[-1]} if root_name(owner) in modules else set()
    where = call.args if by_name else [call.func] if isinstance(call.func, (ast.Call, ast.Subscript)) else []
    found = (inner.value for each in where for inner in nodes_of(ast.Constant, each))
    return {each for each in found if isinstance(each, str)}


def is_started(part: CodePart, entry: ModuleFile, started: AbstractSet[str]) -> bool:
    """It is one of the functions of the entry that are `started` by name."""
    return part.file is entry and not part.owner and part.name in started


def reachable(begin: Iterable[CodePart], parts: Sequence[CodePart], *, any_method: bool = False) -> list[CodePart]:
    """What may run when these parts do, as far as names tell: these first, and the body of no other file.

    A method runs that is named, or with `any_method` all of a class that is: libraries call those that they know of.
    """
    reached = list(begin)
    used = {name for part in reached for name in part.used.uses}
    own = {(part.file, part.name) for part in parts if part.node is not None and not part.owner}
    called = {each for part in reached for each in _meant(part, own)}
    known = {part.node for part in reached}
    left = [part for part in parts if part.node is not None and part.node not in known]
    while True:
        opened = {each for each in used if each.startswith(_ALL_OF)}
        here: list[CodePart] = []
        rest: list[CodePart] = []
        for part in left:
            runs = (any_method and part.owner in used) or _may_run(part, used, called, opened)
            (here if runs else rest).append(part)
        if not here:
            return reached
        reached += here
        left = rest
        for part in here:
            used |= part.used.uses
            called |= _meant(part, own)


_Called = set[tuple["ModuleFile | None", str]]
"""Names of functions, with the file where they can only be one of its own."""


def _meant(part: CodePart, own: AbstractSet[tuple[ModuleFile, str]]) -> _Called:
    """The functions that a part may call: what its own file defines under a name, else any of that name."""
    return {(part.file if (part.file, name) in own else None, name) for name in part.used.functions}


def _may_run(part: CodePart, used: set[str], called: _Called, opened: set[str]) -> bool:
    in_use = not part.owner or part.name in used
    if opened and in_use and any(_ALL_OF + each in opened for each in part.file.name.split(".")):
        return True
    if not part.owner:
        return (part.file, part.name) in called or (None, part.name) in called
    if part.name == BY_A_TRAINER:
        # No other than a Trainer calls it, whoever else has the class.
        return part.owner in used and (FITS in used or part.name in used)
    return part.owner in used and (part.name in used or part.name.startswith("__"))
