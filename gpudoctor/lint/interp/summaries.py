"""Functions that were followed before: long ones that did nothing which rules ask about are not followed again."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.value import Anonymous, Unknown, Values, divergence_of, singleton
from gpudoctor.lint.events.collective import Discard, LeaveLoop
from gpudoctor.lint.events.files import ChangeFolder, ReadFile
from gpudoctor.lint.events.host_waits import ClockRead
from gpudoctor.lint.events.knowledge import Escape, Imprecision
from gpudoctor.lint.events.process import (
    ArgumentDeclared,
    ArgumentsParsed,
    Caught,
    EnvironmentRead,
    ReadOwn,
    SeedSet,
    SettingRead,
    Swallowed,
)
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interp.function_traits import CallMemory, CallRecord, Summary
from gpudoctor.lint.interp.habits import note_call
from gpudoctor.lint.interp.limits import LONG_FUNCTION, SHORT_CALL, VERY_LONG_FUNCTION
from gpudoctor.lint.interp.position import NEVER
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.lint.domain.arguments import Arguments
    from gpudoctor.lint.domain.function import Function
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.interp.evaluator import Evaluator
    from gpudoctor.lint.interp.execution_state import ExecutionState
    from gpudoctor.lint.interp.position import Frame

# To see these a second time would tell no rule anything new.
REPEATABLE = (
    Imprecision, Escape, SettingRead, EnvironmentRead, ClockRead, ReadOwn, ArgumentDeclared, ArgumentsParsed, ReadFile
)  # fmt: skip
MINOR = (Caught, Swallowed, Discard, SeedSet, ChangeFolder)
"""Of these rules know once they have happened in a function."""
MAX_ARGUMENTS = 2
MAX_FOLLOWED = 4


def summarized(m: ExecutionState, summary: Summary, arguments: Arguments, node: ast.AST) -> Values | None:
    """The result without following the function; None where it must be followed."""
    key: Hashable = arguments.key
    past = summary.calls.get(key)
    if past is not None and past.holds(m.store):
        # Called again, it makes another model: the layers of a network are not one, nor are a student and its teacher.
        m.reads += past.read
        again = past.makes_model and summary.followed < MAX_FOLLOWED and summary.cost < VERY_LONG_FUNCTION
        return None if again else past.result
    fresh = past is not None or len(summary.calls) < MAX_ARGUMENTS
    if fresh and summary.followed < MAX_FOLLOWED and summary.cost < VERY_LONG_FUNCTION:
        return None
    # With what it reads changed, it is another value than before.
    key = (key, m.clock) if past is not None else key
    term, apart = Anonymous("summarized call", (m.text(node), key)), divergence_of(arguments.values())
    return singleton(Unknown(term, "a long function that was followed before", "", apart))


@dataclass(frozen=True)
class EffectWatch:
    """What was there before a function was followed."""

    statements: int
    events: int
    clock: int
    oldest_write: int
    reads: int
    looked_up: int

    @classmethod
    def begin(cls, m: Evaluator) -> EffectWatch:
        """Watch from now on what is written."""
        watch = cls(m.statements, len(m.log), m.clock, m.oldest_write, len(m.reads), m.looked_up)
        m.oldest_write = NEVER
        return watch

    def end(self, m: Evaluator, function: Function, frame: Frame, arguments: Arguments, result: Values) -> None:
        """Remember the function where it was long and without effect."""
        # Written only to what it made itself: nothing of it outlives the call but the result.
        own = m.oldest_write >= self.clock
        m.oldest_write = min(m.oldest_write, self.oldest_write)
        cost = m.statements - self.statements
        # `instantiate_from_config(section)` makes something else of another section.
        is_long = cost >= LONG_FUNCTION and own and not m.unreachable and m.looked_up == self.looked_up
        habit = m.habits.get(function.node)
        if own and cost >= SHORT_CALL and not m.unreachable:
            m.memories.setdefault(function, CallMemory()).cost += cost
        # Nothing would come of looking through its events.
        if cost < SHORT_CALL or (not is_long and habit is not None and habit.loud):
            return
        told, quiet = False, True
        for event in m.log[self.events :]:
            if not self._is_repeatable(event):
                told, quiet = True, isinstance(event, MINOR)
            if not quiet:
                break
        note_call(m, function, frame, arguments.values(), cost, quiet, result)
        if is_long and not told:
            dull = m.dull.setdefault(function.node, Summary())
            # Its own names and objects are gone; what else it has read decides whether it would do the same again.
            read = {
                each: m.store.get(each) for each in dict.fromkeys(m.reads[self.reads :]) if m.age(each) < self.clock
            }
            made = any(each.is_model and m.age((each, "")) >= self.clock for each in result)
            dull.calls[arguments.key] = CallRecord(result, read, made)
            dull.followed += 1
            dull.cost = max(dull.cost, cost)

    def _is_repeatable(self, event: Event) -> bool:
        if not isinstance(event, LeaveLoop):
            return isinstance(event, REPEATABLE)
        # Only ways out of the caller's loops, and quiet ends of some ranks, matter to the caller.
        own = event.loop is None or event.loop.entered >= self.events
        return own and (event.how != "exit" or not event.condition.divergence & (Divergence.RANK | Divergence.LOCAL))
