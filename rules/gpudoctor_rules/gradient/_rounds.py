"""Accumulation: several backwards whose gradients add up to one step."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.collective import LeaveLoop
from gpudoctor.lint.events.event_context import Event, Loop
from gpudoctor.lint.events.knowledge import Escape, Imprecision
from gpudoctor.lint.events.training_step import Backward, ClearGradients, OptimizerStep
from gpudoctor.lint.flow.condition import Divergence, Literal
from gpudoctor.lint.questions.loop_rounds import same_round
from gpudoctor.rule import Program
from gpudoctor_rules.gradient._steps import may_clear, may_feed


def beside_forward(program: Program, backward: Backward) -> Location:
    """The backward, or the call that leads to it where the model was called: a helper that scales, calls `backward` and
    steps is given a loss that somebody else has made."""
    forward = min(program.calls_in_graph(backward), key=lambda call: len(call.context.frames), default=None)
    return backward.location if forward is None else parting(backward, forward)


def left_out_by(backward: Backward, step: OptimizerStep) -> list[Literal]:
    """What lets rounds go by without the step, where one test does: `step % args.every == 0` that fails."""
    extra = step.condition.difference(backward.condition).depending_on(Divergence.BATCH_INDEX)
    return [extra[0].negated()] if same_round(backward, step) and len(extra) == 1 else []


def is_step(program: Program, step: OptimizerStep) -> bool:
    """An optimizer steps; what came from code that was not read is one if its gradients are cleared, too."""
    if isinstance(step.optimizer, Optimizer):
        return True
    return any(event.target == step.optimizer for event in program.events(ClearGradients))


def steps_less_often(program: Program, backward: Backward, step: OptimizerStep) -> bool:
    """The loop comes by the backward more often than by the step behind it."""
    if backward.condition.excludes(step.condition):
        return same_round(backward, step) and _every_few_rounds(program, backward, _in_turn_with(backward, step))
    if step.order < backward.order:
        return False
    if same_round(backward, step):
        return _every_few_rounds(program, backward, step.condition.difference(backward.condition))
    return _inner_loop(program, backward, step) is not None


def _in_turn_with(backward: Backward, step: OptimizerStep) -> list[Literal]:
    """`if i % n: loss.backward() else: loss.backward(); step()`: which test sends the rounds here or there."""
    return [each for each in step.condition if each.negated() in backward.condition]


def _every_few_rounds(program: Program, backward: Backward, extra: Iterable[Literal]) -> bool:
    """What the step asks beyond the backward is answered by the counter of this loop, and the loop goes on without."""
    loop = backward.loops[-1] if backward.loops else None
    # In the first round all counters are new: only a later one tells whose they are.
    if loop is None or loop.pass_ == 0:
        return False
    counted = {literal for literal in extra if literal.atom.divergence & Divergence.BATCH_INDEX}
    if not counted:
        return False
    first = [event for event in program.log[loop.entered : backward.order] if _in_first_round(event, loop)]
    # Entered again in a later epoch, a loop has no first round to compare with.
    if not first:
        return False
    leaves = [event for event in program.during(loop, LeaveLoop) if event.how != "continue"]
    return any(
        # `if epoch > 3` has one answer for all rounds; `if step == last: break` leaves the loop.
        not any(literal in event.condition or literal.negated() in event.condition for event in first)
        and not any(literal.negated() in event.condition for event in leaves)
        for literal in counted
    )


def _in_first_round(event: Event, loop: Loop) -> bool:
    return any(each.identity == loop.identity and each.pass_ == 0 for each in event.loops)


def _inner_loop(program: Program, backward: Backward, step: OptimizerStep) -> Loop | None:
    """The loop that repeats the backward, with the forward that it follows, before the step."""
    outside = {(loop.identity, loop.pass_) for loop in step.loops}
    inner = [loop for loop in backward.loops if (loop.identity, loop.pass_) not in outside]
    if len(inner) + len(step.loops) != len(backward.loops) or any(loop.entered > step.order for loop in inner):
        return None
    # `for model in models: loss(model).backward()`: each model has one backward, and the step is for all of them.
    repeats = [loop for loop in inner if loop.repeats and not loop.over_models]
    if not repeats or not step.loops:
        return None
    forwards = program.calls_in_graph(backward)
    # Several losses of one forward are not several batches.
    if any(all(loop.identity != repeats[0].identity for loop in call.loops) for call in forwards):
        return None
    return repeats[0]


def adds_up(program: Program, backward: Backward, step: OptimizerStep, wrapper: Wrapper | None) -> bool:
    """The gradients stay until the step: none steps or clears in between, in each iteration."""
    optimizer = step.optimizer
    if isinstance(optimizer, Optimizer) and not may_feed(program, backward, optimizer):
        return False
    around = backward.loops[-1]
    for other in program.during(around, OptimizerStep):
        follows = other.order > backward.order and _always(other, backward)
        # A step in the inner loop, too, may be the one of the previous iteration: `if i > 0: optimizer.step()`.
        if (follows or not same_round(backward, step)) and _may_be(other.optimizer, optimizer):
            return False
    for clear in program.during(around, ClearGradients):
        between = backward.order < clear.order < step.order
        if (between or _always(clear, backward)) and _may_reach(program, clear, optimizer):
            return False
    return not any(_gets_at(event, wrapper) for event in program.during(around, Escape, Imprecision))


def _always(event: Event, backward: Backward) -> bool:
    """It happens in each iteration in which the backward happens."""
    return same_round(event, backward) and backward.condition.implies(event.condition)


def _may_reach(program: Program, clear: ClearGradients, optimizer: Value) -> bool:
    return not isinstance(optimizer, Optimizer) or may_clear(program, clear, optimizer)


def _may_be(one: Value, other: Value) -> bool:
    return one == other or not (isinstance(one, Optimizer) and isinstance(other, Optimizer))


def _gets_at(event: Event, wrapper: Wrapper | None) -> bool:
    """Code that could not be read gets at the model, and may open `no_sync`."""
    if isinstance(event, Imprecision):
        return event.limit
    if not isinstance(event, Escape) or wrapper is None:
        return False
    return any(value.core == wrapper.core for value in event.values)
