"""Does a model train that has one half on the CPU and the other on the GPU?"""

from __future__ import annotations

from gpudoctor.probe.checks.check import Examination, Seen, errors_of, failed, passed, ranks_in_words
from gpudoctor.probe.context import Context, Facts, NotHereError
from gpudoctor.probe.results import Check
from gpudoctor.probe.workloads import reference

NAME = "cpu-gpu-split"


@reference.exact_arithmetic
def work(ctx: Context) -> Facts:
    """First layer on the CPU, the rest on this rank's GPU, the activation moved between; against all on the CPU."""
    import torch

    if ctx.device.type != "cuda":
        raise NotHereError("there is no GPU")
    inputs, labels = reference.batch(ctx.rank, 0)
    model = reference.network(seed=5)
    first, rest = model[0], model[1:].to(ctx.device)
    ctx.mark("forward and backward over both devices")
    reference.loss_of(lambda x: rest(first(x).to(ctx.device)), inputs, labels.to(ctx.device)).backward()
    got = [each.grad.cpu() for each in model.parameters()]

    alone = reference.network(seed=5)
    reference.loss_of(alone, inputs, labels).backward()
    error = reference.farthest(got, [each.grad for each in alone.parameters()])
    # The CPU and the GPU sum in other orders, each with its own rounding, layer after layer.
    return {"error": error, "allowed": 2 * reference.tolerance(reference.LONGEST_SUM * reference.BATCH, torch.float32)}


def judge(seen: Seen) -> Check:
    """Within what float32 allows on two devices."""
    bad, rest = errors_of(seen.ranks, "32 eps sqrt(n) of float32, n the terms of the longest sum")
    if bad:
        return failed(
            NAME,
            f"on {ranks_in_words(bad)} a model that is split between CPU and GPU has other gradients than on the CPU",
            "have the GPU and its slot tested: `dcgmi diag -r 3`",
            **rest,
        )
    return passed(NAME, "a model that is split between CPU and GPU trains as on the CPU alone", **rest)


EXAMINATION = Examination(NAME, "a model split between CPU and GPU trains", work, judge)
