"""Do copies from GPU to GPU arrive intact?

Broken peer-to-peer access (ACS or an IOMMU in the way) shows as copies that report success and hold something else.
"""

from __future__ import annotations

from itertools import permutations

from gpudoctor.probe.checks.check import Examination, Seen, failed, passed, skipped
from gpudoctor.probe.context import Context, Facts, NotHereError
from gpudoctor.probe.results import Check

NAME = "peer-copies"
ELEMENTS = 1 << 22


def work(ctx: Context) -> Facts:
    """The first rank of each node copies random bytes between all pairs of GPUs that it sees."""
    import torch

    if not ctx.plan.world.meaningful:
        raise NotHereError("there are fewer than two GPUs")
    count = torch.cuda.device_count()
    if ctx.local_rank != 0 or count < 2:
        return {"pairs": [], "gpus": count, "copied": ctx.local_rank == 0}
    pairs = []
    for a, b in permutations(range(count), 2):
        ctx.mark(f"a copy from cuda:{a} to cuda:{b}")
        origin = torch.randint(0, 1 << 30, (ELEMENTS,), device=f"cuda:{a}", dtype=torch.int32)
        arrived = origin.to(f"cuda:{b}")
        torch.cuda.synchronize(b)
        differ = int((arrived.cpu() != origin.cpu()).sum())
        pairs.append({"from": a, "to": b, "differ": differ, "peer": torch.cuda.can_device_access_peer(a, b)})
    return {"pairs": pairs, "gpus": count, "copied": True}


def judge(seen: Seen) -> Check:
    """Every copy must be intact; peer access itself is told by the inventory."""
    wrong = [
        f"cuda:{pair['from']} to cuda:{pair['to']} on {seen.world.nodes[rank]} ({pair['differ']} of {ELEMENTS} numbers)"
        for rank, facts in sorted(seen.ranks.items())
        for pair in facts["pairs"]
        if pair["differ"]
    ]
    pairs = [pair for facts in seen.ranks.values() for pair in facts["pairs"]]
    if wrong:
        return failed(
            NAME,
            f"copies between GPUs arrive damaged: {', '.join(wrong[:3])}",
            "switch ACS or the IOMMU off (BIOS, kernel option `iommu=off`), or train with NCCL_P2P_DISABLE=1",
            figure=float(len(wrong)),
            unit="pairs",
            expectation="0",
        )
    if not pairs:
        return skipped(NAME, "no process sees two GPUs")
    direct = sum(bool(pair["peer"]) for pair in pairs)
    reason = f"{len(pairs)} copies between GPUs are intact, {direct} of them have peer access"
    return passed(NAME, reason, figure=0.0, unit="pairs", expectation="0")


EXAMINATION = Examination(NAME, "copies between GPUs arrive intact", work, judge, seconds=60.0)
