"""Gradients are clipped while they are still multiplied by the gradient scaler's factor.

## What goes wrong

A gradient scaler multiplies the loss by a large factor, 65536 at first, so that small gradients survive float16, and
`scaler.step(optimizer)` divides the gradients by it again. `clip_grad_norm_` between the two sees the large ones: with
a bound of 1.0, what is left after the division has a norm of 1/65536 at most. With SGD the weights hardly move; with
Adam, which makes up for a constant factor, the clipping turns into one that depends on the scale of the moment. No
error is raised.

## Fix

Call `scaler.unscale_(optimizer)` before the clipping; `scaler.step` then does not divide a second time. Safe: where
the scaler is switched off, `unscale_` does nothing.

## Silent when

The scaler is off (`enabled=False`), or the framework is told no FP16; it is passed to code that could not be read,
which may unscale; anything was unscaled between the last step and this one; what is clipped belongs to another
optimizer.

## Sources

https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping, pytorch/examples#1196,
milesial/Pytorch-UNet#468.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Location, Safety, Severity
from gpudoctor.lint.domain.optim import Optimizer, Scaler
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.training_step import Backward, ClipGradients, ScalerCall, UnscaleGradients
from gpudoctor.lint.questions.gradient_use import feeds
from gpudoctor.lint.questions.loop_rounds import same_round, within_round
from gpudoctor.lint.questions.names import in_code
from gpudoctor.lint.repair.repair import Before, Holds, Repair
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.gradient._steps import reaches

_SCALED: dict[str, tuple[str, tuple[object, ...], str]] = {
    "accelerate": ("mixed_precision", ("fp16",), "accelerator.clip_grad_norm_(parameters, max_norm)"),
    "lightning": ("precision", ("16-mixed", "16", 16), "clip_gradients"),
}
"""The setting that has the loss scaled, what it is then, and what clips instead."""


_ENOUGH = 3
"""Steps of a run that are enough to tell a habit."""


class ClipBeforeUnscale(Rule):
    code = "GPU703"
    severity = Severity.WARNING
    fix_safety = Safety.SAFE
    needs = (ClipGradients,)

    def in_code(self, program: Program) -> Findings:
        told: set[Location] = set()
        yield from self._managed(program, told)
        for step in program.events(ScalerCall) if program.has(ClipGradients) else ():
            optimizer, scaler = step.optimizer, step.scaler
            if step.call != "step" or not isinstance(optimizer, Optimizer):
                continue
            # Who takes the scaler along may unscale somewhere else.
            if scaler.is_off or scaler in program.escaped:
                continue
            clip = _clipped_scaled(program, step, optimizer)
            if clip is not None and clip.location not in told:
                told.add(clip.location)
                yield self._finding(clip, step, optimizer, scaler)

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            clipped = [step.counts for step in rank.steps if step.counts.get("clips")]
            at = next((clip.place for clip in rank.clips if clip.place is not None), None)
            if at is not None and len(clipped) >= _ENOUGH and all(each.get("scaled clips") for each in clipped):
                yield self.found(
                    at,
                    f"In all of {len(clipped)} steps that were looked at, gradients were clipped while they were still "
                    "multiplied by the scaler's factor (65536 at first): what is left of them is that many times "
                    "smaller than the bound.",
                    remedy="Call `scaler.unscale_(optimizer)` before it.",
                )

    def could_show(self, recording: Recording) -> bool:
        return any(sum(bool(step.counts.get("clips")) for step in rank.steps) >= _ENOUGH for rank in recording.ranks)

    def _managed(self, program: Program, told: set[Location]) -> Findings:
        """A framework scales the loss for FP16, and the program clips past it."""
        for clip in program.events(ClipGradients):
            before = [each for each in program.events(Backward) if each.managed in _SCALED and each.order < clip.order]
            backward = before[-1] if before else None
            if backward is None or clip.by is not None or clip.location in told or not same_round(backward, clip):
                continue
            # Which of several objects has scaled it is not told.
            charges = [each for each in program.events(UseManaged) if each.framework == backward.managed]
            charge = charges[0] if charges and all(_scales(each, backward) for each in charges) else None
            unscaled = any(backward.order < each.order < clip.order for each in program.events(UnscaleGradients))
            if charge is None or unscaled or clip.condition.excludes(backward.condition):
                continue
            told.add(clip.location)
            _, _, does_both = _SCALED[charge.framework]
            yield self.found(
                clip.location,
                f"`{clip.call}` clips gradients that are multiplied by the scale of FP16 (65536 at first): what is "
                "left of them is that many times smaller than the bound.",
                remedy=f"Call `{does_both}`, which unscales them first.",
                because=[("FP16 is chosen here", charge.location), ("the loss is scaled here", backward.location)],
            )

    def _finding(self, clip: ClipGradients, step: ScalerCall, optimizer: Optimizer, scaler: Scaler) -> Finding:
        # A helper that clips knows nothing of scalers.
        place = parting(clip, step)
        return self.found(
            place,
            f"`{clip.call}` clips gradients that `{scaler.label}` has multiplied by its scale (65536 at first): "
            "what is left of them is that many times smaller than the bound.",
            remedy=f"Call `{scaler.label}.unscale_({in_code(optimizer, 'optimizer')})` before it.",
            because=[
                ("the scaler is made here", scaler.place),
                ("the gradients are clipped here", clip.location),
                ("and divides by its scale only here", step.location),
            ],
            # `GradScaler(enabled=args.amp)` scales nothing where that is off.
            needs=scaler.enabled if scaler.enabled is not None and scaler.enabled.single is not None else (),
            repair=Repair(
                "Unscale the gradients first", (Before(place, ((Holds(scaler), ".unscale_(", Holds(optimizer), ")"),)),)
            ),
        )


def _scales(charge: UseManaged, backward: Backward) -> bool:
    """It was told to train in FP16, and scales this loss itself."""
    if "spreading" in charge.otherwise or charge.given.open_ended:
        return False
    setting, scaled, _ = _SCALED[charge.framework]
    only = values.single if (values := charge.setting(setting)) is not None else None
    return only is not None and only.in_python in scaled and not charge.condition.excludes(backward.condition)


def _clipped_scaled(program: Program, step: ScalerCall, optimizer: Optimizer) -> ClipGradients | None:
    """What cuts the gradients of this step before anything has unscaled them."""
    earlier = [e for e in program.events(ScalerCall) if e.order < step.order]
    # Of another optimizer's steps nothing follows for the gradients of this one.
    begin = max((e.order for e in earlier if e.call == "step" and e.optimizer == optimizer), default=-1)
    unscaled = [e for e in earlier if e.call == "unscale_" and e.order > begin and not _of_other(e, optimizer)]
    for clip in (each for each in program.events(ClipGradients) if each.by is None):
        if (
            not begin < clip.order < step.order
            or not within_round(clip, step)
            or clip.condition.excludes(step.condition)
        ):
            continue
        # What another branch unscales has never been clipped.
        if not all(e.condition.excludes(clip.condition) for e in unscaled):
            continue
        if reaches(program, clip.modules, optimizer) and _scaled_before(program, clip, step, optimizer, begin):
            return clip
    return None


def _of_other(event: ScalerCall, optimizer: Optimizer) -> bool:
    return isinstance(event.optimizer, Optimizer) and event.optimizer != optimizer


def _scaled_before(program: Program, clip: ClipGradients, step: ScalerCall, optimizer: Optimizer, begin: int) -> bool:
    """A backward of a loss that this scaler has scaled left the gradients."""
    return any(
        begin < each.order < clip.order
        and each.scaler == step.scaler
        and not each.condition.excludes(clip.condition)
        and feeds(program, each, optimizer)
        for each in program.events(Backward)
    )
