"""After the first validation the model keeps training in evaluation mode.

## What goes wrong

`model.eval()` switches dropout off and makes batch normalisation use its running statistics, and that stays so until
`model.train()` is called. Where `train()` stands before the loop over the epochs and `eval()` inside it, the first
epoch is trained as it should be and all later ones are not: without dropout, and with statistics that no longer follow
the data. No error is raised; often the training loss even gets better, and the validation does not.

## Fix

Call `model.train()` at the beginning of each epoch, or at the end of the validation. Safe: that is the mode in which
the first epoch was trained.

## Silent when

The model was in evaluation mode before it was trained for the first time, as where running statistics are kept on
purpose; any call on the way may restore the mode, with a flag that is not known too; the model is passed to code that
could not be read; it is switched off with the last batch of an epoch, and on with the next epoch; no known optimizer
holds it; it has no layer for which the mode makes a difference; a framework makes the loop.

## Sources

https://docs.pytorch.org/docs/stable/generated/torch.nn.Module.html#torch.nn.Module.train.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Finding, Safety, Severity
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.events.model import Forward, ModeChange
from gpudoctor.lint.events.training_step import Backward, OptimizerStep
from gpudoctor.lint.questions.layers import minds_mode
from gpudoctor.lint.questions.loop_counters import only_at_the_end
from gpudoctor.lint.repair.repair import After, First, Holds, Repair
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.gradient._steps import reaches, repeating_loop


class TrainModeNotRestored(Rule):
    code = "GPU712"
    severity = Severity.WARNING
    shows_when = ("ranks.later_epochs",)
    fix_safety = Safety.SAFE
    needs = (ModeChange,)

    def in_code(self, program: Program) -> Findings:
        if not program.whole or program.managed_by - program.leaving("loop") or not program.has(ModeChange):
            return
        told: set[Value] = set()
        calls: dict[Value, list[Forward]] = {}
        for call in _training_calls(program):
            core = call.module.core
            before = calls.setdefault(core, [])
            # A training that is chosen in the place of this one says nothing of it; nor is there an earlier one where
            # the tests before this one exclude each other, so that nobody comes here.
            earlier = next((each for each in before if not each.condition.excludes(call.condition)), None)
            before.append(call)
            if core in told or core in program.escaped or not _held(program, core):
                continue
            switch = _switched_off(program, core, earlier, call)
            if switch is not None and _cares(program, core):
                told.add(core)
                yield self._finding(program, core, switch, call)

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            modes = [(each, each.training) for each in rank.training_passes if each.batches > 1]
            left = [each for each, training in modes[1:] if training is False]
            if modes and modes[0][1] and left and left[0].place is not None:
                yield self.found(
                    left[0].place,
                    "The model trained in evaluation mode in this pass: dropout is off, and BatchNorm does not learn.",
                    remedy="Call `model.train()` at the start of each epoch.",
                )

    def _finding(self, program: Program, core: Value, switch: ModeChange, call: Forward) -> Finding:
        before = [e for e in program.events(ModeChange) if e.module.core == core and e.order < switch.order]
        label = switch.module.label or "model"
        # At the beginning of each epoch, and evaluated in the middle of one.
        outer = {loop.identity for loop in _shared(switch, call)[:-1]}
        again = any(e.training and e.loops and e.loops[-1].identity in outer for e in before)
        until = " before the next epoch" if again else ""
        return self.found(
            switch.location,
            f"`{label}` stays in evaluation mode from here on, also while it is trained: nothing switches it back"
            f"{until}.",
            remedy=f"Call `{call.module.label or label}.train()` "
            + ("behind the evaluation." if again else "at the beginning of each epoch."),
            because=[
                *(("training mode was switched on here", e.location) for e in before[-1:] if e.training),
                ("and this call trains it, after the first validation without dropout", call.location),
            ],
            repair=_restore(switch, call),
        )


def _restore(switch: ModeChange, call: Forward) -> Repair | None:
    """At the beginning of each round of the loop that both stand in, or behind the validation."""
    shared = _shared(switch, call)
    if not shared:
        return None
    title, line = "Go back to training mode", ((Holds(call.module), ".train()"),)
    together = sum(one == other for one, other in zip(switch.context.frames, call.context.frames, strict=False))
    deeper = (*switch.context.calls, switch.location)[max(together, 1) - 1]
    # In the middle of an epoch, the call that validates is where training stops and goes on.
    if shared[-1].over is not None and deeper != switch.location:
        return Repair(title, (After(deeper, line),))
    return Repair(title, (First(shared[-1].location, line),))


def _shared(switch: ModeChange, call: Forward) -> list[Loop]:
    around = {loop.identity for loop in switch.loops}
    return [loop for loop in call.loops if loop.identity in around]


def _training_calls(program: Program) -> Iterator[Forward]:
    """The calls through which gradients flow, in loops, in order."""
    identities = frozenset().union(*(event.forwards for event in program.events(Backward)))
    for call in program.events(Forward):
        # Under `no_grad` it only makes what another model is trained with.
        if call.identity in identities and call.graph and repeating_loop(call) is not None:
            yield call


def _held(program: Program, core: Value) -> bool:
    """An optimizer changes its weights: a backbone that only computes features for a trained head stays as it is."""
    optimizers = (event.optimizer for event in program.events(OptimizerStep))
    return any(reaches(program, [core], each) for each in optimizers)


def _switched_off(program: Program, core: Value, earlier: Forward | None, call: Forward) -> ModeChange | None:
    """What has put the model into evaluation mode in the same loop over epochs: since it was trained before, or for an
    evaluation that came first."""
    # Trained in evaluation mode from the beginning, it is meant.
    if earlier is not None and earlier.training is not True:
        return None
    since, first = (-1, call) if earlier is None else (earlier.order, earlier)
    around = {loop.identity for loop in first.loops} & {loop.identity for loop in call.loops}
    last: ModeChange | None = None
    for event in program.events(ModeChange):
        if not since < event.order < call.order or event.condition.excludes(call.condition):
            continue
        # No batch follows the last one of a loop before the loop is begun anew.
        if _ends_loop_of(event, call):
            continue
        # Who switches parts, or a module around it, knows what he does.
        if event.module.core in program.within(core) or core in program.within(event.module):
            last = event
    if last is None or last.training is not False or last.module.core != core:
        return None
    # One that is told once, after the training, is followed by another phase and not by another epoch.
    if not around & {loop.identity for loop in last.loops}:
        return None
    return last if earlier is not None or _evaluates_between(program, core, last, call) else None


def _evaluates_between(program: Program, core: Value, switch: ModeChange, call: Forward) -> bool:
    return any(
        switch.order < each.order < call.order and each.module.core == core and not each.graph
        for each in program.events(Forward)
    )


def _ends_loop_of(event: ModeChange, call: Forward) -> bool:
    """It happens in the last round of the loop in whose rounds the model is called."""
    inner = event.loops[-1].identity if event.loops else None
    return any(loop.identity == inner for loop in call.loops) and only_at_the_end(event.condition)


def _cares(program: Program, core: Value) -> bool:
    """The mode makes a difference for some layer, as far as the layers are known."""
    return any(not isinstance(part, Module) or minds_mode(part) for part in program.within(core))
