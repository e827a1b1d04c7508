"""Are the gradients of DDP those of one process with the large batch?"""

from __future__ import annotations

from gpudoctor.probe.checks.check import Examination, Seen, errors_of, failed, passed, ranks_in_words
from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.results import Check
from gpudoctor.probe.workloads import reference

NAME = "gradients-match"


@reference.exact_arithmetic
def work(ctx: Context) -> Facts:
    """One backward pass of DDP on this rank's batch, and one of the bare model on the batches of all ranks."""
    import torch

    model = reference.wrapped(ctx, reference.network(seed=1))
    inputs, labels = reference.batch(ctx.rank, 0)
    ctx.mark("backward of DDP")
    reference.loss_of(model, inputs.to(ctx.device), labels.to(ctx.device)).backward()
    got = [each.grad for each in model.parameters()]

    alone = reference.network(seed=1).to(ctx.device)
    batches = [reference.batch(rank, 0) for rank in range(ctx.size)]
    inputs, labels = (torch.cat(parts).to(ctx.device) for parts in zip(*batches, strict=True))
    reference.loss_of(alone, inputs, labels).backward()
    expected = [each.grad for each in alone.parameters()]
    allowed = reference.tolerance(reference.LONGEST_SUM * ctx.size * reference.BATCH, torch.float32)
    return {"error": reference.farthest(got, expected), "allowed": allowed}


def judge(seen: Seen) -> Check:
    """The error of every rank must lie within what float32 allows; NaN never does."""
    bad, rest = errors_of(seen.ranks, "16 eps sqrt(n) of float32, n the terms of the longest sum")
    if bad:
        return failed(
            NAME,
            f"on {ranks_in_words(bad)} the gradients of DDP are not those of one process with the whole batch",
            "the averaging of gradients is broken: see the check `collectives`, and do not train here until it passes",
            **rest,
        )
    return passed(
        NAME, f"DDP on {len(seen.ranks)} ranks gives the gradients of one process with the whole batch", **rest
    )


EXAMINATION = Examination(NAME, "the gradients of DDP are those of the large batch", work, judge)
