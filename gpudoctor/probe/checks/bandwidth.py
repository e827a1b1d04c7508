"""How fast are collectives, and is that what the links of this machine can do?

algbw = S / t and busbw = algbw x f with nccl-tests' S and f (doc/PERFORMANCE.md there): S is the array of one rank for
all_reduce and broadcast, and the whole array for all_gather and reduce_scatter.
"""

from __future__ import annotations

from typing import Any

from gpudoctor.probe.checks.check import Examination, Seen, passed, skipped
from gpudoctor.probe.context import Context, Facts, NotHereError
from gpudoctor.probe.results import Bandwidth, Check

NAME = "bandwidth-sweep"
DTYPE = "float32"
_SMALLEST = 1 << 15
_WARM_UP, _TIMED = 5, 10


def factor(collective: str, ranks: int) -> float:
    """What algbw is multiplied by to give the bandwidth of a link; 0 for one rank, which moves nothing."""
    return {
        "all_reduce": 2 * (ranks - 1) / ranks,
        "all_gather": (ranks - 1) / ranks,
        "reduce_scatter": (ranks - 1) / ranks,
        "broadcast": 1.0 if ranks > 1 else 0.0,
    }[collective]


def message_sizes(largest: int) -> tuple[int, ...]:
    """32 KiB to `largest` bytes in steps of 8 times, with the 25 MiB of a bucket of DDP where it lies between."""
    sizes = [_SMALLEST]
    while sizes[-1] * 8 <= largest:
        sizes.append(sizes[-1] * 8)
    bucket = 25 << 20
    return tuple(sorted({*sizes, largest} | ({bucket} if bucket < largest else set())))


def work(ctx: Context) -> Facts:
    """Seconds of each collective at each size: the median of ten, which start together."""
    if ctx.size == 1:
        raise NotHereError("there is one rank only, and nothing to send")
    rows = []
    for size in message_sizes(ctx.plan.pace.largest_message):
        for collective in ("all_reduce", "all_gather", "reduce_scatter", "broadcast"):
            ctx.mark(f"{collective} of {size} bytes")
            run, whole = _prepared(ctx, collective, size)
            rows.append({"collective": collective, "bytes": whole, "seconds": _median_seconds(ctx, run)})
    return {"rows": rows}


def _prepared(ctx: Context, collective: str, size: int) -> tuple[Any, int]:
    """What to time, and S in bytes: a multiple of what all ranks can share evenly."""
    import torch
    import torch.distributed as dist

    each = max(1, size // 4 // ctx.size)
    whole = torch.zeros(each * ctx.size, dtype=torch.float32, device=ctx.device)
    part = torch.zeros(each, dtype=torch.float32, device=ctx.device)
    parts = list(whole.chunk(ctx.size))
    # The variants with one tensor are what sharded training uses; not every backend has them.
    single = ctx.plan.world.backend == "nccl"
    runs = {
        "all_reduce": lambda: dist.all_reduce(whole),
        "broadcast": lambda: dist.broadcast(whole, src=0),
        "all_gather": lambda: dist.all_gather_into_tensor(whole, part) if single else dist.all_gather(parts, part),
        "reduce_scatter": lambda: (
            dist.reduce_scatter_tensor(part, whole) if single else dist.reduce_scatter(part, parts)
        ),
    }
    return runs[collective], whole.numel() * 4


def _median_seconds(ctx: Context, run: Any) -> float:
    import torch.distributed as dist

    warm_up, timed = (_WARM_UP, _TIMED) if ctx.plan.world.meaningful else (1, 3)
    for _ in range(warm_up):
        run()
    seconds = []
    for _ in range(timed):
        dist.barrier()
        began = ctx.clock()
        run()
        seconds.append(ctx.clock() - began)
    return sorted(seconds)[len(seconds) // 2]


def rows(seen: Seen) -> tuple[Bandwidth, ...]:
    """The table of the report: seconds averaged over the ranks, as nccl-tests does."""
    found = []
    for index, row in enumerate(seen.ranks[0]["rows"]):
        seconds = sum(facts["rows"][index]["seconds"] for facts in seen.ranks.values()) / len(seen.ranks)
        algbw = row["bytes"] / seconds / 1e9
        found.append(
            Bandwidth(
                collective=row["collective"],
                dtype=DTYPE,
                bytes=row["bytes"],
                world_size=seen.world.size,
                seconds=seconds,
                algbw=algbw,
                busbw=algbw * factor(row["collective"], seen.world.size),
                backend=seen.world.backend,
                meaningful=seen.world.meaningful,
            )
        )
    return tuple(found)


def judge(seen: Seen) -> Check:
    """That the sweep ran; what it says of the links is judged with the topology, in `verdict.py`."""
    if not seen.world.meaningful:
        return skipped(NAME, f"{seen.world.backend} without a GPU for each rank: bandwidth says nothing about training")
    best = max((row.busbw for row in rows(seen) if row.collective == "all_reduce"), default=0.0)
    return passed(NAME, f"all_reduce reaches {best:.1f} GB/s on the bus", figure=best, unit="GB/s")


EXAMINATION = Examination(NAME, "how fast collectives are", work, judge, seconds=90.0)
