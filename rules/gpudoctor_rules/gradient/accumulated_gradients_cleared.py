"""Gradients are cleared between the batches that are to make one step.

## What goes wrong

Gradients are accumulated by several backwards before one `step()`, and `zero_grad()` belongs after that step. Where it
stands before each backward, it clears what the batches before have left: only the last one counts, on every rank (each
process, one for each GPU), and the gradients of all others are lost. A loss that is divided by the number of batches
makes the gradient too small by that factor besides.

Under `with accelerator.accumulate(model):` the optimizer of Accelerate clears nothing but in the batch that steps. A
`zero_grad()` before the backward comes just then: when the gradients of all batches but the last have been added up.
No error is raised.

## Fix

Put `zero_grad()` behind `step()`. No automatic fix.

## Silent when

It may clear other gradients than those of this optimizer; it stands in a test that lets it run as rarely as the step;
`accumulate` is entered with one batch for each step, as far as the program says; another step of this optimizer comes
first in the same round, as where two losses have one each; DeepSpeed trains, which clears the gradients itself.

## Sources

https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation; `AcceleratedOptimizer.zero_grad` of
accelerate 1.15.
"""

from __future__ import annotations

from itertools import chain, islice
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.events.training_step import Backward, ClearGradients, OptimizerStep
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.questions.gradient_use import feeds
from gpudoctor.lint.questions.loop_rounds import same_round
from gpudoctor.lint.questions.names import in_code, name_of
from gpudoctor.lint.questions.users_choice import more_than_one
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.gradient._rounds import steps_less_often
from gpudoctor_rules.gradient._steps import between_steps, clears_all, may_feed

if TYPE_CHECKING:
    from gpudoctor.api.pack import Value
    from gpudoctor.run.recording import Process
    from gpudoctor.run.recording.call_counts import BetweenSteps

_HELD_BACK = "accumulate"


class AccumulatedGradientsCleared(Rule):
    code = "GPU715"
    severity = Severity.WARNING
    since = "0.1"
    needs = (ClearGradients, OptimizerStep)

    def in_code(self, program: Program) -> Findings:
        if program.managed_by - program.leaving("loop"):
            return
        told: set[Value] = set()
        for step in program.events(OptimizerStep):
            optimizer = step.optimizer
            if not isinstance(optimizer, Optimizer) or optimizer in told:
                continue
            found = _cleared_in_vain(program, step, optimizer)
            if found is None:
                continue
            told.add(optimizer)
            clear, backward, rarely, needs = found
            call = f"{in_code(optimizer, 'optimizer')}.step()"
            yield self.found(
                clear.location,
                f"The gradients are cleared before each backward, and {rarely}: those of all batches but the last are "
                "lost.",
                remedy=f"Clear them after `{call}`.",
                because=[("the gradients are computed here", backward.location), ("the step is here", step.location)],
                needs=needs,
            )

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks:
            looked_at = _accumulating(rank)
            if looked_at and all(each.lost for each in looked_at) and (at := looked_at[0].place) is not None:
                yield self.found(
                    at,
                    f"In {len(looked_at)} of {len(looked_at)} steps that were looked at, a backward found nothing any "
                    "more of what the one before it had left for the same step: the gradients were cleared in between.",
                    remedy="Call `optimizer.zero_grad()` after `optimizer.step()`, as rarely as that.",
                )
                return

    def could_show(self, recording: Recording) -> bool:
        return any(map(_accumulating, recording.ranks))


def _accumulating(rank: Process) -> list[BetweenSteps]:
    several = [each for each in between_steps(rank) if each.backwards > 1]
    return several if len(several) > 1 else []


def _cleared_in_vain(
    program: Program, step: OptimizerStep, optimizer: Optimizer
) -> tuple[ClearGradients, Backward, str, list[Literal]] | None:
    """What clears the gradients before a backward, of which several make this step; how that is arranged, and what it
    takes for that."""
    backwards = list(program.events(Backward))
    behind = (each for each in reversed(backwards) if each.order < step.order and may_feed(program, each, optimizer))
    # `if i % n: loss.backward() else: loss.backward(); optimizer.step()`: the step follows neither of them always.
    beside = (each for each in backwards if same_round(each, step) and each.condition.excludes(step.condition))
    looked_at = (_cleared_before(program, each, step, optimizer) for each in chain(islice(behind, 1), beside))
    return next((found for found in looked_at if found is not None), None)


def _cleared_before(
    program: Program, backward: Backward, step: OptimizerStep, optimizer: Optimizer
) -> tuple[ClearGradients, Backward, str, list[Literal]] | None:
    if not backward.loops:
        return None
    clears = (each for each in program.events(ClearGradients) if each.order < backward.order)
    before = (each for each in clears if same_round(each, backward) and step.condition.implies(each.condition))
    clear = next((each for each in before if clears_all(program, each, optimizer)), None)
    steps = (each for each in program.events(OptimizerStep) if each.optimizer == optimizer)
    # A step of another loss, before this one is computed, has used what was there.
    if clear is None or any(each.order < clear.order and same_round(each, clear) for each in steps):
        return None
    always = backward.condition.implies(clear.condition)
    if always and steps_less_often(program, backward, step) and feeds(program, backward, optimizer):
        extra = backward.condition.difference(clear.condition)
        return clear, backward, "several of them come before one step", [*extra]
    number = _accumulated(program)
    held = all(_HELD_BACK in each.context.contexts for each in (clear, backward, step))
    if number is None or not held or not same_round(backward, step):
        return None
    several = number.in_python if number.is_constant else name_of(number, "so many")
    rarely = f"Accelerate does so only in the last of {several} batches, the one that steps"
    return clear, backward, rarely, more_than_one(number)


def _accumulated(program: Program) -> Value | None:
    """How many batches Accelerate was told to make a step of; None where that is one, or was left out."""
    for charge in program.in_charge:
        # DeepSpeed clears the gradients itself, whatever the program says.
        if charge.framework == "accelerate" and "spreading" not in charge.otherwise:
            plugin = "gradient_accumulation_plugin.num_steps"
            name = plugin if charge.setting(plugin) is not None else "gradient_accumulation_steps"
            given = charge.setting(name)
            if given is not None and charge.told(name) != 1:
                return given.single
    return None
