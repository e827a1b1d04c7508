"""Gradients are added up over the ranks by hand, and nothing divides the sum.

## What goes wrong

`all_reduce` adds, unless it is told otherwise. The loss of each rank (each process, one for each GPU) is the mean over
its own batch, so that after `dist.all_reduce(p.grad)` the gradient is too large by a factor of the number of ranks;
`DistributedDataParallel` would have divided it. With SGD eight GPUs train with eight times the learning rate in the
program; Adam hides that, but not from a bound for clipping. A run on two GPUs is another training than one on eight. No
error is raised.

## Fix

`dist.all_reduce(p.grad, op=dist.ReduceOp.AVG)` with NCCL, or `p.grad /= dist.get_world_size()` after the sum, which
gloo needs; or leave it to `DistributedDataParallel`. No automatic fix, because a learning rate may have been tuned to
the sum.

## Silent when

Gradients, the loss or the learning rate are divided or multiplied by anything; the loss is not certainly a mean over
the batch of one rank, such as one that was divided by a count of all ranks; the operation is not known to be the sum; a
group of its own is given; the model is wrapped (GPU706); the gradients only get to the reduction on some paths.

## Sources

https://docs.pytorch.org/tutorials/intermediate/dist_tuto.html (`average_gradients`),
https://docs.pytorch.org/docs/stable/notes/ddp.html; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer, ScaleGradients
from gpudoctor.lint.questions.loop_rounds import within_round
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules.gradient._steps import averaging_wrapper


class GradientsNeverAveraged(Rule):
    code = "GPU714"
    severity = Severity.WARNING
    of_ranks = True
    needs = (Collective,)
    looks_at = ((Collective, "of_gradients"),)

    def in_code(self, program: Program) -> Findings:
        if not program.presence() or not program.absence() or _is_scaled(program):
            return
        for event in program.events(Collective):
            owner = _gradients_of(event)
            backward = _mean_behind(program, event, owner) if owner is not None else None
            if backward is None:
                continue
            place = event.location if _in_hook(event) else parting(event, backward)
            yield self.found(
                place,
                "The gradients of all ranks are added up here and never divided: they are too large by a factor of "
                "the number of ranks.",
                remedy="Divide them by `dist.get_world_size()` after the sum, or reduce with `op=dist.ReduceOp.AVG`.",
                because=[
                    ("each rank has the gradient of its own mean", backward.location),
                    ("this call adds them up", event.location),
                ],
            )


def _gradients_of(event: Collective) -> Value | None:
    """The model of which a sum of gradients is made; None for all other collectives."""
    if not event.effect.adds_up or event.operation != "SUM" or not event.of_all_ranks or event.rank_guards:
        return None
    owners = event.of_gradients
    return owners[0] if len(owners) == 1 else None


def _mean_behind(program: Program, event: Collective, owner: Value) -> Backward | None:
    """The backward that has left the mean of one rank there, where no other one has left anything else."""
    fed = [
        each
        for each in program.events(Backward)
        if _in_hook(event) or (each.order < event.order and within_round(event, each))
        if any(program.within(call.module.core) & program.within(owner) for call in program.calls_in_graph(each))
    ]
    surely = all(_is_own_mean(program, each) and not event.condition.excludes(each.condition) for each in fed)
    return fed[-1] if fed and surely else None


def _in_hook(event: Collective) -> bool:
    """It is followed where the hook is registered, and runs in each backward."""
    return "hook" in event.context.contexts


def _is_own_mean(program: Program, backward: Backward) -> bool:
    loss = backward.loss
    if not isinstance(loss, Tensor) or backward.managed or averaging_wrapper(program, backward) is not None:
        return False
    return loss.mean and loss.divided is None


def _is_scaled(program: Program) -> bool:
    """Something makes up for the sum, or may: the gradients are scaled, or the rate asks for the number of ranks."""
    scaled = any(not event.rank_guards for event in program.events(ScaleGradients))
    return scaled or any(event.rate_by_size for event in program.events(MakeOptimizer))
