"""The rounds of loops: which are steps of a training, and what happens in each of them, or in the last."""

from __future__ import annotations

from collections.abc import Hashable
from functools import reduce

from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import Compares, asked_of
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Anonymous, Const, Unknown
from gpudoctor.lint.events.collective import LeaveLoop
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.event_context import Event, Loop
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.training_step import Backward, OptimizerStep, TakeGradient
from gpudoctor.lint.flow.condition import ALWAYS, Condition, Divergence, Literal
from gpudoctor.lint.flow.valueset import Binding, ValueSet, union
from gpudoctor.lint.program import Program


def batch_loop(event: Event) -> Loop | None:
    """The innermost loop over batches around an event."""
    return next((loop for loop in reversed(event.loops) if loop.over is not None), None)


def training_loop(program: Program, event: Event) -> Loop | None:
    """The loop around an event of which each round is a training step; None where there is none."""
    batches = batch_loop(event)
    if batches is not None:
        # An evaluation loop waits for results anyway.
        return batches if any(program.during(batches, Backward, OptimizerStep)) else None
    # Steps may also be counted without a loader. A loop within that calls a model may be an evaluation, or a training
    # of its own.
    for loop in reversed(event.loops):
        if loop.identity in program.step_loops:
            return loop
        if not isinstance(event, (Backward, OptimizerStep)) and any(program.during(loop, Forward)):
            return None
    return None


def training_loops(program: Program) -> int:
    """How many loops train."""
    found = (training_loop(program, event) for event in program.events(Backward, OptimizerStep))
    return len({loop.location for loop in found if loop is not None})


def trains(program: Program, loop: Loop) -> bool:
    """Gradients are asked for, or used, in this loop."""
    return any(program.during(loop, Backward, OptimizerStep, TakeGradient))


def same_round(one: Event, other: Event) -> bool:
    """Both happen in the same round of the same loops."""
    return [(loop.identity, loop.pass_) for loop in one.loops] == [(loop.identity, loop.pass_) for loop in other.loops]


def within_round(inner: Event, outer: Event) -> bool:
    """One happens in the round in which the other does, perhaps in loops inside of it: over parameters, say."""
    rounds = [(loop.identity, loop.pass_) for loop in outer.loops]
    return [(loop.identity, loop.pass_) for loop in inner.loops][: len(rounds)] == rounds


def in_other_rounds(one: Event, other: Event) -> bool:
    """They happen in different rounds of a loop around both: one that goes on to the one may end behind the other."""
    rounds = {loop.identity: loop.pass_ for loop in one.loops}
    return any(rounds.get(loop.identity, loop.pass_) != loop.pass_ for loop in other.loops)


def in_last_round(program: Program, event: Event, loop: Loop) -> bool:
    """It happens in the last round of the loop that was followed: there counters are no longer known to be 0."""
    steps = [event, *program.during(loop, Backward), *program.during(loop, OptimizerStep)]
    rounds = (each.pass_ for step in steps for each in step.loops if each.identity == loop.identity)
    return loop.pass_ == max(rounds)


def begins_otherwise(event: Event, around: Loop) -> bool:
    """The first round of a loop within this one goes another way, as its counter says: `if i == 0: total = loss`, and
    `else: total += loss`."""
    identities = [loop.identity for loop in event.loops]
    within = identities[identities.index(around.identity) + 1 :] if around.identity in identities else []
    return bool(within) and any(_counted_from(literal) in within for literal in event.condition)


def _counted_from(literal: Literal) -> Hashable:
    """The loop whose counter is found to be no longer 0; None where another thing is asked."""
    match literal.atom.key, literal.holds:
        case (Compares("==", Unknown(Anonymous("counter", (loop, _))), Const(0)), False) | (
            Compares(">", Unknown(Anonymous("counter", (loop, _))), Const(0)),
            True,
        ):
            return loop
    return None


def when_of(program: Program, loop: Loop) -> Condition:
    """What had to hold for the loop to begin."""
    begun = [event for event in program.events(Iterate) if event.loop is not None and event.loop == loop]
    # A loop that counts steps has no such event: then it is what all its steps have in common.
    known: list[Event] = [*begun] or [*program.during(loop, Backward, OptimizerStep)]
    known = known or [*program.during(loop, Forward)]
    return reduce(lambda one, other: one.intersection(other), (event.condition for event in known))


def in_every_round(program: Program, event: Event, loop: Loop) -> bool:
    """No test inside the loop leads here, but for tests on the rank: those are the same in every round."""
    # `if step % 10 == 0:` holds in the first round, where the counter is known to be 0.
    if not in_last_round(program, event, loop):
        return False
    # What stands under a test of numbers or settings is rare, or asked for.
    outside = when_of(program, loop)
    if all(_asks_only_the_rank(literal) for literal in event.condition.difference(outside)):
        return True
    here = [when.difference(outside) for when in (event.condition, *_on_all_ways(program, event))]
    if any(all(map(_asks_only_the_rank, when)) for when in here[1:]):
        return True
    # `if step >= last: break` leaves a round only once: whatever comes after it is in all others.
    stays = _where_it_goes_on(program, loop, outside)
    return any(all(literal in stays or _asks_only_the_rank(literal) for literal in when) for when in here)


def _where_it_goes_on(program: Program, loop: Loop, outside: Condition) -> frozenset[Literal]:
    """The answers of tests that lead out of the loop, where they do not."""
    trained = [each.condition.literals for each in program.during(loop, Backward)]
    in_steps = frozenset[Literal]().union(*trained[:1]).intersection(*trained)
    stays: set[Literal] = set()
    for each in program.during(loop, LeaveLoop):
        if each.loop != loop:
            continue
        # Behind one way out stands the next, where the first was not taken.
        asked = [literal for literal in each.condition.difference(outside) if literal not in stays]
        on = ALWAYS.conjoined_with(asked[0].negated()).literals if len(asked) == 1 else frozenset()
        # A batch that is passed over because of its numbers, as a NaN, is the exception; of others, as those before
        # the one with which a run goes on, it counts what is done with each batch that is trained with.
        if each.how != "continue" or on <= in_steps or _asks_numbers(each.condition.difference(outside)):
            stays |= on
    return frozenset(stays)


def _asks_numbers(when: Condition) -> bool:
    return any(isinstance(part, Tensor) for literal in when for part in provenance_of(literal))


def _on_all_ways(program: Program, event: Event) -> list[Condition]:
    """When the same happens there in this round, whatever it happens to: one of two models, one of two losses."""
    alike = [e.condition for e in program.events(type(event)) if e.location == event.location and same_round(e, event)]
    merged = union(ValueSet((Binding(event.location, when),)) for when in alike)
    return [each.condition for each in merged.bindings if event.condition.implies(each.condition)]


def _asks_only_the_rank(literal: Literal) -> bool:
    """`if rank == 0:`, and not `if loss > 10:` in what only rank 0 does."""
    numbers = any(isinstance(part, Tensor) for part in asked_of(literal))
    return literal.atom.divergence is Divergence.RANK and not numbers
