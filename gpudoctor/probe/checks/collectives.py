"""Do collectives return the right values?

Every rank contributes whole numbers that are small enough for sums to be exact in each dtype, so the expected result
is known without a tolerance. Sizes are one element, an odd number of them, and more than one buffer of the transport.
"""

from __future__ import annotations

from typing import Any

from gpudoctor.probe.checks.check import Examination, Seen, failed, passed, ranks_in_words
from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.results import Check

NAME = "collectives"
SIZES = (1, 1023, (1 << 18) + 3)
DTYPES = ("float32", "float64", "float16", "bfloat16", "int32", "int64")
EXACT_BITS = {"float16": 11, "bfloat16": 8}
"""Whole numbers up to 2^bits are exact; the other dtypes go far enough."""


def work(ctx: Context) -> Facts:
    """Run four collectives for each dtype and size, and list what came out wrong."""
    import torch

    wrong: list[str] = []
    lacking: list[str] = []
    done = 0
    for name in DTYPES:
        dtype = getattr(torch, name)
        for size in SIZES:
            for collective, run in _COLLECTIVES.items():
                case = f"{collective} of {size} {name}"
                ctx.mark(case)
                try:
                    got, expected = run(ctx, dtype, size)
                except (RuntimeError, ValueError, TypeError) as error:
                    # Backends lack some dtypes. All ranks see the same, since the call is refused before it is sent.
                    if not _refused(error):
                        raise
                    lacking.append(f"{collective} of {name}")
                    continue
                done += 1
                if not torch.equal(got.cpu(), expected):
                    wrong.append(f"{case}: {_difference(got.cpu(), expected)}")
    return {"done": done, "wrong": wrong, "lacking": sorted(set(lacking))}


def _refused(error: Exception) -> bool:
    text = str(error).lower()
    return any(
        word in text
        for word in ("invalid scalar type", "unsupported", "not supported", "unhandled", "invalid data type")
    )


def _values(rank: int, size: int, dtype: Any, ranks: int) -> Any:
    """What `rank` contributes: whole numbers of which `ranks` still add up exactly."""
    import torch

    bits = EXACT_BITS.get(str(dtype).rpartition(".")[2], 20)
    span = max(2, (1 << bits) // ranks)
    return ((torch.arange(size, dtype=torch.int64) * 7 + rank * 13 + 1) % span).to(dtype)


def _all_reduce(ctx: Context, dtype: Any, size: int) -> tuple[Any, Any]:
    import torch.distributed as dist

    mine = _values(ctx.rank, size, dtype, ctx.size).to(ctx.device)
    dist.all_reduce(mine)
    return mine, sum(_values(rank, size, dtype, ctx.size) for rank in range(ctx.size))


def _broadcast(ctx: Context, dtype: Any, size: int) -> tuple[Any, Any]:
    import torch.distributed as dist

    root = ctx.size - 1
    mine = _values(ctx.rank, size, dtype, ctx.size).to(ctx.device)
    dist.broadcast(mine, src=root)
    return mine, _values(root, size, dtype, ctx.size)


def _all_gather(ctx: Context, dtype: Any, size: int) -> tuple[Any, Any]:
    import torch
    import torch.distributed as dist

    mine = _values(ctx.rank, size, dtype, ctx.size).to(ctx.device)
    parts = [torch.empty_like(mine) for _ in range(ctx.size)]
    dist.all_gather(parts, mine)
    return torch.cat(parts), torch.cat([_values(rank, size, dtype, ctx.size) for rank in range(ctx.size)])


def _reduce_scatter(ctx: Context, dtype: Any, size: int) -> tuple[Any, Any]:
    import torch
    import torch.distributed as dist

    mine = _values(ctx.rank, size * ctx.size, dtype, ctx.size).to(ctx.device)
    part = torch.empty(size, dtype=dtype, device=ctx.device)
    dist.reduce_scatter(part, list(mine.chunk(ctx.size)))
    whole: Any = sum(_values(rank, size * ctx.size, dtype, ctx.size) for rank in range(ctx.size))
    return part, whole.chunk(ctx.size)[ctx.rank]


_COLLECTIVES = {
    "all_reduce": _all_reduce,
    "broadcast": _broadcast,
    "all_gather": _all_gather,
    "reduce_scatter": _reduce_scatter,
}


def _difference(got: Any, expected: Any) -> str:
    if got.shape != expected.shape:
        return f"shape {tuple(got.shape)} instead of {tuple(expected.shape)}"
    where = (got != expected).nonzero()
    first = tuple(where[0].tolist())
    return f"{len(where)} of {got.numel()} wrong, the first is {got[first].item()} instead of {expected[first].item()}"


def judge(seen: Seen) -> Check:
    """No case may be wrong on any rank, and some must have run."""
    bad = [rank for rank, facts in sorted(seen.ranks.items()) if facts["wrong"]]
    done = min(facts["done"] for facts in seen.ranks.values())
    without = sorted({each for facts in seen.ranks.values() for each in facts["lacking"]})
    if bad:
        cases = sum(len(seen.ranks[rank]["wrong"]) for rank in bad)
        return failed(
            NAME,
            f"{ranks_in_words(bad)} received wrong values: {seen.ranks[bad[0]]['wrong'][0]}",
            _remedy(seen),
            figure=float(cases),
            unit="wrong",
            expectation="0",
            source="sums of whole numbers that the dtype holds exactly",
        )
    if not done:
        return failed(NAME, "no collective ran", "update torch", figure=0.0, unit="cases", expectation="> 0")
    note = f"; {seen.world.backend} has no {', no '.join(without)}" if without else ""
    return passed(NAME, f"{done} cases are exact on every rank{note}", figure=0.0, unit="wrong", expectation="0")


def _remedy(seen: Seen) -> str:
    if seen.world.backend == "nccl":
        return (
            "try `NCCL_P2P_DISABLE=1 gpudoctor probe`: where that passes, copies between GPUs are broken (ACS, IOMMU)"
        )
    return "run it again; where it stays, suspect memory or the network between the nodes"


EXAMINATION = Examination(NAME, "collectives return the right values", work, judge, seconds=60.0)
