"""Training that stands in the files of a program in which no backward pass was seen.

Such a program trains nothing, or its training was missed. What its files say tells the two apart: a call that asks for
gradients, in a function whose name is in use on some way from the program's first line. By names alone, so nothing is
judged by it: it is only told that this was not looked at.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING

from gpudoctor.lint.discovery.classify import is_test
from gpudoctor.lint.discovery.top_level import GRADIENTS
from gpudoctor.lint.domain.function import Function, class_of
from gpudoctor.lint.events.knowledge import Chosen, NotReached, Stop
from gpudoctor.lint.interface.contents import ancestry
from gpudoctor.lint.interp.reachable_code import BY_A_TRAINER, FITS, FUNCTIONS, is_started, parts_of, reachable
from gpudoctor.lint.source.syntax_walk import nodes_of

if TYPE_CHECKING:
    from gpudoctor.lint.domain.function import ChosenCall
    from gpudoctor.lint.domain.value import Value
    from gpudoctor.lint.interp.reachable_code import CodePart, CodeParts
    from gpudoctor.lint.source.project import ModuleFile

_LONGEST_WAY = 4
"""Calls between the one that was not followed and the training: names prove less with each."""
_MOST_LINES = 60_000
"""Of larger programs the names are not gathered: that takes longer than following a script."""


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
    parts = [part for file in asked_of for part in parts_of(file, known)]
    # The body of a module runs when it is imported: `TASKS = {"detection": DetSolver}`.
    begin = (each for each in parts if each.node is None or is_started(each, entry, started))
    reached = reachable(begin, parts) if whole else parts
    missed = [part for part in reached if _gradients(part) and any(map(_steps, (part.file, entry)))]
    missed.sort(key=lambda part: (part.file is not entry, part.file.source.shown))
    asked = whole and bool(missed)
    return NotReached(
        tuple(_stop(part.file, each) for part in missed for each in _gradients(part)[:1]),
        _leading_to(missed, parts, chosen) if asked and chosen else None,
        _ending_before(missed, parts, fatal) if asked and fatal else None,
    )


def _ways_to(missed: list[CodePart], parts: list[CodePart]) -> Iterator[list[CodePart]]:
    """The functions that train, those that use their names, and so on."""
    way, seen = missed, set[int]()
    for _ in range(_LONGEST_WAY):
        yield way
        seen.update(map(id, way))
        names = {part.name for part in way}
        way = [part for part in parts if part.node is not None and id(part) not in seen and part.used.uses & names]


def _leading_to(missed: list[CodePart], parts: list[CodePart], chosen: Collection[ChosenCall]) -> Chosen | None:
    """The first of these calls that may come to the training: of one of the functions on the way there, or given the
    object or function that trains."""
    for way in _ways_to(missed, parts):
        for call in chosen:
            if any(_may_be(call, part) for part in way):
                return chosen_by(call)
    return None


def chosen_by(call: ChosenCall) -> Chosen:
    """To be told where the training was not reached."""
    return Chosen(_shortened(ast.unparse(call.node.func)), call.place, by=call.by)


def _ending_before(missed: list[CodePart], parts: list[CodePart], fatal: Mapping[ast.AST, Stop]) -> Stop | None:
    """The error in which one of the functions has ended that train or lead there, the nearest first."""
    nodes = (part.node for way in _ways_to(missed, parts) for part in way if part.node is not None)
    return next((fatal[node] for node in nodes if node in fatal), None)


def _may_be(call: ChosenCall, part: CodePart) -> bool:
    if part.name == BY_A_TRAINER:
        return call.name == FITS and any(_is_of(value, part) for values in call.given for value in values)
    if part.owner and call.name == part.name:
        return True
    return any(_is_of(value, part) for values in call.given for value in values)


def _is_of(value: Value, part: CodePart) -> bool:
    if isinstance(value, Function):
        return value.node is part.node
    cls = class_of(value)
    return bool(part.owner) and cls is not None and any(each.label == part.owner for each in ancestry(cls))


def idle(files: Sequence[ModuleFile], known: CodeParts, trained: AbstractSet[str]) -> tuple[Stop, ...]:
    """The first place of each of these files that asks for gradients, without those in which a program has trained."""
    may = (each for each in files if each.source.shown not in trained and _may_ask(each) and _steps(each))
    left = (each for each in may if not is_test(each.source))
    found = ((file, _first_gradients(parts_of(file, known))) for file in left)
    return tuple(_stop(file, each) for file, each in found if each is not None)


def _first_gradients(parts: list[CodePart]) -> ast.expr | ast.stmt | None:
    return next((each for part in parts for each in _gradients(part)), None)


def _may_ask(file: ModuleFile) -> bool:
    """Looking at its tree may show what asks for gradients."""
    return "backward" in file.source.text or BY_A_TRAINER in file.source.text


def _steps(file: ModuleFile) -> bool:
    """Weights are changed, too: a benchmark and a test of gradients ask for them and train nothing."""
    return ".step(" in file.source.text or BY_A_TRAINER in file.source.text


def _stop(file: ModuleFile, node: ast.expr | ast.stmt) -> Stop:
    if isinstance(node, FUNCTIONS):
        return Stop(f"def {node.name}", file.source.location(node))
    return Stop(_shortened(ast.unparse(node)), file.source.location(node))


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 60 else f"{text[:57]}..."


def _gradients(part: CodePart) -> list[ast.expr | ast.stmt]:
    """Where it asks for gradients."""
    # pytest calls these, and no training is started by it.
    if isinstance(part.node, FUNCTIONS) and (part.name.startswith("test") or part.owner.startswith("Test")):
        return []
    if part.owner and part.name == BY_A_TRAINER:
        return [part.node] if isinstance(part.node, FUNCTIONS) else []
    # A backward of one's own is a part of one.
    if part.name in GRADIENTS or GRADIENTS.isdisjoint(part.used.called):
        return []
    calls = (call for root in part.code for call in nodes_of(ast.Call, root))
    return [call for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr in GRADIENTS]
