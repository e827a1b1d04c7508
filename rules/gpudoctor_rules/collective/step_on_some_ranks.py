"""Some ranks only step, clip their gradients or change their learning rate, or each does so by a number of its own.

## What goes wrong

Each rank (each process, one for each GPU) has a copy of the model, of the optimizer and of the schedule.
`DistributedDataParallel` averages the gradients and nothing else: the copies stay equal because each rank makes the
same step with the same learning rate. With `if rank == 0: scheduler.step(metric)` the rate falls on rank 0 alone, and
with `if rank == 0: optimizer.step()` the other models never learn. Gradients that are clipped on rank 0 alone make
smaller steps there. So it is with a `ReduceLROnPlateau` that is told the
loss of this rank's own shard, which stops falling in another epoch than that of the others, and with a learning rate
that each rank has looked for on its own batches. No error is raised. The weights of the ranks drift apart, and
gradients of different models are averaged.

## Fix

Step on all ranks, outside of the test on the rank. `ReduceLROnPlateau` needs the same metric everywhere: reduce it over
the ranks first, or `broadcast` it from rank 0, as a learning rate that was looked for. No automatic fix, since the
metric may exist on rank 0 only.

## Silent when

Only some ranks train; something is broadcast or averaged after the step, which may be the rate or the weights; the
ranks on the other side of the test step as well; a framework runs the loop; what is stepped is not known.

## Sources

lucidrains/DALLE-pytorch#268 (each rank has a learning rate of its own); run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from math import inf

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.optim import Optimizer, Scheduler
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.event_context import ranks_in_words
from gpudoctor.lint.events.training_step import (
    Backward,
    ClipGradients,
    MakeOptimizer,
    OptimizerStep,
    SchedulerStep,
)
from gpudoctor.lint.questions.gradient_use import feeds
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import DriftText, Findings, Program, Rule
from gpudoctor_rules._error_texts import STUCK
from gpudoctor_rules.collective._sides import parted_by, reached_alone, story
from gpudoctor_rules.collective._together import steps_together

_ALIKE = "It takes ranks whose own numbers lead to different rates."
TrainingStep = OptimizerStep | SchedulerStep | MakeOptimizer | ClipGradients


class StepOnSomeRanks(Rule):
    code = "GPU516"
    severity = Severity.ERROR
    errors = STUCK
    shows_when = ("distributed", "trained")
    drift = DriftText(
        "an optimizer or its schedule steps on some of them only, or on each by a number of its own",
        remedy="Step on all ranks, with the same learning rate.",
    )
    of_ranks = True
    needs = (Backward,)
    looks_at = (
        (OptimizerStep, "rank_guards"),
        (ClipGradients, "rank_guards"),
        (SchedulerStep, "rank_guards"),
        (SchedulerStep, "shards"),
        (MakeOptimizer, "rate_of_own"),
    )

    def in_code(self, program: Program) -> Findings:
        if program.managed_by - program.leaving("loop"):
            return
        steps: list[TrainingStep] = list(program.events(OptimizerStep))
        steps += program.events(SchedulerStep)
        # The norm of what is sharded is asked of all ranks, and a bound without end only asks for the norm.
        clips = (each for each in program.events(ClipGradients) if each.modules and each.bound != inf)
        steps += (each for each in clips if not each.of_all_shards)
        backwards = [each.event for each in steps_together(program) if isinstance(each.event, Backward)]
        yield from self._by_own_numbers(program, backwards)
        for place, events, _ in reached_alone(steps, _stepped):
            step = events[0]
            if _learns_alone(program, step, backwards) or _is_shared(program, step):
                continue
            what, harm = f"{name_of(_stepped(step), 'the optimizer')} steps", "only these learn"
            if isinstance(step, SchedulerStep):
                harm = "its learning rate changes there alone"
            elif isinstance(step, ClipGradients):
                what, harm = f"`{step.call}` is called", "the others step with gradients that are not clipped"
            yield self.found(
                at=place,
                message=f"{what} on {ranks_in_words(step)}: {harm}, and the weights of the ranks drift apart.",
                remedy="Step on all ranks, outside of the test on the rank. A metric that decides must be the same "
                "everywhere: reduce or broadcast it before.",
                because=story(events),
                needs=parted_by(events),
            )

    def _by_own_numbers(self, program: Program, backwards: list[Backward]) -> Findings:
        """All ranks step, each with a learning rate of its own."""
        for event in program.events(SchedulerStep, MakeOptimizer):
            how = _own_number(event)
            if not how or event.rank_guards:
                continue
            if _learns_alone(program, event, backwards) or _is_shared(program, event):
                continue
            yield self.found(
                at=event.location,
                message=f"{name_of(_stepped(event), 'the optimizer')} {how}: the ranks learn at different rates, and "
                "their weights drift apart.",
                remedy="Reduce the number over all ranks before, with `dist.all_reduce`, or broadcast that of rank 0.",
                severity=Severity.WARNING,
                doubt=_ALIKE,
            )


def _own_number(event: SchedulerStep | MakeOptimizer) -> str:
    """How it comes to a learning rate of its own on each rank; empty where it does not."""
    if isinstance(event, MakeOptimizer):
        return "gets a learning rate that each rank has chosen by its own batches" if event.rate_of_own else ""
    loader = min((each for each in event.shards if isinstance(each, Loader)), key=lambda each: each.place, default=None)
    return f"is told what each rank has computed from its own shard of `{loader.label}`" if loader is not None else ""


def _stepped(step: TrainingStep) -> Value:
    if isinstance(step, ClipGradients):
        return min(step.modules, key=name_of)
    return step.scheduler if isinstance(step, SchedulerStep) else step.optimizer


def _learns_alone(program: Program, step: TrainingStep, backwards: list[Backward]) -> bool:
    """No backward of all ranks leaves gradients in what it steps, as far as is known."""
    stepped = step if isinstance(step, ClipGradients) else _stepped(step)
    learning = stepped.optimizer if isinstance(stepped, Scheduler) else stepped
    if not isinstance(learning, (Optimizer, ClipGradients)):
        return True
    around = {loop.identity for loop in step.loops if loop.repeats}
    made = isinstance(step, MakeOptimizer)
    together = (each for each in backwards if made or any(loop.identity in around for loop in each.loops))
    return not any(not each.rank_guards and feeds(program, each, learning) for each in together)


def _is_shared(program: Program, step: TrainingStep) -> bool:
    """The other ranks may be told of it behind the step: of the rate, or of the weights."""
    behind = [each for each in program.events(Collective) if each.order > step.order and not each.waits]
    # Weights may be averaged as well as handed on.
    averages = isinstance(step, OptimizerStep)
    return any(
        each.hands_on or each.objects or (averages and not (each.of_results or each.effect.result_on))
        for each in behind
    )
