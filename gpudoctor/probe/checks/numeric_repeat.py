"""Does a device give the same result for the same numbers, again and again? Only under `--thorough`.

A product is repeated in the type that trainings use, bit by bit: a unit that is right mostly shows here, where one
product that is right shows nothing. Known as silent data corruption, and what node checks of large sites look for.
"""

from __future__ import annotations

from gpudoctor.probe.checks.check import Examination, Seen, failed, passed, ranks_in_words
from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.results import Check

NAME = "numeric-repeat"
REPEATS = 300
_SIDE, _SIDE_ON_CPU = 2048, 64


def work(ctx: Context) -> Facts:
    """Multiply the same matrices in each type, and count the products that differ from the first one."""
    import torch

    side = _SIDE if ctx.device.type == "cuda" else _SIDE_ON_CPU
    names = ["float32", *(["bfloat16"] if ctx.has_bfloat16 else [])]
    differ = {}
    for name in names:
        ctx.mark(f"{REPEATS} products in {name}")
        generator = torch.Generator().manual_seed(ctx.rank)
        a, b = (torch.randn(side, side, generator=generator).to(ctx.device, getattr(torch, name)) for _ in range(2))
        first = a @ b
        # Summed up on the device: to ask after each product would let it rest.
        wrong = torch.zeros((), dtype=torch.int64, device=ctx.device)
        for _ in range(REPEATS):
            wrong += (a @ b != first).any()
        differ[name] = int(wrong)
    return {"device": str(ctx.device), "differ": differ}


def judge(seen: Seen) -> Check:
    """No product of any rank may differ."""
    bad = [rank for rank, facts in sorted(seen.ranks.items()) if any(facts["differ"].values())]
    rest = {
        "figure": float(sum(sum(facts["differ"].values()) for facts in seen.ranks.values())),
        "unit": "products that differ",
        "expectation": "0",
        "source": "one kernel on one device gives one result for the same numbers",
    }
    if not bad:
        return passed(NAME, f"{REPEATS} products of the same numbers are the same on {len(seen.ranks)} ranks", **rest)
    places = ", ".join(f"{seen.ranks[rank]['device']} on {seen.world.nodes[rank]}" for rank in bad)
    return failed(
        NAME,
        f"{ranks_in_words(bad)} computed one product of the same numbers in several ways ({places})",
        "leave this GPU out with CUDA_VISIBLE_DEVICES, and have it tested: `dcgmi diag -r 3`",
        **rest,
    )


EXAMINATION = Examination(NAME, "the same products, again and again", work, judge, seconds=120.0, thorough=True)
