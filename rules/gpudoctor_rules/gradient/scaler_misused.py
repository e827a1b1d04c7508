"""The calls of a gradient scaler are incomplete, repeated, or bypassed.

## What goes wrong

A gradient scaler has a protocol for each step: `scale(loss).backward()`, perhaps `unscale_(optimizer)`, once, then
`step(optimizer)`, then `update()`. PyTorch checks most of it and ends the program in the first or second step:

    RuntimeError: step() has already been called since the last update().
    RuntimeError: unscale_() has already been called on this optimizer since the last update().
    RuntimeError: unscale_() is being called after step().
    AssertionError: Attempted step but _scale is None.  This may indicate your script did not use
    scaler.scale(loss or outputs) earlier in the iteration.

It does not see `optimizer.step()` beside the scaler, which takes the scaled gradients as they are: steps that are
65536 times too large.

## Fix

Call `scaler.scale(loss).backward()`, `scaler.step(optimizer)` for each optimizer, then `scaler.update()` once. Where
gradients are summed over several batches, `unscale_`, `step` and `update` all belong to the last one. No automatic
fix.

## Silent when

The scaler is off (`enabled=False`) or does more than is seen, as timm's; it is passed to code that could not be read;
what is missing may be in a part of the program that was not followed, or stands under a test that cannot be compared.

## Sources

https://docs.pytorch.org/docs/stable/amp.html#gradient-scaling, https://docs.pytorch.org/docs/stable/notes/amp_examples.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.domain.optim import Optimizer, Scaler
from gpudoctor.lint.domain.value import FALSE, in_code
from gpudoctor.lint.events.training_step import Backward, OptimizerStep, ScalerCall
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.gradient_use import feeds
from gpudoctor.lint.questions.loop_rounds import same_round
from gpudoctor.rule import Rule
from gpudoctor_rules.gradient._steps import repeating_loop

if TYPE_CHECKING:
    from gpudoctor.lint.program import Program

ScalerCalls = list[ScalerCall]


class ScalerMisused(Rule):
    """The calls of a gradient scaler are incomplete, come twice, or are gone around."""

    code = "GPU704"
    name = "scaler-misused"
    severity = Severity.ERROR
    errors = (
        "RuntimeError: step() has already been called since the last update().",
        "RuntimeError: unscale_() has already been called on this optimizer since the last update().",
        "RuntimeError: unscale_() is being called after step().",
        "AssertionError: No inf checks were recorded for this optimizer.",
    )
    needs = (ScalerCall,)

    def in_code(self, program: Program) -> Iterator[Finding]:
        if not program.has(ScalerCall):
            return
        calls: dict[Scaler, ScalerCalls] = {}
        for event in program.events(ScalerCall):
            if isinstance(event.scaler, Scaler):
                calls.setdefault(event.scaler, []).append(event)
        for scaler, its in calls.items():
            # Whoever holds it may make the calls that are missing here.
            if scaler in program.escaped or (scaler.enabled is not None and scaler.enabled.single == FALSE):
                continue
            found = self._incomplete(program, scaler, its) or self._unscaled_wrongly(scaler, its)
            found = found or self._gone_around(program, scaler, its)
            if found is not None:
                yield found

    def _incomplete(self, program: Program, scaler: Scaler, its: ScalerCalls) -> Finding | None:
        """A step without `scale`, or without `update`, anywhere."""
        step = next((e for e in its if e.call == "step" and repeating_loop(e) is not None), None)
        if step is None or not program.absence() or not scaler.whole:
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
            )
        return None


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
        and step.condition.implies(backward.condition)
        and isinstance(step.optimizer, Optimizer)
        and feeds(program, backward, step.optimizer)
    )
