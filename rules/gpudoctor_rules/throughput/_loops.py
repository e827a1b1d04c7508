"""Which loops train, and which only look at the model."""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from gpudoctor.lint.flow.condition import Dependence
from gpudoctor.lint.program import batch_loop
from gpudoctor.lint.values.event import Backward, Event, Forward, Iterate, Loop, OptimizerStep, TakeGradient

if TYPE_CHECKING:
    from gpudoctor.lint.flow.condition import Condition
    from gpudoctor.lint.program import Program


def training_loop(program: Program, event: Event) -> Loop | None:
    """The loop around an event of which each round is a training step; None where there is none."""
    batches = batch_loop(event)
    if batches is not None:
        # An evaluation loop waits for results anyway.
        return batches if any(program.during(batches, Backward, OptimizerStep)) else None
    inner = event.loops[-1] if event.loops else None
    # What happens once is no step of a training.
    if inner is None or (inner.times is not None and inner.times < 2):
        return None
    # Steps may also be counted without a loader: then the step stands right in that loop.
    steps = any(each.loops and each.loops[-1].identity == inner.identity for each in program.events(OptimizerStep))
    return inner if steps and any(program.during(inner, Backward)) else None


def trains(program: Program, loop: Loop) -> bool:
    """Gradients are asked for, or used, in this loop."""
    return any(program.during(loop, Backward, OptimizerStep, TakeGradient))


def in_last_round(program: Program, event: Event, loop: Loop) -> bool:
    """It happens in the last round of the loop that was followed: there counters are no longer known to be 0."""
    steps = [event, *program.during(loop, Backward), *program.during(loop, OptimizerStep)]
    rounds = (each.pass_ for step in steps for each in step.loops if each.identity == loop.identity)
    return loop.pass_ == max(rounds)


def when_of(program: Program, loop: Loop) -> Condition:
    """What had to hold for the loop to begin."""
    begun = [event for event in program.events(Iterate) if event.loop is not None and event.loop == loop]
    # A loop that counts steps has no such event: then it is what all its steps have in common.
    known: list[Event] = [*begun] or [*program.during(loop, Backward, OptimizerStep)]
    known = known or [*program.during(loop, Forward)]
    return reduce(lambda one, other: one.shared(other), (event.when for event in known))


def in_every_round(program: Program, event: Event, loop: Loop) -> bool:
    """No test inside the loop leads here, but for tests on the rank: those are the same in every round."""
    # `if step % 10 == 0:` holds in the first round, where the counter is known to be 0.
    if not in_last_round(program, event, loop):
        return False
    # What stands under a test of numbers or settings is rare, or asked for.
    outside = when_of(program, loop)
    return all(literal.atom.depends is Dependence.RANK for literal in event.when.without(outside))
