"""The loop enters `accumulate`, and the `Accelerator` was never told how many batches make a step.

## What goes wrong

`with accelerator.accumulate(model):` holds the step back for as many batches as the `Accelerator` was made for, and
without `gradient_accumulation_steps` that is one. The option of that name changes nothing then, or only what else is
computed from it, such as the length of the schedule: every rank (each process, one for each GPU) steps after each
batch, with a batch that is as many times smaller than asked for. No error is raised. Where DeepSpeed trains, its own
configuration counts, and where it says something else Accelerate warns of a `Gradient accumulation steps mismatch`.

## Fix

Pass it: `Accelerator(gradient_accumulation_steps=args.gradient_accumulation_steps)`. Unsafe: the program trains
with the larger batch from then on. The configuration of DeepSpeed takes `"gradient_accumulation_steps": "auto"`.

## Silent when

The program has no option `gradient_accumulation_steps` and no settings file with that number, nor one whose name says
as much, as `--grad-accum`; of the latter it steps by a test of its own; the `Accelerator` is given that number or a
`gradient_accumulation_plugin`, or other arguments that could not be followed; `accumulate` is not entered; the
configuration of DeepSpeed is not known.

## Sources

https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation, huggingface/diffusers#308.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.process import ArgumentDeclared
from gpudoctor.lint.events.training_step import GradientSync
from gpudoctor.lint.questions.names import in_code
from gpudoctor.lint.repair.repair import Holds, Repair, SetArgument
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.frameworks._charge import ACCELERATE
from gpudoctor_rules.frameworks._engine import STEPS
from gpudoctor_rules.frameworks._learning import step_of_each_batch


class AccumulationStepsNotGiven(Rule):
    code = "GPU904"
    severity = Severity.WARNING
    fix_safety = Safety.UNSAFE
    needs = (UseManaged,)

    def in_code(self, program: Program) -> Findings:
        yield from self._of_plugin(program)
        yield from self._of_option(program)

    def _of_plugin(self, program: Program) -> Findings:
        """What DeepSpeed is configured for counts."""
        for charge in program.events(UseManaged):
            told, configured = charge.told(STEPS), charge.configured(STEPS)
            if charge.framework != ACCELERATE or not isinstance(told, int) or not isinstance(configured, int):
                continue
            # What a launch hands over is told there, in its file.
            if told != configured and not charge.config_launched:
                yield self.found(
                    charge.location,
                    f"The `Accelerator` is told to accumulate over {told} batches, and DeepSpeed's configuration says "
                    f"{configured}: that is what counts, and a warning is all that tells.",
                    remedy=f'Write `"{STEPS}": "auto"` in the configuration of DeepSpeed.',
                )

    def _of_option(self, program: Program) -> Findings:
        declared = [each for each in program.events(ArgumentDeclared) if each.is_accumulation]
        # One with the name of the argument is meant for it.
        option = next((each for each in declared if each.name == STEPS), next(iter(declared), None))
        # Whoever steps by a test of his own accumulates by himself.
        if option is None or (option.name != STEPS and step_of_each_batch(program) is None):
            return
        for charge in program.events(UseManaged):
            entered = next((each for each in program.events(GradientSync) if each.target == charge.made), None)
            if charge.framework != ACCELERATE or charge.made is None or entered is None or _is_told(charge):
                continue
            if entered.call != "accumulate":
                continue
            flag = next(iter(option.flags), option.name)
            chosen = f"args.{option.name}" if option.flags else "..."
            yield self.found(
                charge.location,
                f"`{in_code(charge.made, 'accelerator')}` is not told `{STEPS}`: `accumulate` holds nothing back, and "
                f"every batch makes a step, whatever the option `{flag}` says.",
                remedy=f"Pass the option: `Accelerator({STEPS}={chosen})`.",
                because=[
                    ("the option is declared" if option.flags else "the settings are read", option.location),
                    ("`accumulate` is entered", entered.location),
                ],
                doubt="" if option.name == STEPS else "Only its name says what the option means.",
                repair=Repair(f"Pass `{STEPS}`", (SetArgument(charge.location, STEPS, (Holds(option.chosen),)),)),
            )
            return

    def in_run(self, recording: Recording) -> Findings:
        # What the option was meant for, only the program tells.
        if self.code not in recording.suspected:
            return
        for rank in recording.ranks[:1]:
            told = next(iter(rank.accelerators), None)
            entered = sum(step.counts.get("accumulated", 0) for step in rank.steps)
            held = sum(step.counts.get("held back", 0) for step in rank.steps)
            if told is not None and told.place is not None and told.steps == 1 and entered and not held:
                yield self.found(
                    told.place,
                    f"`accumulate` was entered {entered} times and held no step back: the `Accelerator` was made for "
                    "one batch a step.",
                    remedy=f"Pass the option: `Accelerator({STEPS}=args.{STEPS})`.",
                )

    def could_show(self, recording: Recording) -> bool:
        return any("accumulated" in step.counts for rank in recording.ranks for step in rank.steps)


def _is_told(charge: UseManaged) -> bool:
    return charge.setting(STEPS) is not None or "accumulating" in charge.otherwise or charge.given.open_ended
