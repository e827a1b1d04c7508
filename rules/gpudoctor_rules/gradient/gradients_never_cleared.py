"""A training loop steps without ever clearing the gradients.

## What goes wrong

`backward()` adds to the gradients that are there already. Without `zero_grad()` each step uses the sum of the
gradients of all steps so far. No error is raised: the steps grow, the loss stalls or turns into `nan`, and a smaller
learning rate seems to help for a while.

## Fix

Call `optimizer.zero_grad()` right after the step, which also fits a loop that sums gradients over several batches.
Unsafe, because the training changes; that is the point.

## Silent when

Anything in the loop clears gradients of that optimizer or its models, be it under a condition, in a helper, or by
`p.grad = None`; the loop calls something that could not be followed, or the optimizer or its model is passed to such
code; a framework steps; the optimizer is made anew in the loop; the gradients do not come from `backward()`.

## Sources

https://docs.pytorch.org/tutorials/recipes/recipes/zeroing_out_gradients.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.knowledge import Imprecision
from gpudoctor.lint.events.training_step import Backward, ClearGradients, MakeOptimizer, OptimizerStep
from gpudoctor.lint.questions.gradient_use import feeds
from gpudoctor.lint.questions.names import in_code, name_of
from gpudoctor.lint.repair.repair import After, Either, Holds, Repair, Source
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.gradient._steps import between_steps, is_followed, may_clear, repeating_loop


class GradientsNeverCleared(Rule):
    code = "GPU709"
    severity = Severity.ERROR
    fix_safety = Safety.UNSAFE
    needs = (OptimizerStep,)

    def in_code(self, program: Program) -> Findings:
        told: set[Value] = set()
        for step in program.events(OptimizerStep):
            optimizer = step.optimizer
            # The step may be of a framework's optimizer, which clears by itself.
            if optimizer in told or not isinstance(optimizer, Optimizer):
                continue
            if not is_followed(program, optimizer, knows=program.leaving("loop")):
                continue
            backward = _uncleared(program, step, optimizer)
            if backward is None:
                continue
            told.add(optimizer)
            name = name_of(optimizer, "the optimizer")
            yield self.found(
                # The step is where the sum does its harm; the missing line has no place.
                step.location,
                f"The gradients of {name} are never cleared in this "
                "loop: each step uses the sum over all batches so far.",
                remedy=f"Call `{in_code(optimizer, 'optimizer')}.zero_grad()` after the step.",
                because=[
                    ("this adds to the gradients of earlier iterations", backward.location),
                    (f"{name} is made here", optimizer.place),
                ],
                repair=_clearing(step, optimizer),
            )

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks:
            steps = between_steps(rank)
            if steps and all(each.kept for each in steps) and (at := rank.optimizers[0].backward) is not None:
                yield self.found(
                    at,
                    f"After {len(steps)} of {len(steps)} steps that were looked at, the gradients "
                    "of the step before were still there: this backward adds to them.",
                    remedy="Call `optimizer.zero_grad()` once for each step, before `backward`.",
                )
                return

    def could_show(self, recording: Recording) -> bool:
        return any(map(between_steps, recording.ranks))


def _clearing(step: OptimizerStep, optimizer: Optimizer) -> Repair:
    # What its own step is called on is that optimizer, under whichever name: the program need not be executed for it.
    named = Source(step.location, "named")
    owner = Holds(optimizer) if step.through else Either(((Holds(optimizer),), (named,)))
    return Repair("Clear the gradients", (After(step.location, ((owner, ".zero_grad()"),)),))


def _uncleared(program: Program, step: OptimizerStep, optimizer: Optimizer) -> Backward | None:
    """The backward that adds up over the rounds of the loop in which the optimizer steps."""
    loop = repeating_loop(step, of=optimizer)
    # A new optimizer in each iteration goes with a new model as a rule, whose gradients begin at None.
    if loop is None or any(event.optimizer == optimizer for event in program.during(loop, MakeOptimizer)):
        return None
    # Also under a condition: that is how gradients are summed over batches. Not on the other side of a choice.
    clears = (event for event in program.during(loop, ClearGradients) if may_clear(program, event, optimizer))
    if any(not event.choices.excludes(step.condition) for event in clears):
        return None
    # What was left out may be what clears. Unread code does so where it holds the optimizer, or its model.
    if any(not each.unread for each in program.during(loop, Imprecision)):
        return None
    fed = (event for event in program.during(loop, Backward) if feeds(program, event, optimizer))
    # Backward and step of two exclusive modes do not add up.
    return next((event for event in fed if not event.condition.excludes(step.condition)), None)
