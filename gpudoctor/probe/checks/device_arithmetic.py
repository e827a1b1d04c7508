"""Does every device compute what it should?

A product of matrices of small whole numbers is exact in single precision, so that one wrong bit shows. A GPU that
falls off the bus, has broken memory or an architecture that torch was not built for does not get past this.
"""

from __future__ import annotations

from gpudoctor.probe.checks.check import Examination, Seen, failed, passed, ranks_in_words
from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.results import Check

NAME = "device-arithmetic"
_SIDE = 256


def work(ctx: Context) -> Facts:
    """Multiply two matrices of whole numbers here and on the CPU, in 64 bit, and count what differs."""
    import torch

    generator = torch.Generator().manual_seed(ctx.rank)
    a, b = (torch.randint(-8, 9, (_SIDE, _SIDE), generator=generator) for _ in range(2))
    exact = a.double() @ b.double()
    ctx.mark(f"a matrix product on {ctx.device}")
    got = (a.float().to(ctx.device) @ b.float().to(ctx.device)).cpu().double()
    return {"device": str(ctx.device), "wrong": int((got != exact).sum()), "of": exact.numel()}


def judge(seen: Seen) -> Check:
    """Every element of every rank must be exact."""
    bad = [rank for rank, facts in sorted(seen.ranks.items()) if facts["wrong"]]
    if not bad:
        return passed(
            NAME, f"{_SIDE} x {_SIDE} products are exact on {len(seen.ranks)} ranks", figure=0.0, unit="wrong"
        )
    worst = max(seen.ranks[rank]["wrong"] for rank in bad)
    places = ", ".join(f"{seen.ranks[rank]['device']} on {seen.world.nodes[rank]}" for rank in bad)
    return failed(
        NAME,
        f"{ranks_in_words(bad)} computed a product of whole numbers wrongly ({places})",
        "leave this GPU out with CUDA_VISIBLE_DEVICES, and have its memory tested: `dcgmi diag -r 3`",
        figure=float(worst),
        unit="wrong",
        expectation="0",
        source="products of whole numbers below 2^24 are exact in float32",
    )


EXAMINATION = Examination(NAME, "each device computes a product that must be exact", work, judge)
