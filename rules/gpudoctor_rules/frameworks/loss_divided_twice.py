"""A loss is divided by the number of accumulated batches, and the framework divides it again.

## What goes wrong

`accelerator.backward(loss)` divides by the `gradient_accumulation_steps` that the `Accelerator` was made with,
DeepSpeed's `engine.backward(loss)` by the number in its configuration, and Lightning what `training_step` returns by
the `accumulate_grad_batches` of its `Trainer`. Where the program has divided the loss by the same number, the gradient
of each step, on every rank (each process, one for each GPU), is that many times too small: with 4 batches a quarter of
what it should be. No error is raised. SGD goes a quarter as far; with Adam, which makes up for a constant factor,
clipping and weight decay still see the small gradients.

## Fix

Leave the division out. Unsafe: a learning rate that was found with the small gradients is now too large.

## Silent when

The loss is divided by another number than the framework knows, or by one that is not known to be the same; the
`Accelerator` was not told any number, so that the program does the division alone; the backward is PyTorch's own. A run
reports it only where lint suspects it, since a mean of several losses looks the same there.

## Sources

https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation, huggingface/accelerate#511.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.knowledge import LoopRun, UseManaged
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.made_of import asked_of_engine, is_attribute, is_entry
from gpudoctor.lint.questions.users_choice import more_than_one
from gpudoctor.lint.repair.repair import Delete, Repair, Replace, Source
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.frameworks._charge import ACCELERATE, DEEPSPEED, LIGHTNING, accumulation_of, in_numbers
from gpudoctor_rules.frameworks._engine import STEPS

BATCHES = "accumulate_grad_batches"


class LossDividedTwice(Rule):
    code = "GPU903"
    severity = Severity.ERROR
    fix_safety = Safety.UNSAFE
    needs = (UseManaged,)

    def in_code(self, program: Program) -> Findings:
        for backward in program.events(Backward):
            loss = backward.loss
            if not isinstance(loss, Tensor) or loss.over is None:
                continue
            charge = next(
                (each for each in program.events(UseManaged) if _divides_by(program, each, backward, loss.over)), None
            )
            if charge is None:
                continue
            yield self.found(
                loss.place,
                f"The loss is divided by {in_numbers(loss.over)} here and again by {_title(charge)}: its gradient is "
                "too small by that factor.",
                remedy="Leave the division out: the framework divides.",
                because=[("the framework is told the number", charge.location), ("it divides here", backward.location)],
                repair=_undivided(loss.place),
                # Of several Accelerators the last number counts, and one may be made for an option alone.
                needs=[*charge.condition, *more_than_one(loss.over)],
            )

    def in_run(self, recording: Recording) -> Findings:
        # A mean that the program takes of its losses looks the same.
        if self.code not in recording.suspected:
            return
        for each in recording.ranks[0].divided if recording.ranks else ():
            if each.place is not None:
                yield self.found(
                    each.place,
                    f"A loss that was divided by {each.steps} came to the `backward` of the "
                    f"{'engine' if each.owner == 'engine' else 'accelerator'}, which divides it by {each.steps} "
                    "again.",
                    remedy="Leave the division out: the framework divides.",
                )

    def could_show(self, recording: Recording) -> bool:
        accelerators = (each.steps for rank in recording.ranks for each in rank.accelerators)
        engines = (each.steps for rank in recording.ranks for each in rank.engines)
        return any(steps > 1 for steps in (*accelerators, *engines))


def _title(charge: UseManaged) -> str:
    if charge.framework == LIGHTNING:
        return "Lightning"
    return f"the `backward` of {'Accelerate' if charge.framework == ACCELERATE else 'DeepSpeed'}"


def _divides_by(program: Program, charge: UseManaged, backward: Backward, number: Value) -> bool:
    """The framework behind this backward divides the loss by the same number."""
    if charge.condition.excludes(backward.condition):
        return False
    if charge.framework == LIGHTNING:
        # The Trainer's own backward stands where its loop does, and that of manual optimization in the program.
        runs = any(each.location == backward.location for each in program.events(LoopRun))
        steps = charge.setting(BATCHES) if runs else None
        return steps is not None and (steps.single == number or is_attribute(number, BATCHES))
    if charge.framework != backward.managed:
        return False
    told = accumulation_of(charge)
    if charge.framework == DEEPSPEED:
        told = charge.entry(STEPS)
        # An option beside the configuration's own number, which is the same where nobody chooses another.
        alike = told is not None and told.in_python != 1 and told in (number, program.left_out(number))
        given = charge.setting("config")
        of_config = given is not None and is_entry(number, given.single, STEPS)
        return asked_of_engine(number, STEPS) or alike or of_config
    if charge.framework != ACCELERATE or told is None or told.in_python == 1:
        return False
    return told == number or is_attribute(number, STEPS)


def _undivided(at: Location) -> Repair:
    title = "Leave the division out"
    alone = Repair(title, (Delete(at, recomputed=True),))
    return Repair(title, (Replace(at, (Source(at, "left"),)),), otherwise=alone)
