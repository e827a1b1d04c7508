"""Does SyncBatchNorm compute the statistics of the batches of all ranks together?"""

from __future__ import annotations

from typing import Any

from gpudoctor.probe.checks.check import Examination, Seen, errors_of, failed, passed, ranks_in_words
from gpudoctor.probe.context import Context, Facts, NotHereError
from gpudoctor.probe.results import Check
from gpudoctor.probe.workloads import reference

NAME = "sync-batchnorm"
_CHANNELS, _SAMPLES, _SIDE = 8, 4, 6


@reference.exact_arithmetic
def work(ctx: Context) -> Facts:
    """One forward pass on this rank's batch, against BatchNorm on the batches of all ranks."""
    import torch
    from torch import nn

    if ctx.device.type != "cuda":
        raise NotHereError("SyncBatchNorm works on GPUs only")
    batches = [_batch(rank) for rank in range(ctx.size)]
    layer = nn.SyncBatchNorm(_CHANNELS).to(ctx.device)
    ctx.mark("forward of SyncBatchNorm")
    output = layer(batches[ctx.rank].to(ctx.device))

    alone = nn.BatchNorm2d(_CHANNELS).to(ctx.device)
    expected = alone(torch.cat(batches).to(ctx.device))[ctx.rank * _SAMPLES : (ctx.rank + 1) * _SAMPLES]
    got = [output, layer.running_mean, layer.running_var]
    error = reference.farthest(got, [expected, alone.running_mean, alone.running_var])
    return {"error": error, "allowed": reference.tolerance(_SAMPLES * _SIDE * _SIDE * ctx.size, torch.float32)}


def _batch(rank: int) -> Any:
    """Each rank has another mean and another variance: local statistics would be far off."""
    import torch

    generator = torch.Generator().manual_seed(rank)
    return torch.randn(_SAMPLES, _CHANNELS, _SIDE, _SIDE, generator=generator) * (1 + rank) + rank


def judge(seen: Seen) -> Check:
    """Output and running statistics of every rank within what float32 allows; NaN never is."""
    bad, rest = errors_of(seen.ranks, "16 eps sqrt(n) of float32, n the samples behind one mean")
    if bad:
        return failed(
            NAME,
            f"on {ranks_in_words(bad)} SyncBatchNorm differs from BatchNorm on the whole batch",
            "do not rely on SyncBatchNorm here: see the check `collectives`, and update torch",
            **rest,
        )
    return passed(NAME, f"statistics of {len(seen.ranks)} ranks are those of the whole batch", **rest)


EXAMINATION = Examination(NAME, "SyncBatchNorm has the statistics of all ranks", work, judge)
