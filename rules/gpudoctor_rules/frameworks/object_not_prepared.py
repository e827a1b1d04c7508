"""A training loop uses a model, an optimizer or a loader that its framework was never given, beside others that it was.

## What goes wrong

Accelerate and Fabric change nothing but what they are given. A model that was left out keeps its gradients to itself:
every rank (each process, one for each GPU) trains a model of its own, and all but one are thrown away. A loader that
was left out yields the whole data set on every rank, so that more GPUs do not shorten the epoch, and leaves its batches
on the CPU. The steps of an optimizer that was left out are not held back while gradients are accumulated, and its
gradients not unscaled under FP16.

## Fix

Pass it with the others, `model, optimizer, loader = accelerator.prepare(model, optimizer, loader)`, and continue with
what it returns. Unsafe: it changes what the program trains, or on which batches.

## Silent when

What is passed cannot be followed; the object was given to code that was not read; the loader has a sampler that
shards the data, or a data set that may be split; the program sends gradients between the ranks itself, or wraps the
model; the model is frozen, or only evaluated; nothing but the loader is prepared, and the backward is PyTorch's own;
learning rate schedules, which count their steps another way (`scheduler-steps-n-times`).

## Sources

https://huggingface.co/docs/accelerate/basic_tutorials/migration, huggingface/accelerate#2299.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Safety, Severity
from gpudoctor.lint.domain.module import Module, WrapperKind
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.knowledge import Prepare
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.training_step import Backward, OptimizerStep
from gpudoctor.lint.questions.gradient_use import averaged_by_hand, holds
from gpudoctor.lint.questions.names import in_code, name_of
from gpudoctor.lint.repair.repair import After, Code, Holds, Repair
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.frameworks._charge import (
    ACCELERATE,
    LIGHTNING,
    handed_over,
    is_prepared,
    leaves_gradients_alone,
    prepared_for,
    prepares_unseen,
    taken_in_charge,
)
from gpudoctor_rules.frameworks._learning import backward_in, reads_everything, step_of

if TYPE_CHECKING:
    from gpudoctor.api.pack import Location, Value
    from gpudoctor.run.recording import Pass, Process
    from gpudoctor.run.recording.framework_facts import RecordedAccelerator

METHODS = {
    ACCELERATE: ("prepare", "prepare", "prepare"),
    LIGHTNING: ("setup_module", "setup_optimizers", "setup_dataloaders"),
}
"""What takes a model, an optimizer and a loader."""
MODEL, OPTIMIZER, LOADER = range(3)


class ObjectNotPrepared(Rule):
    code = "GPU905"
    severity = Severity.ERROR
    fix_safety = Safety.UNSAFE
    of_ranks = True
    shows_when = ("distributed", "ranks.accelerators", "ranks.checks")
    needs = (Prepare,)

    def in_code(self, program: Program) -> Findings:
        # What was not seen to be passed may have been, elsewhere.
        if not program.absence(knows=METHODS.keys()) or prepares_unseen(program):
            return
        told: set[Value] = set()
        for about, finding in (*self._models(program), *self._optimizers(program), *self._loaders(program)):
            if about not in told:
                told.add(about)
                yield finding

    def in_run(self, recording: Recording) -> Findings:
        told = next((each for rank in recording.ranks[:1] for each in rank.accelerators), None)
        if told is None or not recording.distributed:
            return
        yield from self._drifted(recording, told)
        yield from self._never_held_back(recording.ranks[0], told)
        yield from self._read_whole(recording, told)

    def _drifted(self, recording: Recording, told: RecordedAccelerator) -> Findings:
        """A model that nobody wrapped is another one on each rank."""
        drift = recording.drift
        if drift is None or not told.plain or not told.models or not drift.optimizer.unwrapped:
            return
        place = drift.optimizer.place
        if place is not None:
            yield self.found(
                place,
                f"After step {drift.step} the ranks held different values in parameter {drift.name}, one of "
                f"{drift.optimizer.unwrapped} that this {drift.optimizer.type} trains and no prepared model has.",
                remedy="Pass their model with the others: `accelerator.prepare(model)`.",
                because=[("the accelerator is made here", told.place)],
            )

    def _never_held_back(self, rank: Process, told: RecordedAccelerator) -> Findings:
        """An optimizer that does not know of accumulation steps where others wait."""
        for each in rank.optimizers:
            early = [
                step for step in rank.steps
                if step.optimizer == each.number and "held back" in step.counts and "accumulated" not in step.counts
            ]  # fmt: skip
            if early and not each.prepared and told.steps > 1 and each.place is not None:
                yield self.found(
                    each.place,
                    f"This {each.type} was never prepared: it made {len(early)} steps in batches of which `accumulate` "
                    f"makes one step in {told.steps}.",
                    remedy="Prepare it, and use what comes back: `optimizer = accelerator.prepare(optimizer)`.",
                    because=[("the accelerator is made here", told.place)],
                )

    def _read_whole(self, recording: Recording, told: RecordedAccelerator) -> Findings:
        """A training pass over a loader of the program's own that gives each rank all of the data."""
        first, others = recording.ranks[0], recording.ranks[1:]
        seen: set[int] = set()
        for each in first.training_passes if told.models else ():
            if each.prepared or each.replicas is not None or not each.kept_all or each.place is None:
                continue
            same = [_pass_of(rank, each) for rank in others]
            whole = all(one is not None and set(one.places or ()) == set(each.places or ()) for one in same)
            if whole and each.samples > 1 and each.loader not in seen:
                seen.add(each.loader)
                yield self.found(
                    each.place,
                    f"This loader was never prepared: every rank trained on the same {each.samples} samples.",
                    remedy="Prepare it, and use what comes back: `loader = accelerator.prepare(loader)`.",
                    because=[("the loader is made here", each.made), ("the accelerator is made here", told.place)],
                )

    def _models(self, program: Program) -> Iterator[tuple[Value, Finding]]:
        if averaged_by_hand(program, seldom=True):
            return
        for backward in program.events(Backward):
            for call in program.calls_in_graph(backward):
                model = call.module.core_under(WrapperKind.COMPILED)
                step = step_of(program, backward, model) if model is not None else None
                if model is None or step is None or not _is_left_out(program, model) or not backward.complete:
                    continue
                beside = next((each for each in handed_over(program) if each.given == step.optimizer), None)
                # Batches of a prepared loader may go to a plain training that is compared with.
                beside = beside or (_of_loop(program, backward) if backward.managed else None)
                charge = taken_in_charge(program, beside.managed) if beside is not None else None
                # A Trainer that runs the loop wraps the module that it was given to `fit`, with all its layers.
                if charge is not None and charge.trains:
                    continue
                together = beside is not None and not beside.condition.excludes(backward.condition)
                if beside is not None and together and program.on_both_sides(backward):
                    owner = name_of(beside.managed, "the framework")
                    message = (
                        f"{name_of(model)} is trained here and was never given to {owner}: each rank applies only its "
                        "own gradients, and trains a model of its own"
                    )
                    yield model, self._found(call.location, message, model, MODEL, beside, model.place)

    def _optimizers(self, program: Program) -> Iterator[tuple[Value, Finding]]:
        for step in program.events(OptimizerStep):
            optimizer = step.optimizer
            if not isinstance(optimizer, Optimizer) or is_prepared(program, optimizer) or optimizer in program.escaped:
                continue
            beside = _trained_beside(program, optimizer, step)
            charge = taken_in_charge(program, beside.managed) if beside is not None else None
            if beside is None or charge is None or step.through or beside.condition.excludes(step.condition):
                continue
            accumulates = charge.told("gradient_accumulation_steps")
            sure = isinstance(accumulates, int) and accumulates > 1
            if not sure and leaves_gradients_alone(charge):
                continue
            what = (
                f"it steps after each batch, though `gradient_accumulation_steps` is {accumulates}"
                if sure
                else "its gradients are not unscaled under FP16, and its steps not held back while gradients are "
                "accumulated"
            )
            owner = name_of(beside.managed, "the framework")
            message = f"{name_of(optimizer, 'the optimizer')} was never given to {owner}: {what}"
            severity = Severity.ERROR if sure else Severity.WARNING
            doubt = "" if sure else "Without FP16 and accumulation nothing goes wrong."
            yield (
                optimizer,
                self._found(step.location, message, optimizer, OPTIMIZER, beside, optimizer.place, severity, doubt),
            )

    def _loaders(self, program: Program) -> Iterator[tuple[Value, Finding]]:
        for start in program.events(Iterate):
            backward = backward_in(program, start)
            beside = prepared_for(program, backward) if backward is not None else None
            if beside is None or start.loader.managed or beside.condition.excludes(start.condition):
                continue
            charge = taken_in_charge(program, beside.managed)
            if charge is None or charge.alone or not reads_everything(program, start):
                continue
            handed = next((each for each in handed_over(program) if each.given == start.loader), None)
            how = "is the one from before it was prepared" if handed is not None else "was never prepared"
            message = (
                f"{name_of(start.loader, 'the loader')} {how}: every rank trains on all of the data set, so more GPUs "
                "do not shorten the epoch"
            )
            yield start.loader, self._found(start.location, message, start.loader, LOADER, beside, start.loader.place)

    def _found(
        self, at: Location, message: str, left: Value, kind: int, beside: Prepare, made: Location,
        severity: Severity | None = None, doubt: str = "",
    ) -> Finding:  # fmt: skip
        owner, method = in_code(beside.managed, beside.managed.framework), METHODS[beside.managed.framework][kind]
        subject = in_code(left, ("model", "optimizer", "loader")[kind])
        line: Code = (Holds(left), " = ", Holds(beside.managed), f".{method}(", Holds(left), ")")
        # In the same function, what is made after the others were passed is passed behind it.
        later = max(made, beside.location, key=lambda place: place.line)
        return self.found(
            at,
            f"{message}.",
            remedy=f"Pass it with the others, and use what comes back: `{subject} = {owner}.{method}({subject})`.",
            because=[("it is made here", made), ("another one is passed here", beside.location)],
            severity=severity,
            doubt=doubt,
            repair=Repair(f"Pass {subject} with the others", (After(later, (line,)),)),
        )


def _pass_of(rank: Process, given: Pass) -> Pass | None:
    """The pass of that number over the same loader, on another rank."""
    return next((each for each in rank.passes if (each.number, each.loader) == (given.number, given.loader)), None)


def _is_left_out(program: Program, model: Module) -> bool:
    """It was never passed or wrapped, nor is it a part of what was, nor has it such parts."""
    related = program.within(model)
    taken = [each.given.core for each in handed_over(program)] + [each.inner.core for each in program.events(Wrap)]
    if any(each in related or model in program.within(each) for each in taken):
        return False
    return not any(related & program.within(value) for value in program.escaped if value.is_model)


def _of_loop(program: Program, backward: Backward) -> Prepare | None:
    """Where the loader was passed that the backward learns from."""
    over = [loop.over for loop in backward.loops if loop.over is not None]
    return next((each for each in handed_over(program) if each.made in over), None)


def _trained_beside(program: Program, optimizer: Optimizer, step: OptimizerStep) -> Prepare | None:
    """Where the model was passed whose gradients this optimizer uses here."""
    for backward in program.events(Backward):
        if backward.order > step.order or backward.condition.excludes(step.condition):
            continue
        prepared = prepared_for(program, backward)
        if prepared is not None and holds(program, optimizer, prepared.made.core):
            return prepared
    return None
