"""Gradients are summed over several batches, and sent to all ranks after each of them.

## What goes wrong

`DistributedDataParallel` averages the gradients over all ranks (the processes, one for each GPU) in each
`backward()`. A loop that steps only every few batches needs that once for each step; here all the other transfers are
made for nothing. The result is right, but the network carries several times the traffic, and with slow links
accumulation gains nothing.

## Fix

Run all batches of a step but the last under `with model.no_sync():`, the forward too: without it `no_sync` has no
effect. With Accelerate, `with accelerator.accumulate(model):` around the step does it; Fabric has
`fabric.no_backward_sync(model)`. No automatic fix.

## Silent when

Some optimizer of the model steps after each backward, or its gradients are cleared before the next; the step is left
out only where the loop ends; the program controls the reduction itself anywhere (`no_sync`, `accumulate`,
`require_backward_grad_sync`); the model is sharded, where `no_sync` costs memory; the loop passes the model to code
that could not be read; an engine such as DeepSpeed does the step, or Accelerate where batches add up
only with its DeepSpeed plugin.

## Sources

https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html,
pytorch/pytorch#43201.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.training_step import Backward, GradientSync, OptimizerStep
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.asked_in_tests import asks_for_deepspeed
from gpudoctor.lint.questions.loop_rounds import same_round
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.snippets import own
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.gradient._rounds import adds_up, beside_forward, is_step, left_out_by, steps_less_often
from gpudoctor_rules.gradient._steps import averaging_wrapper


class SyncOnEveryMicrobatch(Rule):
    code = "GPU701"
    severity = Severity.PERF
    shows_when = ("distributed", "trained")
    of_ranks = True
    needs = (Backward,)

    def in_code(self, program: Program) -> Findings:
        told: set[Location] = set()
        for backward in program.events(Backward):
            if backward.location in told or not _reduces(program, backward):
                continue
            step = next((each for each in program.events(OptimizerStep) if _sums_for(program, backward, each)), None)
            if step is not None:
                told.add(backward.location)
                yield self._finding(program, backward, step)

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            steps = [step for step in rank.steps if step.counts.get("backwards", 0) > 1]
            synced = [step for step in steps if step.counts.get("synced backwards") == step.counts["backwards"]]
            wrapped = [each for each in rank.optimizers if each.held]
            if len(synced) < _ENOUGH or len(synced) < len(rank.steps) - 1 or not wrapped or not recording.distributed:
                continue
            if (at := wrapped[0].backward) is not None:
                yield self.found(
                    at,
                    "Gradients were averaged over the ranks in each of "
                    f"{synced[-1].counts['backwards']} backwards of a step, where once is enough.",
                    remedy="Run all but the last backward of a step, and their forwards, under `with "
                    "model.no_sync():`.",
                )

    def _finding(self, program: Program, backward: Backward, step: OptimizerStep) -> Finding:
        wrapper = averaging_wrapper(program, backward)
        # What a framework has wrapped is in its hands, whoever calls `backward`.
        if wrapper is None or backward.managed or _handed_over(program, wrapper):
            remedy = own(program, "accumulates_by")
        # The wrapper of apex, which alone rearranges nothing, has two methods where torch's has one.
        elif not wrapper.rearranges:
            remedy = f"Call `{wrapper.label}.disable_allreduce()` before the first batch of a step, and "
            remedy += f"`{wrapper.label}.enable_allreduce()` before its last one."
        else:
            remedy = f"Run all batches of a step but the last, forward and backward, under `{wrapper.label}.no_sync()`."
        return self.found(
            beside_forward(program, backward),
            "Each of these backwards averages the gradients over all ranks, though "
            f"{name_of(step.optimizer, 'the optimizer')} steps only after several of them.",
            remedy=remedy,
            because=[
                ("the backward is here", backward.location),
                ("the optimizer steps here", step.location),
                ("the model is wrapped here", wrapper.place if wrapper is not None else None),
            ],
            needs=left_out_by(backward, step),
        )


def _reduces(program: Program, backward: Backward) -> bool:
    """Its gradients are sent to the other ranks, and nothing in the program says when that happens."""
    wrapper = averaging_wrapper(program, backward)
    # DeepSpeed sends gradients where its engine steps, whoever goes backward.
    if backward.managed == "deepspeed" or (wrapper is None and backward.managed != "accelerate"):
        return False
    return not any(
        wrapper is None or not isinstance(event.target, Wrapper) or event.target.core == wrapper.core
        for event in program.events(GradientSync)
    )


def _sums_for(program: Program, backward: Backward, step: OptimizerStep) -> bool:
    return (
        is_step(program, step)
        and steps_less_often(program, backward, step)
        and adds_up(program, backward, step, averaging_wrapper(program, backward))
        and not _left_to_engine(backward, step)
    )


def _left_to_engine(backward: Backward, step: OptimizerStep) -> bool:
    """Rounds go by without the step only where Accelerate trains by DeepSpeed, whose engine counts the batches itself
    and sends the gradients when it has enough."""
    counted = step.condition.difference(backward.condition).depending_on(Divergence.BATCH_INDEX)
    # Of `due and enabled` both parts are there as well, and each leaves rounds out by itself.
    single = [each for each in counted if not (each.atom.every if each.holds else each.atom.none)]
    left_out = [backward.condition.conjoined_with(each.negated()) for each in single if same_round(backward, step)]
    return all(any(map(asks_for_deepspeed, when)) for when in left_out or [backward.condition])


def _handed_over(program: Program, wrapper: Wrapper) -> bool:
    """The program has not wrapped it by itself."""
    return any(wrap.wrapper == wrapper and wrap.handed_to is not None for wrap in program.events(Wrap))


_ENOUGH = 2
"""Steps that must have been seen."""
