"""The batch sizes of a DeepSpeed configuration contradict each other.

## What goes wrong

DeepSpeed asks that `train_batch_size` be `train_micro_batch_size_per_gpu` times `gradient_accumulation_steps` times the
number of ranks (each process, one for each GPU) that have a copy of the model. Where it is no multiple of the first
two, there is no number of GPUs on which the program starts: every rank ends with `AssertionError: Check batch related
parameters. train_batch_size is not equal to micro_batch_per_gpu * gradient_acc_step * world_size`.

## Fix

Leave `train_batch_size` out: DeepSpeed computes it. Only you know which of the three is meant.

## Silent when

One of the numbers is `"auto"`, left out, or written neither in the program nor in a JSON file that it names; their
product divides the batch, so that some number of GPUs fits, and no launch file says how many processes there are, or
ranks may share a copy of the model, as the stages of a pipeline do.

## Sources

https://www.deepspeed.ai/docs/config-json/#batch-size-related-parameters, microsoft/DeepSpeed#6914.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.rank import SizeKind
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.rule import CrashText, Findings, Program, Rule
from gpudoctor_rules.frameworks._engine import STEPS, may_share_a_copy

BATCH, MICRO = "train_batch_size", "train_micro_batch_size_per_gpu"


class DeepspeedBatchArithmetic(Rule):
    code = "GPU911"
    severity = Severity.ERROR
    errors = (
        "AssertionError: Check batch related parameters. train_batch_size is not equal to micro_batch_per_gpu * "
        "gradient_acc_step * world_size",
    )
    shows_when = ("ranks.engines",)
    needs = (UseManaged,)
    crash = CrashText("Check batch related parameters", remedy="Leave `train_batch_size` out: DeepSpeed computes it.")

    def in_code(self, program: Program) -> Findings:
        for charge in program.events(UseManaged):
            numbers = _numbers(charge)
            if numbers is None or program.is_caught(charge, "AssertionError"):
                continue
            batch, micro, steps = numbers
            world = None if may_share_a_copy(charge) else program.sizes.get(SizeKind.WORLD)
            if batch == micro * steps * world if world is not None else batch % (micro * steps) == 0:
                continue
            made_of = f"{micro} samples times {steps} batches"
            what = (
                f"not {made_of} times {world} processes: "
                if world is not None
                else f"no multiple of {made_of}: on whichever number of GPUs, "
            )
            yield self.found(
                charge.location,
                f"`{BATCH}` is {batch}, which is {what}every rank ends with `AssertionError: Check batch related "
                "parameters`.",
                remedy=f"Leave `{BATCH}` out, which DeepSpeed computes, or make it {micro} x {steps} x the number of "
                "GPUs.",
            )


def _numbers(charge: UseManaged) -> tuple[int, int, int] | None:
    """The batch of all ranks, that of one, and how many of these make a step; None where one is not known."""
    found = [charge.configured(name) for name in (BATCH, MICRO, STEPS)]
    # Left out, it is computed of the other two.
    whole = [each for each in found if isinstance(each, int) and each > 0]
    return (whole[0], whole[1], whole[2]) if len(whole) == 3 else None
