"""Accelerate is told how many batches make a step, and nothing in the loop makes it wait for them.

## What goes wrong

`Accelerator(gradient_accumulation_steps=4)` makes `accelerator.backward` divide each loss by 4. It is `with
accelerator.accumulate(model):` that makes the optimizer step only every fourth time. Without it every batch makes a
step, on every rank (each process, one for each GPU), with a quarter of its gradient: the batch is a quarter of what was
meant, and with SGD so is the learning rate. No error is raised.

## Fix

Put forward, backward and step of each batch under `with accelerator.accumulate(model):`. No automatic fix: it would
move lines.

## Silent when

The program enters `accumulate` or `no_sync` anywhere; it steps less often than it calls `backward`, by a test or an
inner loop of its own; the number is 1, or that of a plugin and not known; the accelerator or the model went to code
that was not read.

## Sources

https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation, tianweiy/DMD2#23.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.training_step import GradientSync
from gpudoctor.lint.questions.names import in_code
from gpudoctor.lint.questions.users_choice import more_than_one
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.frameworks._charge import ACCELERATE, accumulation_of, in_numbers
from gpudoctor_rules.frameworks._learning import step_of_each_batch

ENTERED = frozenset(("accumulated", "held back"))
"""What a run counts where `accumulate` or `no_sync` is entered."""
ENOUGH = 3
"""Steps from which it is seen whether they come after each batch: the last batches of an epoch make one, too."""


class AccumulateMissing(Rule):
    code = "GPU902"
    severity = Severity.ERROR
    shows_when = ("ranks.accelerators", f"ranks.steps > {ENOUGH - 1}")
    needs = (UseManaged,)

    def in_code(self, program: Program) -> Findings:
        if not program.absence(knows={ACCELERATE}) or program.has(GradientSync):
            return
        for charge in program.events(UseManaged):
            number = accumulation_of(charge)
            found = step_of_each_batch(program) if _more_than_one(number) else None
            if number is None or found is None or charge.made is None:
                continue
            backward, step = found
            owner = in_code(charge.made, "accelerator")
            several = in_numbers(number)
            yield self.found(
                step.location,
                f"This steps after each batch, though `{owner}` has `gradient_accumulation_steps` and divides each "
                f"loss by {several}: nothing enters `{owner}.accumulate`, which holds the step back.",
                remedy=f"Put the forward, the backward and the step of each batch under `with {owner}.accumulate("
                "model):`.",
                because=[
                    ("the number is given here", charge.location),
                    ("the loss is divided here", backward.location),
                ],
                needs=more_than_one(number),
            )
            return

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            told = next((each for each in rank.accelerators if each.steps > 1), None)
            counts = [step.counts for step in rank.steps]
            entered = any(ENTERED & each.keys() for each in counts)
            place = rank.optimizers[0].place if rank.optimizers else None
            if told is None or entered or place is None or len(counts) < ENOUGH:
                continue
            # An accumulation of the program's own has more of them before each step.
            if all(each.get("backwards", 0) <= 1 for each in counts):
                yield self.found(
                    place,
                    f"The `Accelerator` was told that {told.steps} batches make a step and divides each loss by that, "
                    f"and each of {len(counts)} steps came after one backward: nothing entered `accumulate`.",
                    remedy="Put the forward, the backward and the step of each batch under `with "
                    "accelerator.accumulate(model):`.",
                    because=[("the number is given here", told.place)],
                )


def _more_than_one(number: Value | None) -> bool:
    given = number.in_python if number is not None else None
    return (isinstance(given, int) and given > 1) or (number is not None and number.config)
