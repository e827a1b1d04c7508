"""Does every GPU stay as fast as it is at first, when all of them work for a minute? Only under `--thorough`.

Cooling and power show under load that lasts: what is measured in tenths of a second is over before a GPU is warm.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

from gpudoctor.probe.checks.check import Examination, Seen, passed
from gpudoctor.probe.context import Context, Facts, NotHereError
from gpudoctor.probe.results import Check, Verdict

NAME = "soak"
SECONDS = 60.0
KEPT = 0.9
"""Of its first speed: clocks fall by some percent while a healthy GPU becomes warm."""
_SIDE, _A_BLOCK, _EDGE = 8192, 8, 5


def work(ctx: Context) -> Facts:
    """TFLOP/s of large products, block after block, on all GPUs at once."""
    import torch

    if ctx.device.type != "cuda":
        raise NotHereError("there is no GPU")
    if ctx.plan.world.shared and ctx.rank:
        return {"tflops": []}
    dtype = torch.bfloat16 if ctx.has_bfloat16 else torch.float32
    a, b = (torch.randn(_SIDE, _SIDE, device=ctx.device, dtype=dtype) for _ in range(2))
    a @ b
    rates: list[float] = []
    ctx.mark(f"products for {SECONDS:.0f} s")
    until = time.monotonic() + SECONDS
    while time.monotonic() < until or len(rates) < 2 * _EDGE:
        began = ctx.clock()
        for _ in range(_A_BLOCK):
            a @ b
        rates.append(_A_BLOCK * 2 * _SIDE**3 / (ctx.clock() - began) / 1e12)
    return {"tflops": [round(rate, 2) for rate in rates]}


def judge(seen: Seen) -> Check:
    """The median of the last blocks against that of the first, of the GPU that has lost most."""
    kept = {rank: _kept(facts["tflops"]) for rank, facts in sorted(seen.ranks.items()) if facts["tflops"]}
    worst = min(kept, key=kept.__getitem__)
    figure = kept[worst]
    rest: dict[str, Any] = {
        "figure": round(figure, 3),
        "unit": "of the first speed",
        "expectation": f">= {KEPT:.0%}",
        "source": "a GPU that is cooled well keeps its clock but for some percent; the limit is ours",
    }
    if figure >= KEPT:
        return passed(NAME, f"after {SECONDS:.0f} s of work every GPU reaches {figure:.0%} of its first speed", **rest)
    return Check(
        NAME,
        Verdict.WARN,
        reason=f"rank {worst} on {seen.world.nodes[worst]} reaches {figure:.0%} of its first speed after "
        f"{SECONDS:.0f} s",
        remedy="look after cooling and power: `nvidia-smi -q -d PERFORMANCE,TEMPERATURE,POWER` while it works",
        **rest,
    )


def _kept(rates: list[float]) -> float:
    return statistics.median(rates[-_EDGE:]) / statistics.median(rates[:_EDGE])


EXAMINATION = Examination(NAME, "a minute of work on all GPUs", work, judge, seconds=4 * SECONDS, thorough=True)
