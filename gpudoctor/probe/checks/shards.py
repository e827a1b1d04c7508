"""Do the shards of DistributedSampler cover the data without overlap, and change with the epoch?"""

from __future__ import annotations

from itertools import combinations

from gpudoctor.probe.checks.check import Examination, Seen, failed, passed
from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.results import Check

NAME = "shards"
SAMPLES = 1009
"""A prime: no number of ranks divides it, so padding must be right too."""


def work(ctx: Context) -> Facts:
    """The indices that this rank's loader gives out in two epochs, and in the first one again."""
    import torch
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    data = TensorDataset(torch.arange(SAMPLES))
    sampler = DistributedSampler(data, num_replicas=ctx.size, rank=ctx.rank, shuffle=True, seed=3)
    loader = DataLoader(data, batch_size=64, sampler=sampler)
    epochs = []
    for epoch in (0, 1, 0):
        sampler.set_epoch(epoch)
        epochs.append([int(index) for (indices,) in loader for index in indices])
    return {"epochs": epochs, "samples": SAMPLES}


def judge(seen: Seen) -> Check:
    """Everything is covered, only padding is seen twice, and `set_epoch` decides the order."""
    shards = [facts["epochs"] for _, facts in sorted(seen.ranks.items())]
    samples = seen.ranks[0]["samples"]
    padding = -samples % len(shards)
    wrong = _wrong(shards, samples, padding)
    if wrong:
        return failed(
            NAME,
            wrong,
            "ranks train on the wrong samples: update torch, and see that nothing replaces `DistributedSampler`",
            expectation=f"each of {samples} samples once, {padding} of them twice",
            source="the documentation of DistributedSampler",
        )
    reason = f"{len(shards)} shards cover {samples} samples, {padding} of them twice as padding, and follow the epoch"
    return passed(NAME, reason, figure=float(padding), unit="samples twice", expectation=f"<= {padding}")


def _wrong(shards: list[list[list[int]]], samples: int, padding: int) -> str:
    first = [set(epochs[0]) for epochs in shards]
    missing = samples - len(set().union(*first))
    if missing:
        return f"{missing} of {samples} samples belong to no rank's shard"
    for (a, one), (b, other) in combinations(enumerate(first), 2):
        if len(one & other) > padding:
            return f"ranks {a} and {b} share {len(one & other)} samples, where the padding allows {padding}"
    for rank, (zero, later, again) in enumerate(shards):
        if zero == later:
            return f"rank {rank} sees the same order in epochs 0 and 1, although set_epoch was called"
        if zero != again:
            return f"rank {rank} sees another order in epoch 0 when it comes a second time"
    return ""


EXAMINATION = Examination(NAME, "the shards cover the data, and change with the epoch", work, judge)
