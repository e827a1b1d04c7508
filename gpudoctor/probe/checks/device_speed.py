"""How fast is every GPU alone? The ceiling that a training step is held against, and whether all GPUs are alike."""

from __future__ import annotations

from gpudoctor.probe.checks.check import Examination, Seen, passed
from gpudoctor.probe.context import Context, Facts, NotHereError
from gpudoctor.probe.results import Check, Verdict

NAME = "devices-alike"
ALIKE = 1.14
"""Equal GPUs differ by so much in matrix products without being defective."""
_SIDE, _TIMED = 4096, 10


def work(ctx: Context) -> Facts:
    """TFLOP/s of a large matrix product in each dtype, the best of some, on this rank's GPU."""
    import torch

    if ctx.device.type != "cuda":
        raise NotHereError("there is no GPU, and ranks on the cores of one CPU cannot be compared")
    if ctx.plan.world.shared and ctx.rank:
        # The first rank has it to itself meanwhile.
        return {"tflops": {}}
    dtypes = ["float32", *(["bfloat16"] if ctx.has_bfloat16 else [])]
    return {"tflops": {name: _tflops(ctx, getattr(torch, name)) for name in dtypes}}


def _tflops(ctx: Context, dtype: object) -> float:
    import torch

    ctx.mark(f"matrix products in {dtype}")
    a, b = (torch.randn(_SIDE, _SIDE, device=ctx.device, dtype=dtype) for _ in range(2))
    for _ in range(3):
        a @ b
    best = float("inf")
    for _ in range(_TIMED):
        began = ctx.clock()
        a @ b
        best = min(best, ctx.clock() - began)
    return 2 * _SIDE**3 / best / 1e12


def judge(seen: Seen) -> Check:
    """The fastest must not be faster than the slowest by more than equal GPUs are: DDP waits for the slowest."""
    rates = {rank: facts["tflops"]["float32"] for rank, facts in sorted(seen.ranks.items()) if facts["tflops"]}
    slowest, fastest = min(rates, key=rates.__getitem__), max(rates, key=rates.__getitem__)
    ratio = rates[fastest] / rates[slowest]
    if len(rates) == 1:
        return passed(NAME, f"one GPU, which computes at {rates[slowest]:.1f} TFLOP/s", figure=1.0)
    rest = {
        "figure": round(ratio, 3),
        "unit": "fastest / slowest",
        "expectation": f"<= {ALIKE}",
        "source": "equal GPUs differ by up to 14 % in matrix products (PRISM, arXiv 2510.15596)",
    }
    if ratio <= ALIKE:
        return passed(
            NAME, f"{len(rates)} GPUs compute at {rates[slowest]:.1f} to {rates[fastest]:.1f} TFLOP/s", **rest
        )
    return Check(
        NAME,
        Verdict.WARN,
        reason=f"rank {slowest} on {seen.world.nodes[slowest]} reaches {rates[slowest]:.1f} TFLOP/s, rank {fastest} "
        f"{rates[fastest]:.1f}",
        remedy="`nvidia-smi -q -d PERFORMANCE` tells why it is slow; CUDA_VISIBLE_DEVICES leaves it out",
        **rest,
    )


EXAMINATION = Examination(NAME, "how fast every device is alone", work, judge, seconds=60.0)
