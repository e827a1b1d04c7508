"""DeepSpeed's engine accumulates gradients, and the program calls its `step` only once in as many batches.

## What goes wrong

`engine.step()` counts batches: it steps the optimizer, and clears the gradients, at every k-th call, where k is
`gradient_accumulation_steps` of the configuration. Called only at every k-th batch, it steps at every k²-th: the batch
is k times larger than meant, there are k times fewer steps, and the gradient is the sum of k means. That is so on every
rank (each process, one for each GPU), and no error is raised.

## Fix

Call `engine.step()` after each `engine.backward(loss)`. No automatic fix: it would move lines.

## Silent when

The configuration is not in the program, or says nothing of accumulation or one batch; it has
`managed_gradient_accumulation` (DeepSpeed 0.19 and later); `step` is called in each iteration.

## Sources

https://www.deepspeed.ai/getting-started/, https://deepspeed.readthedocs.io/en/latest/training.html#optimizer-step.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.training_step import Backward, EngineStep
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.asked_in_tests import rounds_between
from gpudoctor.lint.questions.loop_rounds import same_round
from gpudoctor.lint.questions.made_of import asked_of_engine
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.frameworks._charge import DEEPSPEED, in_numbers
from gpudoctor_rules.frameworks._engine import STEPS, made_at

MANAGED = "managed_gradient_accumulation"


class EngineStepEveryKth(Rule):
    code = "GPU910"
    severity = Severity.ERROR
    shows_when = ("ranks.engines.calls > 1",)
    needs = (EngineStep,)

    def in_code(self, program: Program) -> Findings:
        for step in program.events(EngineStep):
            for backward in program.events(Backward):
                number = _rounds(backward, step) if backward.managed == DEEPSPEED else None
                charge = made_at(program, step.engine)
                if number is None or charge is None or not _counts(number, charge):
                    continue
                yield self.found(
                    step.location,
                    f"`step()` of the engine is called after every {in_numbers(number)} batches, and itself waits "
                    f"for as many calls as `{STEPS}` says: the optimizer steps less often by that factor again.",
                    remedy="Call the engine's `step()` after each of its `backward(loss)`: the engine counts.",
                    because=[
                        ("the backward of each batch", backward.location),
                        ("the engine is made", charge.location),
                    ],
                )
                break

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            for each in rank.engines:
                # The batches that an epoch ends with may be fewer.
                rarely = each.counts and each.steps > 1 and each.backwards * 2 > each.calls * (each.steps + 1)
                if rarely and each.calls > 1 and each.place is not None:
                    yield self.found(
                        each.place,
                        f"The program called `step` of the engine {each.calls} times in {each.backwards} batches, and "
                        f"of {each.steps} calls the engine makes one step.",
                        remedy="Call `engine.step()` after each `engine.backward(loss)`.",
                    )


def _rounds(backward: Backward, step: EngineStep) -> Value | None:
    """In how many batches the step comes once: the n of `(i + 1) % n == 0`, which the backward does not ask."""
    if not same_round(backward, step) or backward.order > step.order:
        return None
    asked = step.condition.difference(backward.condition).depending_on(Divergence.BATCH_INDEX)
    return next((number for literal in asked for number in rounds_between(literal)), None)


def _counts(number: Value, charge: UseManaged) -> bool:
    """The engine surely accumulates, and the number is its own, or it is known to be more than one."""
    if charge.config is not None and MANAGED in charge.config.keywords:
        return False
    told = charge.entry(STEPS)
    if told is not None and told.is_constant:
        return isinstance(told.in_python, int) and told.in_python > 1
    return asked_of_engine(number, STEPS) or (told is not None and told == number)
