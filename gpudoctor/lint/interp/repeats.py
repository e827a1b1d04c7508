"""Functions that were followed before: long ones that did nothing which rules ask about are not followed again."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import TYPE_CHECKING

from gpudoctor.lint.flow.condition import Dependence
from gpudoctor.lint.interp.limits import LONG_FUNCTION, VERY_LONG_FUNCTION
from gpudoctor.lint.interp.machine import NEVER, one
from gpudoctor.lint.values.base import Unknown, Values
from gpudoctor.lint.values.event import ArgumentDeclared, ClockRead, EnvironmentRead, Escape, Lost, SettingRead
from gpudoctor.record import dataclass, field

if TYPE_CHECKING:
    from gpudoctor.lint.interp.machine import Machine
    from gpudoctor.lint.values.function import Function

# To see these a second time would tell no rule anything new.
REPEATABLE = (Lost, Escape, SettingRead, EnvironmentRead, ClockRead, ArgumentDeclared)
MAX_ARGUMENTS = 2


@dataclass(slots=True)
class Dull:
    """A long function without effect: its results by its arguments."""

    results: dict[Hashable, Values] = field(default_factory=dict)
    cost: int = 0
    """The most statements that it took."""

    def answer(self, m: Machine, args: tuple[Values, ...], keywords: dict[str, Values], node: ast.AST) -> Values | None:
        """The result without following the function; None where it must be followed."""
        key = (args, tuple(keywords.items()))
        if key in self.results:
            return self.results[key]
        if len(self.results) < MAX_ARGUMENTS and self.cost < VERY_LONG_FUNCTION:
            return None
        depends = Dependence.NONE
        for values in (*args, *keywords.values()):
            for value in values:
                depends |= value.depends
        return one(Unknown(("dull", m.text(node), key), "a long function that was followed before", "", depends))


@dataclass(frozen=True, slots=True)
class Watch:
    """What was there before a function was followed."""

    statements: int
    events: int
    clock: int
    oldest_write: int

    @classmethod
    def begin(cls, m: Machine) -> Watch:
        """Watch from now on what is written."""
        watch = cls(m.statements, len(m.log), m.clock, m.oldest_write)
        m.oldest_write = NEVER
        return watch

    def end(self, m: Machine, function: Function, key: Hashable, result: Values) -> None:
        """Remember the function where it was long and without effect."""
        # Written only to what it made itself: nothing of it outlives the call but the result.
        own = m.oldest_write >= self.clock
        m.oldest_write = min(m.oldest_write, self.oldest_write)
        if m.statements - self.statements < LONG_FUNCTION or m.dead or not own:
            return
        if all(isinstance(event, REPEATABLE) for event in m.log[self.events :]):
            dull = m.dull.setdefault(function.node, Dull())
            dull.results[key] = result
            dull.cost = max(dull.cost, m.statements - self.statements)
