"""Gradients are clipped where that does not bound the step: before the backward, after the step, or in parts.

## What goes wrong

`clip_grad_norm_` clips the gradients that lie in the parameters at that moment. Before `backward()` there are none, or
old ones, and after `step()` they have been used: the step is not bounded, and the spike against which the clipping was
written goes right through. Where several batches make one step, clipping after each of them clips sums that are not
complete: early batches are clipped again and again, and count for less than the last one. No error is raised.

## Fix

Put the clipping between the last `backward()` of a step and `step()`, under the same test as the step. No automatic
fix.

## Silent when

Something is clipped between the last backward and the step, on whatever path; the clipped parameters are those of
another optimizer, or not all known; code that could not be read is given the model or the optimizer; a framework makes
the step.

## Sources

https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html, Deci-AI/super-gradients#653.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.training_step import Backward, ClipGradients, OptimizerStep
from gpudoctor.lint.questions.gradient_use import feeds
from gpudoctor.lint.questions.loop_rounds import same_round
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.gradient._rounds import adds_up, left_out_by, steps_less_often
from gpudoctor_rules.gradient._steps import (
    averaging_wrapper,
    comes_before,
    is_followed,
    may_feed,
    reaches,
    repeating_loop,
)

_ENOUGH = 3
"""Steps of a run that are enough to tell a habit."""


class ClipMisplaced(Rule):
    code = "GPU705"
    severity = Severity.WARNING
    shows_when = (f"ranks.steps > {_ENOUGH}",)
    needs = (ClipGradients,)

    def in_code(self, program: Program) -> Findings:
        told: set[Value] = set()
        for step in program.events(OptimizerStep) if program.has(ClipGradients) else ():
            optimizer = step.optimizer
            if optimizer in told or not isinstance(optimizer, Optimizer):
                continue
            if not is_followed(program, optimizer, knows=program.leaving("loop")):
                continue
            clips = [each for each in program.events(ClipGradients) if reaches(program, each.modules, optimizer)]
            found = self._beside(program, step, optimizer, clips) or self._each_batch(program, step, optimizer, clips)
            if found is not None:
                told.add(optimizer)
                yield found

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            clipped = [step.counts for step in rank.steps if step.counts.get("clips")]
            at = next((clip.place for clip in rank.clips if clip.place is not None), None)
            if len(clipped) < _ENOUGH or at is None:
                continue
            if not any(counts["clips"] > counts.get("early clips", 0) for counts in clipped):
                yield self.found(
                    at,
                    f"In all of {len(clipped)} steps that were looked at, gradients were clipped before the first "
                    "backward or after the step: those that the step used never were.",
                    remedy="Put it between `backward()` and `step()`.",
                )
            elif all(counts["clips"] == counts.get("backwards", 0) > 1 for counts in clipped):
                yield self.found(
                    at,
                    f"Each of {clipped[-1]['backwards']} backwards of a step was followed by a clip: of sums that are "
                    "not complete, so that early batches count for less.",
                    remedy="Clip right before the step, under the same test.",
                )

    def _beside(
        self, program: Program, step: OptimizerStep, optimizer: Optimizer, clips: list[ClipGradients]
    ) -> Finding | None:
        """The gradients of a step are not cut between the backward and the step, but elsewhere in the loop."""
        backward = _last_backward(program, step, optimizer)
        # A helper that is given the parameters may clip them between the two.
        if backward is None or any(backward.order < e.order < step.order for e in program.events(Escape)):
            return None
        used = backward.condition.and_(step.condition)
        near = [clip for clip in clips if same_round(clip, step) and not clip.condition.excludes(used)]
        if not near:
            return None
        # Between the two, or in the optimizer's own `step`, before it calls that of its base.
        if any(backward.order < clip.order < step.order or step.location in clip.context.calls for clip in clips):
            return None
        clip = near[-1]
        late = clip.order > step.order
        return self.found(
            parting(clip, step),
            f"`{clip.call}` comes {'after the step' if late else 'before the backward'}: the gradients with which "
            f"`{optimizer.label}` steps are never clipped.",
            remedy="Put it between `backward()` and `step()`.",
            because=[
                ("the gradients are clipped here", clip.location),
                ("they are computed here", backward.location),
                ("and used here", step.location),
            ],
            needs=tuple(backward.condition.difference(step.condition)),
        )

    def _each_batch(
        self, program: Program, step: OptimizerStep, optimizer: Optimizer, clips: list[ClipGradients]
    ) -> Finding | None:
        """Several backwards make one step, and each is followed by a cut."""
        for backward in program.events(Backward):
            if not feeds(program, backward, optimizer) or not steps_less_often(program, backward, step):
                continue
            after = (e for e in clips if e.order > backward.order and same_round(e, backward))
            clip = next((e for e in after if backward.condition.implies(e.condition)), None)
            if clip is None or not adds_up(program, backward, step, averaging_wrapper(program, backward)):
                continue
            return self.found(
                parting(clip, step),
                f"`{clip.call}` clips after each batch, though `{optimizer.label}` steps only after several: it clips "
                "sums that are not complete, and early batches count for less.",
                remedy="Clip right before the step, under the same test.",
                because=[
                    ("the gradients are clipped here", clip.location),
                    ("they add up here", backward.location),
                    ("until this step", step.location),
                ],
                needs=left_out_by(backward, step),
            )
        return None


def _last_backward(program: Program, step: OptimizerStep, optimizer: Optimizer) -> Backward | None:
    """The last backward whose gradients this step uses, in the same iteration; None where another one may be it."""
    if repeating_loop(step) is None:
        return None
    for event in reversed([e for e in program.events(Backward) if e.order < step.order]):
        if event.condition.excludes(step.condition):
            continue
        sure = _within_round(event, step) and comes_before(program, event, step) and feeds(program, event, optimizer)
        # A backward on some path only, or of an unknown loss, decides nothing.
        if sure or may_feed(program, event, optimizer):
            return event if sure else None
    return None


def _within_round(backward: Backward, step: OptimizerStep) -> bool:
    """In the round of the step, perhaps in a loop over micro-batches inside it."""
    around = backward.loops[: len(step.loops)]
    return [(each.identity, each.pass_) for each in around] == [(each.identity, each.pass_) for each in step.loops]
