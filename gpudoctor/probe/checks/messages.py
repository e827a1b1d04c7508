"""Do messages from rank to rank arrive intact?

Random bytes travel once round the ring of ranks, and around the other way, by way of the CPU group where the backend
cannot send.
"""

from __future__ import annotations

from typing import Any

from gpudoctor.probe.checks.check import Examination, Seen, failed, passed, ranks_in_words
from gpudoctor.probe.context import Context, Facts, NotHereError
from gpudoctor.probe.results import Check

NAME = "messages"
BYTES = 1 << 20


def work(ctx: Context) -> Facts:
    """Send to the next rank and receive from the one before, then the other way."""
    import torch

    if ctx.size == 1:
        raise NotHereError("there is one rank only")
    # gloo can send tensors of the CPU only.
    device = ctx.device if ctx.plan.world.backend == "nccl" else torch.device("cpu")
    wrong = []
    for way in (1, -1):
        goal, origin = (ctx.rank + way) % ctx.size, (ctx.rank - way) % ctx.size
        ctx.mark(f"sending to rank {goal}")
        got = torch.empty(BYTES, dtype=torch.uint8, device=device)
        _exchange(ctx, _bytes(ctx.rank, goal).to(device), got, goal, origin)
        differ = int((got.cpu() != _bytes(origin, ctx.rank)).sum())
        if differ:
            wrong.append(f"{differ} of {BYTES} bytes from rank {origin}")
    return {"wrong": wrong}


def _exchange(ctx: Context, mine: Any, got: Any, goal: int, origin: int) -> None:
    import torch.distributed as dist

    operations = [dist.P2POp(dist.isend, mine, goal), dist.P2POp(dist.irecv, got, origin)]
    for request in dist.batch_isend_irecv(operations):
        request.wait()
    ctx.synchronize()


def _bytes(sender: int, receiver: int) -> Any:
    import torch

    generator = torch.Generator().manual_seed(sender * 1009 + receiver)
    return torch.randint(0, 256, (BYTES,), generator=generator, dtype=torch.uint8)


def judge(seen: Seen) -> Check:
    """Every byte must arrive."""
    bad = [rank for rank, facts in sorted(seen.ranks.items()) if facts["wrong"]]
    if bad:
        return failed(
            NAME,
            f"{ranks_in_words(bad)} received damaged messages: {seen.ranks[bad[0]]['wrong'][0]}",
            "try `NCCL_P2P_DISABLE=1 gpudoctor probe`: where that passes, switch ACS or the IOMMU off",
            figure=float(sum(len(seen.ranks[rank]["wrong"]) for rank in bad)),
            unit="damaged",
            expectation="0",
        )
    reason = f"{BYTES >> 20} MiB between neighbours arrive intact, both ways"
    return passed(NAME, reason, figure=0.0, unit="damaged", expectation="0")


EXAMINATION = Examination(NAME, "messages between ranks arrive intact", work, judge)
