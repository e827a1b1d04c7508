"""The last batch of a step runs under `no_sync()`, or the forward of a batch outside of it.

## What goes wrong

`DistributedDataParallel` decides in the forward whether the backward will average the gradients over all ranks (the
processes, one for each GPU). Two mistakes follow, and neither raises an error. A step whose last forward ran under
`no_sync()` uses gradients that only this rank has seen: from then on every rank trains a model of its own, and the one
that is saved has learnt from one shard. And `no_sync()` around the backward alone does nothing: the gradients are
reduced after each batch, as if it were not there.

## Fix

Ask the same question for both: `last = (i + 1) % 4 == 0 or i + 1 == len(loader)`, then `no_sync()` where it is not
`last` and the step where it is. Put forward and backward under the same `with`. No automatic fix.

## Silent when

It cannot be computed in which iterations the two tests come out right; the program reduces gradients itself before the
step, or sets `require_backward_grad_sync`; the wrapper is FSDP's, whose `no_sync` works in another way; the optimizer
steps nothing of this model. A `no_sync()` around the backward alone is reported as `perf`: the result is right.

## Sources

https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html,
modelscope/FunASR#3472, speechbrain/speechbrain#1802, huggingface/accelerate#1726.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.training_step import Backward, GradientSync, OptimizerStep
from gpudoctor.lint.questions.gradient_use import feeds
from gpudoctor.lint.questions.loop_counters import hold_together
from gpudoctor.lint.questions.loop_rounds import same_round
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.gradient._steps import averaging_wrapper

if TYPE_CHECKING:
    from gpudoctor.api.pack import Condition, Event, Forward
    from gpudoctor.run.recording import Step

SURE, PERHAPS = "no_sync", "no_sync?"


class NoSyncMisplaced(Rule):
    code = "GPU702"
    severity = Severity.ERROR
    shows_when = ("distributed", "trained")
    of_ranks = True
    needs = (GradientSync,)

    def in_code(self, program: Program) -> Findings:
        switches = [event for event in program.events(GradientSync) if event.call != "no_sync"]
        if switches:
            # Who switches by the attribute now and then reduces where we do not see it.
            yield from self._never(program, switches[0]) if all(each.never for each in switches) else ()
            return
        for backward in program.events(Backward) if program.has(GradientSync) else ():
            wrapper = averaging_wrapper(program, backward)
            opened = _opened(program, backward, wrapper) if wrapper is not None else None
            if wrapper is None or opened is None or not backward.complete:
                continue
            found = self._without_forward(program, backward, opened) or self._before_step(program, backward, opened)
            if found is not None:
                yield found

    def in_run(self, recording: Recording) -> Findings:
        steps = recording.ranks[0].steps if recording.ranks else ()
        yield from self._to_no_effect(recording, steps)
        drift = recording.drift
        if drift is None or recording.averages_by_hand or not drift.optimizer.held or not steps:
            return
        local = [each for each in steps if each.counts.get("forwards") and each.counts.get("local at the end")]
        # What came after they were seen to differ is not why.
        before = [each.number for each in local if each.number <= drift.step]
        which = f"in {len(steps)} steps" if len(local) == len(steps) else f"of step {min(before, default=0)}"
        whose = "The last" if any(each.counts.get("synced backwards") for each in local) else "No"
        if before and drift.optimizer.backward is not None:
            yield self.found(
                drift.optimizer.backward,
                f"{whose} backward {which} averaged {'nothing' if whose == 'The last' else 'the gradients'}, and after "
                f"step {drift.step} the ranks held different values in parameter {drift.name}.",
                remedy="Leave the last backward of each step, and its forward, outside of `no_sync()`.",
            )

    def _to_no_effect(self, recording: Recording, steps: Sequence[Step]) -> Findings:
        counts = [step.counts["synced in no_sync"] for step in steps if step.counts.get("synced in no_sync")]
        at = next((each.backward for each in recording.ranks[0].optimizers if each.held), None) if counts else None
        if at is not None and len(counts) >= len(steps) / 2:
            yield self.found(
                at,
                f"`no_sync()` did nothing in {sum(counts)} backwards: their forwards ran outside of it, so they "
                "averaged the gradients over all ranks.",
                remedy="Put the forward under the same `with`.",
                severity=Severity.PERF,
            )

    def _never(self, program: Program, switch: GradientSync) -> Findings:
        for backward in program.events(Backward):
            wrapper = averaging_wrapper(program, backward)
            if wrapper is None or wrapper.core != switch.target.core or backward.order < switch.order:
                continue
            step = next((e for e in program.events(OptimizerStep) if _takes(program, e, backward)), None)
            if step is None or not backward.complete or switch.condition.difference(step.condition):
                continue
            yield self.found(
                switch.location,
                f"The gradients of {name_of(switch.target)} are never averaged: this switches it off, and nothing "
                "switches it on before the step, so the ranks' models drift apart.",
                remedy="Set it to True for the last batch before each step, before its forward.",
                because=[("the backward", backward.location), ("the step", step.location)],
            )
            return

    def _without_forward(self, program: Program, backward: Backward, opened: GradientSync) -> Finding | None:
        calls = _calls(program, backward)
        # Open at the forward on some path: then the test that decides it is judged.
        if not calls or any(_under(event) for event in calls):
            return None
        return self.found(
            parting(opened, backward),
            "`no_sync()` does nothing here: the forward ran outside of "
            "it, so this backward averages the gradients over all ranks.",
            remedy=f"Put the forward, `{calls[0].module.label}(...)`, under the same `with`."
            if calls[0].context.frames == backward.context.frames
            else "Put the forward under the same `with`.",
            because=[("the forward", calls[0].location), ("the backward", backward.location)],
            severity=Severity.PERF,
        )

    def _before_step(self, program: Program, backward: Backward, opened: GradientSync) -> Finding | None:
        when = _unsynced(program, backward, opened)
        step = next((e for e in program.events(OptimizerStep) if _uses(program, e, backward, when)), None)
        if when is None or step is None:
            return None
        always = step.condition.difference(backward.condition).literals == frozenset() and not when.difference(
            backward.condition
        )
        often = "" if always else "there are iterations in which "
        return self.found(
            parting(opened, backward),
            f"{often}{name_of(step.optimizer, 'the optimizer')} steps right after a batch under `no_sync()`: its "
            "gradients are not averaged over the ranks, whose models drift apart.",
            remedy="Run the last batch before each step, forward and backward, outside of `no_sync()`.",
            because=[("the backward", backward.location), ("the step", step.location)],
        )


def _opened(program: Program, backward: Backward, wrapper: Wrapper) -> GradientSync | None:
    """The `no_sync()` of this wrapper that is open at the backward, or at its forward."""
    events = [backward, *_calls(program, backward)]
    if not any(_under(event) for event in events):
        return None
    frames = next(event.context.frames for event in events if _under(event))
    near = [
        each
        for each in program.events(GradientSync)
        if each.target.core == wrapper.core
        and each.order < backward.order
        # The `with` may stand around a call of a helper, and what it opens may come from one.
        and all(one == other for one, other in zip(frames, each.context.frames, strict=False))
    ]
    return near[-1] if near else None


def _under(event: Event) -> bool:
    return SURE in event.context.contexts or PERHAPS in event.context.contexts


def _calls(program: Program, backward: Backward) -> list[Forward]:
    return [call for call in program.calls_in_graph(backward) if isinstance(call.module, Wrapper)]


def _unsynced(program: Program, backward: Backward, opened: GradientSync) -> Condition | None:
    """When this backward leaves the gradients to the rank: its forwards all ran under `no_sync()`. None: never."""
    calls = _calls(program, backward)
    if not all(_under(call) for call in calls):
        return None
    sure = all(SURE in call.context.contexts for call in calls)
    return backward.condition if sure else backward.condition.and_(opened.condition)


def _uses(program: Program, step: OptimizerStep, backward: Backward, when: Condition | None) -> bool:
    """The step uses what this backward left, with no reduction in between."""
    if when is None or step.order < backward.order or not isinstance(step.optimizer, Optimizer):
        return False
    if not feeds(program, backward, step.optimizer) or when.excludes(step.condition):
        return False
    if not _soon(step, backward, when) or any(_reduces(e, backward, step) for e in program.events(Collective)):
        return False
    if any(_synced(program, each, backward, step, when) for each in program.events(Backward)):
        return False
    shared = when.intersection(step.condition)
    asked = when.difference(shared)
    # Where each batch is left to its rank, so is the one before the step, whenever that is.
    return not asked or hold_together(asked, step.condition.difference(shared))


def _takes(program: Program, step: OptimizerStep, backward: Backward) -> bool:
    """The step uses what this backward left, and the program reduces nothing itself in between."""
    if step.order < backward.order or not isinstance(step.optimizer, Optimizer):
        return False
    if not feeds(program, backward, step.optimizer) or backward.condition.excludes(step.condition):
        return False
    return not any(_reduces(event, backward, step) for event in program.events(Collective))


def _soon(step: OptimizerStep, backward: Backward, when: Condition) -> bool:
    """In the same round, or behind a loop that runs all its batches so."""
    if same_round(step, backward):
        return True
    around = [(loop.identity, loop.pass_) for loop in backward.loops[: len(step.loops)]]
    outside = [(loop.identity, loop.pass_) for loop in step.loops]
    # A test inside that loop spares some batch of it: the last one, mostly.
    return bool(outside) and around == outside and not when.difference(step.condition)


def _reduces(event: Collective, backward: Backward, step: OptimizerStep) -> bool:
    return backward.order < event.order < step.order and not event.waits


def _synced(program: Program, other: Backward, backward: Backward, step: OptimizerStep, when: Condition) -> bool:
    """A later backward of the same model averages all that has been summed up."""
    if not backward.order < other.order < step.order or other.condition.excludes(when):
        return False
    calls = _calls(program, other)
    return not calls or not all(SURE in call.context.contexts for call in calls)
