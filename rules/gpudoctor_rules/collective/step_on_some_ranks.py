"""An optimizer or its learning rate schedule steps on some ranks only, while all of them train.

## What goes wrong

Each rank (each process, one for each GPU) has a copy of the model, of the optimizer and of the schedule.
`DistributedDataParallel` averages the gradients and nothing else: the copies stay equal because each rank makes the
same step with the same learning rate. With `if rank == 0: scheduler.step(metric)` the rate falls on rank 0 alone, and
with `if rank == 0: optimizer.step()` the other models never learn. No error is raised. The weights of the ranks drift
apart, and gradients of different models are averaged.

## Fix

Step on all ranks, outside of the test on the rank. `ReduceLROnPlateau` needs the same metric everywhere: reduce it over
the ranks first, or `broadcast` it from rank 0. No automatic fix, since the metric may exist on rank 0 only.

## Silent when

Only some ranks train; something is broadcast after the step, which may be the rate or the weights; the ranks on the
other side of the test step as well; a framework is in charge; what is stepped is not known.

## Sources

lucidrains/DALLE-pytorch#268 (each rank has a learning rate of its own); run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.domain.optim import Optimizer, Scheduler
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.event_context import ranks_in_words
from gpudoctor.lint.events.training_step import Backward, OptimizerStep, SchedulerStep
from gpudoctor.lint.questions.gradient_use import feeds
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Rule
from gpudoctor_rules._error_texts import STUCK
from gpudoctor_rules.collective._sides import parted_by, reached_alone, story
from gpudoctor_rules.collective._together import steps_together

if TYPE_CHECKING:
    from gpudoctor.api.pack import Program, Recording, Value

TrainingStep = OptimizerStep | SchedulerStep


class StepOnSomeRanks(Rule):
    """An optimizer or its learning rate schedule steps on some ranks only, while all of them train."""

    code = "GPU516"
    name = "step-on-some-ranks"
    severity = Severity.ERROR
    errors = STUCK
    shows_when = ("distributed", "trained")
    of_ranks = True
    needs = (Backward,)
    looks_at = ((OptimizerStep, "rank_guards"), (SchedulerStep, "rank_guards"))

    def in_code(self, program: Program) -> Iterator[Finding]:
        if program.managed_by:
            return
        steps: list[TrainingStep] = list(program.events(OptimizerStep))
        steps += program.events(SchedulerStep)
        if not any(step.rank_guards for step in steps):
            return
        backwards = [each.event for each in steps_together(program) if isinstance(each.event, Backward)]
        for place, events, _ in reached_alone(steps, _stepped):
            step = events[0]
            if _learns_alone(program, step, backwards) or _is_shared(program, step):
                continue
            what = name_of(_stepped(step), "the optimizer")
            harm = "its learning rate changes there alone" if isinstance(step, SchedulerStep) else "only these learn"
            yield self.found(
                at=place,
                message=f"{what} steps on {ranks_in_words(step)}: {harm}, and the weights of the ranks drift apart.",
                remedy="Step on all ranks, outside of the test on the rank. A metric that decides must be the same "
                "everywhere: reduce or broadcast it before.",
                because=story(events),
                needs=parted_by(events),
            )

    def in_run(self, recording: Recording) -> Iterator[Finding]:
        # That parameters differ does not say why: only the code does.
        drift = recording.drift
        if drift is None or self.code not in recording.suspected or not any(rank.wraps for rank in recording.ranks):
            return
        if (at := drift.optimizer.backward or drift.optimizer.place) is not None:
            yield self.found(
                at,
                f"After step {drift.step} the ranks held different values in parameter {drift.name}: an optimizer or "
                "its schedule steps on some of them only.",
                remedy="Step on all ranks, with the same learning rate.",
            )


def _stepped(step: TrainingStep) -> Value:
    return step.optimizer if isinstance(step, OptimizerStep) else step.scheduler


def _learns_alone(program: Program, step: TrainingStep, backwards: list[Backward]) -> bool:
    """No backward of all ranks leaves gradients in what it steps, as far as is known."""
    stepped = _stepped(step)
    optimizer = stepped.optimizer if isinstance(stepped, Scheduler) else stepped
    if not isinstance(optimizer, Optimizer):
        return True
    around = {loop.identity for loop in step.loops if loop.repeats}
    together = (each for each in backwards if any(loop.identity in around for loop in each.loops))
    return not any(not each.rank_guards and feeds(program, each, optimizer) for each in together)


def _is_shared(program: Program, step: TrainingStep) -> bool:
    """The other ranks may be told of it behind the step: of the rate, or of the weights."""
    behind = [each for each in program.events(Collective) if each.order > step.order and not each.waits]
    # Weights may be averaged as well as handed on.
    return any(isinstance(step, OptimizerStep) or each.hands_on or each.objects for each in behind)
