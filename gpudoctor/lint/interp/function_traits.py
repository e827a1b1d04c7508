"""What the body of a function holds and what its calls have done, which decide how it is followed."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import Any

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.traced_number import Way
from gpudoctor.lint.domain.value import Value, Values
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.flow.condition import Condition, Literal
from gpudoctor.lint.interp.limits import MAX_IN_VAIN, MAX_REMEMBERED, MIN_REMEMBERED_COST
from gpudoctor.lint.library.library_names import IMPORTS
from gpudoctor.lint.source.file import SourceFile
from gpudoctor.lint.source.syntax_walk import parts_of, walk
from gpudoctor.record import dataclass, field

_INNER = {ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef}
_WORDS = ("def", "lambda", "class")


@dataclass(frozen=True)
class FunctionTraits:
    """What matters of a function's body."""

    yields: bool
    """The function is a generator."""
    captures: bool
    """Something inside may outlive the call and still see its names."""
    imports: bool = False
    """It may import what it is told by name."""


def traits_of(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, source: SourceFile) -> FunctionTraits:
    """Look for the words before walking the tree: most functions hold none of them."""
    text = "\n".join(source.lines[node.lineno - 1 : node.end_lineno])
    # The first is the function's own. Counting is much quicker than looking what stands around each.
    inner = sum(map(text.count, _WORDS)) > 1 and sum(_times(word, text) for word in _WORDS) > 1
    imports = any(name.rpartition(".")[2] in text for name in IMPORTS)
    return FunctionTraits("yield" in text and _yields(node), inner and _captures(node), imports)


def traits_of_tree(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> FunctionTraits:
    """The same of a function that stands in no source."""
    return FunctionTraits(_yields(node), _captures(node))


def _times(word: str, text: str) -> int:
    """How often a word stands in a text, not as a part of another. To compile a pattern takes longer."""
    found, end = 0, text.find(word)
    while end >= 0:
        start, end = end, end + len(word)
        around = text[start - 1 : start] + text[end : end + 1]
        found += not any(each.isalnum() or each == "_" for each in around)
        end = text.find(word, end)
    return found


def _yields(node: ast.AST) -> bool:
    todo = parts_of(node)
    while todo:
        each = todo.pop()
        if isinstance(each, (ast.Yield, ast.YieldFrom)):
            return True
        if type(each) not in _INNER:
            todo += parts_of(each)
    return False


def _captures(node: ast.AST) -> bool:
    return any([type(each) in _INNER for each in walk(node)[1:]])  # noqa: C419, a list is quicker here


@dataclass
class Registrar:
    """A decorator, or with arguments what makes it, and how often it gave back what it was given, one time after the
    other."""

    made_by: Values
    arguments: int | None = None
    keywords: tuple[str, ...] = ()
    kept: int = 0


@dataclass
class Habit:
    """What the calls of a function have done so far that logged nothing which rules ask about."""

    cost: int = 0
    """The statements that they took, all together."""
    loud: bool = False
    """One of them has done more."""
    kinds: set[object] = field(default_factory=set)
    """Of what kinds their arguments were."""
    results: dict[Value, None] = field(default_factory=dict)
    written: dict[tuple[Hashable, str], Values | None] = field(default_factory=dict)
    """What they wrote that was there before, by owner and name, None where that was not always the same. The object
    whose method it is stands as None."""


@dataclass
class LeftBehind:
    """What a call has left of one object."""

    owner: Any
    is_new: bool
    """The call has made it."""
    made_of: tuple[object, ...] | None
    """What it is made of beside its identity, where that is the same for each call."""
    fixed: list[tuple[tuple[Hashable, ...], Values]]
    """What its cells and attributes hold for each call: the rest of the key, and the values."""
    cells: list[tuple[tuple[Hashable, ...], Values]]
    """What they hold that may be something else for another call."""


@dataclass
class CallMemory:
    """The calls of one function, or the constructions of one class, by what they were given."""

    cost: int = 0
    """The statements that those took which were followed."""
    calls: dict[Hashable, list[RememberedCall]] = field(default_factory=dict)
    noted: dict[Hashable, int] = field(default_factory=dict)
    """How many were noted to be repeated."""
    repeated: set[Hashable] = field(default_factory=set)
    """Of which one was."""

    @property
    def is_dear(self) -> bool:
        """To follow them takes more than to remember them: what took long so far will once more take as long."""
        return self.cost >= MIN_REMEMBERED_COST

    def pays(self, kinds: Hashable) -> bool:
        """Others that are given the like may be repeated, too: of as many kinds as of one kind are remembered."""
        noted = self.noted.get(kinds, 0)
        most = MAX_REMEMBERED if kinds in self.repeated else MAX_IN_VAIN
        return noted < most and (noted > 0 or len(self.noted) < MAX_REMEMBERED)


@dataclass(frozen=True)
class RememberedCall:
    """What one call has done, and what decided that."""

    begun: int
    """When it began, by the clock: what is younger was made by it."""
    read: dict[Hashable, Values | None]
    """What it read that was there before, as it was on that path."""
    asked: dict[Literal, bool | None]
    """What that path said of the tests on the way."""
    made: Value | None
    """The object that it was to construct."""
    writes: list[tuple[Hashable, Values]]
    """What it wrote, as that was left."""
    parts: list[tuple[Value, frozenset[Value]]]
    """The modules that it made, with those in them."""
    result: Values
    raised: list[str]
    """The errors with which paths have ended in it."""
    settled: Condition
    """What was settled then."""
    arguments: Arguments
    """What it was given."""
    decided: list[tuple[Way, object]]
    """What the numbers that it was given have decided."""
    events: list[Event]
    """What it has logged."""
    calls: int
    """How many were open around it."""
    frames: int
    """The same, with modules that were being imported."""
    loops: int
    """The loops around it."""
    path: Condition
    """What had led there."""
    statements: int
    """What it took."""
    by_name: bool
    """It has asked setting files for what stands under the keys of values: other values have other keys."""
    heard: Any
    """The `Listener` who was told what it has done; None where nobody listened."""
    lasting: list[LeftBehind] = field(default_factory=list, compare=False)
    """What is left of its writes: found out when it is repeated for the first time."""
