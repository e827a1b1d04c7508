"""A training loop lacks the backward or the step, or has them in an order that makes the step do nothing.

## What goes wrong

A training step has three parts: clear the gradients, compute them with `backward()`, and let the optimizer `step()`.
Without one of the last two, or where `zero_grad()` stands between them, the weights never change, or only weight decay
changes them. No error is raised, and the loss goes up and down with the batches as if something were happening.

## Fix

Put the three calls in the order `backward()`, `step()`, `zero_grad()`. No automatic fix. DeepSpeed's engine clears by
itself: `engine.backward(loss)`, `engine.step()`.

## Silent when

There is no optimizer, as where gradients of inputs are wanted, or the weights are changed by hand; the optimizer or its
model is passed to code that could not be read, or a call in the loop could not be followed; a framework does the rest;
the step comes first in a loop and uses the gradients of the previous iteration; it comes before the training, in which
the optimizer steps with gradients; a closure given to `step` runs `backward()`, or a hook of the parameters steps
during it.

## Sources

https://docs.pytorch.org/docs/stable/optim.html#taking-an-optimization-step.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.knowledge import Escape, Imprecision, UseManaged
from gpudoctor.lint.events.model import Forward, WeightsSet
from gpudoctor.lint.events.training_step import (
    Backward,
    ClearGradients,
    EngineStep,
    MakeOptimizer,
    OptimizerStep,
    TakeGradient,
)
from gpudoctor.lint.questions.gradient_use import feeds, holds
from gpudoctor.lint.questions.loop_rounds import same_round
from gpudoctor.lint.questions.names import in_code, name_of
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.gradient._rounds import beside_forward
from gpudoctor_rules.gradient._steps import clears_all, is_followed, may_feed, reaches, repeating_loop

Reported = set["Value"]


class StepMissing(Rule):
    code = "GPU711"
    severity = Severity.ERROR
    shows_when = ("trained",)
    needs = (MakeOptimizer, OptimizerStep, Backward)

    def in_code(self, program: Program) -> Findings:
        yield from self._engine_never_steps(program)
        told: Reported = set()
        # From the optimizer: a backward without any, as for the gradients of inputs, is no mistake.
        for made in program.events(MakeOptimizer):
            if is_followed(program, made.optimizer, knows=program.leaving("loop")):
                yield from self._never_steps(program, made, made.optimizer)
        for step in program.events(OptimizerStep):
            optimizer = step.optimizer
            if optimizer in told or not isinstance(optimizer, Optimizer):
                continue
            if not is_followed(program, optimizer, knows=program.leaving("loop")):
                continue
            # In this order: without any backward, the order of the calls does not matter.
            found = self._never_fed(program, step) or self._fed_in_vain(program, step, optimizer)
            if found is not None:
                told.add(optimizer)
                yield found

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks:
            if not rank.steps and rank.backwards > 1 and rank.over and not rank.crash and rank.backward is not None:
                message = (
                    f"{rank.backwards} backwards and no step of an optimizer: the weights are still the initial ones."
                )
                yield self.found(rank.backward, message, remedy="Call `optimizer.step()` after `backward`.")
                return
            checks = [each for each in rank.checks if each.optimizer == 0]
            # Gradients that are zero change nothing either: these are gone when the optimizer looks for them.
            gone = all(each.without_gradient == rank.optimizers[0].parameters for each in checks)
            unchanged = len(checks) > 2 and len({each.sums for each in checks}) == 1 and gone
            # An optimizer of other parameters leaves the weights alone, too.
            other = "GPU120" in recording.suspected or any(
                not any(n for _, n in o.held.values()) for o in rank.optimizers if o.held
            )
            if unchanged and not other and (at := rank.optimizers[0].place) is not None:
                message = (
                    f"The weights were the same after {checks[-1].step} steps: there is nothing left for this step."
                )
                yield self.found(
                    at, message, remedy="Clear the gradients before `backward` or after `step`, not between."
                )
                return

    def _never_steps(self, program: Program, made: MakeOptimizer, optimizer: Optimizer) -> Findings:
        """`backward()` in a loop, and an optimizer of that model that never steps."""
        if any(
            # An optimizer from a list or a dictionary may be this one.
            not isinstance(e.optimizer, Optimizer) or e.optimizer == optimizer
            for e in program.events(OptimizerStep)
        ):
            return
        for backward in program.events(Backward):
            loop = repeating_loop(backward)
            # A single backward outside of loops is an example or a test of gradients.
            if loop is None or not feeds(program, backward, optimizer):
                continue
            # Natural gradients: the program makes the step itself.
            if any(holds(program, optimizer, each.module) for each in program.during(loop, WeightsSet)):
                continue
            # Unread code steps where it holds the optimizer.
            if any(not each.unread for each in program.during(loop, Imprecision)):
                continue
            # An optimizer that was made again, for a later phase, leaves an idle one behind, and so does a trainer that
            # is made to test.
            if _another_steps(program, backward, optimizer) or made.condition.excludes(backward.condition):
                continue
            yield self.found(
                beside_forward(program, backward),
                f"{name_of(optimizer, 'the optimizer')} never steps: "
                "the gradients that are computed here change nothing.",
                remedy=f"Call `{in_code(optimizer, 'optimizer')}.step()` after `backward()`.",
                because=[
                    ("the backward is here", backward.location),
                    (f"{name_of(optimizer, 'the optimizer')} is made here", optimizer.place),
                ],
            )
            return

    def _engine_never_steps(self, program: Program) -> Findings:
        """`engine.backward()` in a loop, and nobody has the engine count the batch."""
        engines = {each.framework: each for each in program.events(UseManaged) if each.engine}
        stepped = frozenset().union(*(program.within(each.engine.core) for each in program.events(EngineStep)))
        for backward in program.events(Backward) if engines and not program.has(OptimizerStep) else ():
            charge, loop = engines.get(backward.managed), repeating_loop(backward)
            called = [call.module for call in program.calls_in_graph(backward)]
            # A method that the engine passes on runs what is inside of it.
            if charge is None or loop is None or any(each.core in stepped for each in called):
                continue
            if not any(isinstance(each, Wrapper) for each in called) or program.escaped & {*called}:
                continue
            if program.absence(knows={charge.framework}) and not any(program.during(loop, Imprecision)):
                yield self.found(
                    backward.location,
                    "The engine never steps: the gradients that are computed here change nothing.",
                    remedy="Call `step()` of the engine after its `backward(loss)`, in each batch.",
                    because=[("the engine is made here", charge.location)],
                )
                return

    def _never_fed(self, program: Program, step: OptimizerStep) -> Finding | None:
        """An optimizer that steps in a program without any gradients."""
        loop = repeating_loop(step, of=step.optimizer)
        # Any gradient in the program may be the one that this optimizer uses.
        if loop is None or program.has(Backward, TakeGradient) or any(program.during(loop, Imprecision)):
            return None
        # Without a forward in the loop, gradients may be written by hand, as in evolution strategies.
        call = next((each for each in program.during(loop, Forward) if each.graph), None)
        if call is None or any(_takes_a_loss(event) for event in program.during(loop, Escape)):
            return None
        return self.found(
            step.location,
            f"{name_of(step.optimizer, 'the optimizer')} steps, but nothing calls `backward()`: there are no "
            "gradients, so the weights never change.",
            remedy="Call `loss.backward()` before the step.",
            because=[("the model is called here", call.location)],
        )

    def _fed_in_vain(self, program: Program, step: OptimizerStep, optimizer: Optimizer) -> Finding | None:
        """The last thing that happens to the gradients before the step is that they are cleared."""
        # In a first round, counters are 0 and `if i % 4 == 0: optimizer.zero_grad()` looks as if it always ran.
        if any(loop.pass_ == 0 and loop.times != 1 for loop in step.loops):
            return None
        # A hook steps during the backward.
        if "hook" in step.context.contexts:
            return None
        cleared = _cleared_just_before(program, step, optimizer)
        fed = [e for e in program.events(Backward) if repeating_loop(e) is not None and feeds(program, e, optimizer)]
        # With no backward that surely feeds this optimizer, its gradients come from somewhere else.
        if cleared is None or not fed or _steps_with_them(program, step, fed):
            return None
        # The wording depends on it: cleared too late, or computed too late.
        early = any(event.order < cleared.order and same_round(event, step) for event in program.events(Backward))
        where = "after `backward()`" if early else "and `backward()` comes only after it"
        return self.found(
            step.location,
            f"This step finds no gradients: they were cleared just before the step, {where}.",
            remedy="Order the calls as `backward()`, `step()`, `zero_grad()`.",
            because=[("cleared here", cleared.location), ("the gradients are computed here", fed[0].location)],
        )


def _steps_with_them(program: Program, idle: OptimizerStep, fed: list[Backward]) -> bool:
    """The optimizer steps elsewhere with these gradients: before the loop a step only prepares it, and one on the way
    of a batch that is passed over, which has no backward, changes nothing on purpose."""
    around = {loop.identity for loop in fed[0].loops}
    prepares = not any(loop.identity in around for loop in idle.loops)
    passed_over = all(each.condition.excludes(idle.condition) for each in fed if same_round(each, idle))
    return (prepares or passed_over) and any(
        step.optimizer == idle.optimizer
        and step.location != idle.location
        and step.order > fed[0].order
        and isinstance(step.optimizer, Optimizer)
        and _cleared_just_before(program, step, step.optimizer) is None
        for step in program.events(OptimizerStep)
    )


def _another_steps(program: Program, backward: Backward, optimizer: Optimizer) -> bool:
    """An optimizer of the same model steps, or one that may be: this one is a spare. That of a critic is none, through
    which the gradients of a generator come."""
    fed = [call.module for call in program.calls_in_graph(backward) if holds(program, optimizer, call.module)]
    others = {event.optimizer for event in program.events(OptimizerStep) if isinstance(event.optimizer, Optimizer)}
    feeding = [each for each in others if may_feed(program, backward, each)]
    return any(not each.complete or reaches(program, fed, each) for each in feeding)


def _cleared_just_before(program: Program, step: OptimizerStep, optimizer: Optimizer) -> ClearGradients | None:
    # Only what surely runs, in the same iteration, counts: the first round of a loop may skip the step.
    earlier = [
        e for e in program.events(Backward, ClearGradients, TakeGradient, Imprecision, Escape) if e.order < step.order
    ]
    for event in reversed(earlier):
        # What stands in the other branch of one test did not happen before this step.
        if event.condition.excludes(step.condition):
            continue
        if isinstance(event, ClearGradients):
            near = same_round(event, step) or _earlier_round(event, step)
            if clears_all(program, event, optimizer) and step.condition.implies(event.condition) and near:
                return event
        # Unread code may run a backward of its own, so the search ends there without a result.
        elif not isinstance(event, Backward) or may_feed(program, event, optimizer):
            return None
    return None


def _earlier_round(event: ClearGradients, step: OptimizerStep) -> bool:
    """In an earlier round of the same loops, as where `zero_grad()` ends each round and the step begins it."""
    return bool(step.loops) and [loop.location for loop in event.loops] == [loop.location for loop in step.loops]


def _takes_a_loss(event: Escape) -> bool:
    """Code that could not be read is handed a tensor, and may run `backward()` on it."""
    # As `scaler.scale(loss)` of an unknown scaler, or a trainer's `backward(loss)`.
    return any(isinstance(value, Tensor) for value in event.values)
