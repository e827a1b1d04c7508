"""The calls of a gradient scaler are incomplete, repeated, or bypassed.

## What goes wrong

A gradient scaler has a protocol for each step: `scale(loss).backward()`, perhaps `unscale_(optimizer)`, once, then
`step(optimizer)`, then `update()`. PyTorch checks most of it and ends the program in the first or second step:

    RuntimeError: step() has already been called since the last update().
    RuntimeError: unscale_() has already been called on this optimizer since the last update().
    RuntimeError: unscale_() is being called after step().
    AssertionError: Attempted step but _scale is None.  This may indicate your script did not use
    scaler.scale(loss or outputs) earlier in the iteration.

Accelerate's `clip_grad_norm_` unscales, too: inside of `accumulate` it must be called for the last batch alone.
PyTorch does not see `optimizer.step()` beside the scaler, which takes the scaled gradients as they are: steps that are
65536 times too large.

## Fix

Call `scaler.scale(loss).backward()`, `scaler.step(optimizer)` for each optimizer, then `scaler.update()` once. Where
gradients are summed over several batches, `unscale_`, `step` and `update` all belong to the last one; with
Accelerate, `if accelerator.sync_gradients:` says which that is. No automatic fix.

## Silent when

The scaler is off (`enabled=False`); it is passed to code that could not be read; what is missing may be in a part of
the program that was not followed, or stands under a test that cannot be compared.

## Sources

https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling, https://docs.pytorch.org/docs/stable/notes/amp_examples.html,
`clip_grad_norm_` of accelerate 1.15.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.domain.optim import Optimizer, Scaler
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.training_step import Backward, ClipGradients, GradientSync, OptimizerStep, ScalerCall
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.gradient_use import feeds
from gpudoctor.lint.questions.loop_rounds import batch_loop, in_every_round, same_round
from gpudoctor.lint.questions.names import in_code
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules.gradient._steps import comes_before, repeating_loop

ScalerCalls = list[ScalerCall]


class ScalerMisused(Rule):
    code = "GPU704"
    severity = Severity.ERROR
    errors = (
        "RuntimeError: step() has already been called since the last update().",
        "RuntimeError: unscale_() has already been called on this optimizer since the last update().",
        "RuntimeError: unscale_() is being called after step().",
        "AssertionError: No inf checks were recorded for this optimizer.",
    )
    needs = (ScalerCall, ClipGradients)
    looks_at = ((ScalerCall, "scaler"), (ClipGradients, "by"))

    def in_code(self, program: Program) -> Findings:
        yield from self._unscaled_by_accelerate(program)
        calls: dict[Scaler, ScalerCalls] = {}
        for event in program.events(ScalerCall):
            calls.setdefault(event.scaler, []).append(event)
        for scaler, its in calls.items():
            # Whoever holds it may make the calls that are missing here.
            if scaler in program.escaped or scaler.is_off:
                continue
            found = self._incomplete(program, scaler, its) or self._unscaled_wrongly(scaler, its)
            found = found or self._gone_around(program, scaler, its)
            if found is not None:
                yield found

    def _incomplete(self, program: Program, scaler: Scaler, its: ScalerCalls) -> Finding | None:
        """A step without `scale`, or without `update`, anywhere."""
        step = next((e for e in its if e.call == "step" and repeating_loop(e) is not None), None)
        if step is None or not program.absence():
            return None
        made = {event.call for event in its}
        if "scale" not in made:
            return self.found(
                step.location,
                f"`{scaler.label}` steps, but no loss was scaled by it: the first step ends in `AssertionError: "
                "Attempted step but _scale is None`.",
                remedy=f"Write `{scaler.label}.scale(loss).backward()` where the program writes `loss.backward()`.",
                because=[("the scaler is made here", scaler.place)],
            )
        if "update" in made:
            return None
        return self.found(
            step.location,
            f"`{scaler.label}.update()` is never called: the second step ends in `RuntimeError: step() has already "
            "been called since the last update()`.",
            remedy=f"Call `{scaler.label}.update()` after the step.",
            because=[("the scaler is made here", scaler.place)],
        )

    def _unscaled_wrongly(self, scaler: Scaler, its: ScalerCalls) -> Finding | None:
        """`unscale_` comes twice for one `update`, or behind the step."""
        for at, event in enumerate(its):
            before = _since_update(its[:at], event) if event.call == "unscale_" else []
            earlier = next((e for e in before if e.optimizer == event.optimizer), None)
            if earlier is None or not isinstance(event.optimizer, Optimizer):
                continue
            twice = earlier.call == "unscale_"
            error = "unscale_() has already been called on this optimizer since the last update()"
            error = error if twice else "unscale_() is being called after step()"
            return self.found(
                event.location,
                f"`{scaler.label}` has {'unscaled these gradients already' if twice else 'made this step already'}: "
                f"`RuntimeError: {error}`.",
                remedy=f"Call `{scaler.label}.unscale_` once for each step, between its last backward and the step.",
                because=[("unscaled here" if twice else "the step", earlier.location)],
            )
        return None

    def _unscaled_by_accelerate(self, program: Program) -> Findings:
        """What clips for Accelerate unscales first, and does so for every batch of a step."""
        for clip in program.events(ClipGradients):
            charge = next((each for each in program.events(UseManaged) if each.made == clip.by), None)
            number, loop = _batches_that_it_scales(charge), batch_loop(clip)
            if charge is None or clip.by is None or number is None or loop is None:
                continue
            entered = any(each.target == clip.by and each.call == "accumulate" for each in program.events(GradientSync))
            if entered and in_every_round(program, clip, loop):
                owner = in_code(clip.by, "accelerator")
                yield self.found(
                    clip.location,
                    f"`{clip.call}` unscales the gradients, here after each of the batches that make one step: the "
                    "second one ends in `RuntimeError: unscale_() has already been called on this optimizer since the "
                    "last update()`.",
                    remedy=f"Clip for the last batch of a step only: `if {owner}.sync_gradients:`.",
                    because=[("FP16 and the number of batches are chosen here", charge.location)],
                    doubt="" if number.is_constant else "With a number of 1 nothing is wrong.",
                )
                return

    def _gone_around(self, program: Program, scaler: Scaler, its: ScalerCalls) -> Finding | None:
        """The optimizer itself steps with scaled gradients."""
        through = {each.location for each in its if each.call == "step"}
        for step in program.events(OptimizerStep):
            # What an optimizer of the project steps in its own `step` is stepped by whoever steps that one.
            inside = not through.isdisjoint(step.context.calls)
            if step.through or inside or not isinstance(step.optimizer, Optimizer):
                continue
            backward = next((e for e in program.events(Backward) if _feeds_scaled(program, e, step, scaler)), None)
            if backward is None or any(e.call == "unscale_" and e.order < step.order for e in its):
                continue
            return self.found(
                step.location,
                f"This step takes gradients that `{scaler.label}` has multiplied by its scale (65536 at first): it is "
                "that many times too large.",
                remedy=f"Write `{scaler.label}.step({in_code(step.optimizer, 'optimizer')})`, and "
                f"`{scaler.label}.update()` after it.",
                because=[("the scaled loss is backpropagated here", backward.location)],
                needs=tuple(backward.condition.difference(step.condition)),
            )
        return None


def _batches_that_it_scales(charge: UseManaged | None) -> Value | None:
    """How many batches Accelerate makes a step of, where it was told to scale for FP16 itself, and of several."""
    if charge is None or charge.framework != "accelerate" or "spreading" in charge.otherwise:
        return None
    steps = charge.setting("gradient_accumulation_steps")
    number = steps.single if steps is not None else None
    several = number is not None and (number.config or number.in_python not in (None, 1))
    return number if several and charge.told("mixed_precision") == "fp16" else None


def _since_update(earlier: ScalerCalls, event: ScalerCall) -> ScalerCalls:
    """The calls that surely came before this one with no `update` in between, the last one first."""
    found: ScalerCalls = []
    for each in reversed(earlier):
        if each.condition.excludes(event.condition):
            continue
        if each.call == "update" and not _left_out(each, event):
            break
        # In the first round counters have answers of their own, and another path says nothing.
        if each.call != "scale" and event.condition.implies(each.condition) and _comparable(each, event):
            found.append(each)
    return found


def _left_out(update: ScalerCall, event: ScalerCall) -> bool:
    """The update waits for more batches, while this call does not."""
    more = update.condition.difference(event.condition)
    return not same_round(update, event) and bool(more.divergence & Divergence.BATCH_INDEX)


def _comparable(one: ScalerCall, other: ScalerCall) -> bool:
    """Both happen in the same loops, in whichever round; of a loop over optimizers, each has a round of its own."""

    def loops_of(event: ScalerCall) -> list[tuple[object, ...]]:
        return [(loop.location, loop.pass_ if other.optimizer in loop.items else None) for loop in event.loops]

    return loops_of(one) == loops_of(other)


def _feeds_scaled(program: Program, backward: Backward, step: OptimizerStep, scaler: Scaler) -> bool:
    return (
        backward.scaler == scaler
        and backward.order < step.order
        and same_round(backward, step)
        and comes_before(program, backward, step)
        and isinstance(step.optimizer, Optimizer)
        and feeds(program, backward, step.optimizer)
    )
