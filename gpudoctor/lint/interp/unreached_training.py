"""Training that stands in the files of a program in which no backward pass was seen.

Such a program trains nothing, or its training was missed. What its files say tells the two apart: a call that asks for
gradients, in a function whose name is in use on some way from the program's first line. By names alone, so nothing is
judged by it: it is only told that this was not looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, NamedTuple

from gpudoctor.lint.contents import ancestry
from gpudoctor.lint.discovery.classify import is_test
from gpudoctor.lint.discovery.top_level import name_parts, root_name
from gpudoctor.lint.domain.function import Function, class_of
from gpudoctor.lint.events.knowledge import Chosen, NotReached, Stop
from gpudoctor.lint.source.syntax_walk import nodes_of, statements, walk

if TYPE_CHECKING:
    from gpudoctor.lint.domain.function import ChosenCall
    from gpudoctor.lint.domain.value import Value
    from gpudoctor.lint.source.project import ModuleFile

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_GRADIENTS = ("backward", "manual_backward")
_BY_A_TRAINER = "training_step"
"""The method of a LightningModule that its Trainer calls."""
_FITS = "fit"
"""The method of the Trainer that does."""
_LONGEST_WAY = 4
"""Calls between the one that was not followed and the training: names prove less with each."""
_MOST_LINES = 60_000
"""Of larger programs the names are not gathered: that takes longer than following a script."""


class _CodePart(NamedTuple):
    """A function or method, or what a file does besides: which names it uses, and where it asks for gradients."""

    file: ModuleFile
    node: ast.AST | None
    name: str
    owner: str
    uses: frozenset[str]
    calls: frozenset[str]
    """Of these, names that may mean a function: not what is asked of an object."""
    gradients: tuple[ast.expr | ast.stmt, ...]


CodeParts = dict["ModuleFile", list[_CodePart]]
"""Those of the files that were looked at, each once for all executions of an entry."""


def training_not_reached(
    entry: ModuleFile,
    files: Sequence[ModuleFile],
    known: CodeParts,
    whole: bool,
    started: AbstractSet[str],
    chosen: Collection[ChosenCall],
    fatal: Mapping[ast.AST, Stop],
) -> NotReached:
    """Where these files ask for gradients, the entry first, then by name, as the entry's body or one of the functions
    `started` by name may come there; and the call that may lead there, if a
    setting has chosen what it calls, or the error in which one of the functions on the way has ended on all its
    paths. What is `known` of the files grows."""
    # A file that starts nothing answers for its own functions alone.
    asked_of = files if whole else [file for file in files if file is entry]
    if not any(map(_may_ask, asked_of)) or sum(len(file.source.lines) for file in files) > _MOST_LINES:
        return NotReached()
    parts = [part for file in asked_of for part in _parts_of(file, known)]
    reached = _reached(entry, parts, started) if whole else parts
    missed = [part for part in reached if part.gradients and any(map(_steps, (part.file, entry)))]
    missed.sort(key=lambda part: (part.file is not entry, part.file.source.shown))
    asked = whole and bool(missed)
    return NotReached(
        tuple(_stop(part.file, each) for part in missed for each in part.gradients[:1]),
        _leading_to(missed, parts, chosen) if asked and chosen else None,
        _ending_before(missed, parts, fatal) if asked and fatal else None,
    )


def _ways_to(missed: list[_CodePart], parts: list[_CodePart]) -> Iterator[list[_CodePart]]:
    """The functions that train, those that use their names, and so on."""
    way, seen = missed, set[int]()
    for _ in range(_LONGEST_WAY):
        yield way
        seen.update(map(id, way))
        names = {part.name for part in way}
        way = [part for part in parts if part.node is not None and id(part) not in seen and part.uses & names]


def _leading_to(missed: list[_CodePart], parts: list[_CodePart], chosen: Collection[ChosenCall]) -> Chosen | None:
    """The first of these calls that may come to the training: of one of the functions on the way there, or given the
    object or function that trains."""
    for way in _ways_to(missed, parts):
        for call in chosen:
            if any(_may_be(call, part) for part in way):
                return Chosen(_shortened(ast.unparse(call.node.func)), call.place, by=call.by)
    return None


def _ending_before(missed: list[_CodePart], parts: list[_CodePart], fatal: Mapping[ast.AST, Stop]) -> Stop | None:
    """The error in which one of the functions has ended that train or lead there, the nearest first."""
    nodes = (part.node for way in _ways_to(missed, parts) for part in way if part.node is not None)
    return next((fatal[node] for node in nodes if node in fatal), None)


def _may_be(call: ChosenCall, part: _CodePart) -> bool:
    if part.name == _BY_A_TRAINER:
        return call.name == _FITS and any(_is_of(value, part) for values in call.given for value in values)
    if part.owner and call.name == part.name:
        return True
    return any(_is_of(value, part) for values in call.given for value in values)


def _is_of(value: Value, part: _CodePart) -> bool:
    if isinstance(value, Function):
        return value.node is part.node
    cls = class_of(value)
    return bool(part.owner) and cls is not None and any(each.label == part.owner for each in ancestry(cls))


def idle(files: Sequence[ModuleFile], known: CodeParts, trained: AbstractSet[str]) -> tuple[Stop, ...]:
    """The first place of each of these files that asks for gradients, without those in which a program has trained."""
    may = (each for each in files if each.source.shown not in trained and _may_ask(each) and _steps(each))
    left = (each for each in may if not is_test(each.source))
    found = ((file, _first_gradients(_parts_of(file, known))) for file in left)
    return tuple(_stop(file, each) for file, each in found if each is not None)


def _first_gradients(parts: list[_CodePart]) -> ast.expr | ast.stmt | None:
    return next((each for part in parts for each in part.gradients), None)


def _may_ask(file: ModuleFile) -> bool:
    """Looking at its tree may show what asks for gradients."""
    return "backward" in file.source.text or _BY_A_TRAINER in file.source.text


def _steps(file: ModuleFile) -> bool:
    """Weights are changed, too: a benchmark and a test of gradients ask for them and train nothing."""
    return ".step(" in file.source.text or _BY_A_TRAINER in file.source.text


def _stop(file: ModuleFile, node: ast.expr | ast.stmt) -> Stop:
    if isinstance(node, _FUNCTIONS):
        return Stop(f"def {node.name}", file.source.location(node))
    return Stop(_shortened(ast.unparse(node)), file.source.location(node))


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _reached(entry: ModuleFile, parts: list[_CodePart], started: AbstractSet[str]) -> list[_CodePart]:
    """What may run when the entry does, as far as names tell."""
    # The body of a module runs when it is imported.
    own_parts = [part for part in parts if part.file is entry and not part.owner]
    reached = [part for part in own_parts if part.node is None or part.name in started]
    used = {name for part in reached for name in part.uses}
    own = {(part.file, part.name) for part in parts if part.node is not None and not part.owner}
    called = {each for part in reached for each in _meant(part, own)}
    left = [part for part in parts if part.node is not None and part not in reached]
    while True:
        opened = {each for each in used if each.startswith(_ALL_OF)}
        here = [part for part in left if _may_run(part, used, called, opened)]
        if not here:
            return reached
        reached += here
        left = [part for part in left if part not in here]
        for part in here:
            used |= part.uses
            called |= _meant(part, own)


_Called = set[tuple["ModuleFile | None", str]]
"""Names of functions, with the file where they can only be one of its own."""


def _meant(part: _CodePart, own: AbstractSet[tuple[ModuleFile, str]]) -> _Called:
    """The functions that a part may call: what its own file defines under a name, else any of that name."""
    return {(part.file if (part.file, name) in own else None, name) for name in part.calls}


def _may_run(part: _CodePart, used: set[str], called: _Called, opened: set[str]) -> bool:
    in_use = not part.owner or part.name in used
    if opened and in_use and any(_ALL_OF + each in opened for each in part.file.name.split(".")):
        return True
    if not part.owner:
        return (part.file, part.name) in called or (None, part.name) in called
    if part.name == _BY_A_TRAINER:
        # No other than a Trainer calls it, whoever else has the class.
        return part.owner in used and (_FITS in used or part.name in used)
    return part.owner in used and (part.name in used or part.name.startswith("__"))


def _parts_of(file: ModuleFile, known: CodeParts) -> list[_CodePart]:
    if file not in known:
        known[file] = list(_parts(file))
    return known[file]


def _parts(file: ModuleFile) -> Iterator[_CodePart]:
    rest: list[ast.stmt] = []
    modules = _imported(file.source.tree)
    for statement in file.source.tree.body:
        if isinstance(statement, _FUNCTIONS):
            yield _part(file, statement, "", modules)
        elif isinstance(statement, ast.ClassDef):
            methods = (each for each in statement.body if isinstance(each, _FUNCTIONS))
            yield from (_part(file, each, statement.name, modules) for each in methods)
            # Whoever has a class may have its base class do the work.
            bases, _, _ = _uses(statement.bases, modules)
            yield _CodePart(file, statement, statement.name, "", bases, bases, ())
        elif not isinstance(statement, (ast.Import, ast.ImportFrom)):
            rest.append(statement)
    uses, calls, asking = _uses(rest, modules)
    yield _CodePart(file, None, "", "", uses, calls, asking)


def _part(
    file: ModuleFile, function: ast.FunctionDef | ast.AsyncFunctionDef, owner: str, modules: AbstractSet[str]
) -> _CodePart:
    uses, calls, asking = _uses((function,), modules)
    return _CodePart(file, function, function.name, owner, uses, calls, _gradients(function, owner, asking))


def _imported(tree: ast.Module) -> frozenset[str]:
    """The names that imports bind, which may be modules."""
    imports = (each for each in statements(tree) if isinstance(each, (ast.Import, ast.ImportFrom)))
    return frozenset((alias.asname or alias.name).partition(".")[0] for each in imports for alias in each.names)


def _gradients(
    function: ast.FunctionDef | ast.AsyncFunctionDef, owner: str, asking: tuple[ast.expr, ...]
) -> tuple[ast.expr | ast.stmt, ...]:
    # pytest calls these, and no training is started by it.
    if function.name.startswith("test") or owner.startswith("Test"):
        return ()
    if owner and function.name == _BY_A_TRAINER:
        return (function,)
    # A backward of one's own is a part of one.
    return asking if function.name not in _GRADIENTS else ()


def _uses(
    nodes: Iterable[ast.AST], modules: AbstractSet[str]
) -> tuple[frozenset[str], frozenset[str], tuple[ast.expr, ...]]:
    """The names in use, those that may be functions, and what asks for gradients. What is asked of anything but modules
    is no function, and a text is one only where it decides what is called."""
    names, attributes, of_modules, texts = set[str](), set[str](), set[str](), set[str]()
    asking = list[ast.expr]()
    for node in (each for root in nodes for each in walk(root)):
        if isinstance(node, ast.Name):
            names.add(node.id)
        elif isinstance(node, ast.Attribute):
            (of_modules if root_name(node) in modules else attributes).add(node.attr)
        # `registry["net"]`, `getattr(models, "resnet")`.
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
            texts.add(node.value)
        elif isinstance(node, ast.Call):
            names |= _choosing(node, modules)
            if isinstance(node.func, ast.Attribute) and node.func.attr in _GRADIENTS:
                asking.append(node)
    calls = names | of_modules
    return frozenset(calls | attributes | texts), frozenset(calls), tuple(asking)


_ALL_OF = "*"
"""Before the name of a module of which anything may be used."""


def _choosing(call: ast.Call, modules: AbstractSet[str]) -> set[str]:
    """The texts of `registry["train"](…)`, `find("train")(…)` and `getattr(loops, "train")`; of `getattr(loops, name)`
    all that the module holds."""
    by_name = isinstance(call.func, ast.Name) and call.func.id == "getattr"
    match call.args[:2]:
        case [ast.Name() | ast.Attribute() as owner, asked] if by_name and not isinstance(asked, ast.Constant):
            return {_ALL_OF + name_parts(owner)[-1]} if root_name(owner) in modules else set()
    where = call.args if by_name else [call.func] if isinstance(call.func, (ast.Call, ast.Subscript)) else []
    found = (inner.value for each in where for inner in nodes_of(ast.Constant, each))
    return {each for each in found if isinstance(each, str)}
