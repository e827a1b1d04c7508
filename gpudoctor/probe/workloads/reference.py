"""A small network and batches for the checks of correctness: quick, and with every kind of layer that DDP reduces."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.measure import worst

FEATURES, CLASSES, BATCH = 64, 10, 8
LONGEST_SUM = 128
"""Terms of the longest sum in one of its products: the width of the hidden layer."""


def network(seed: int = 0) -> Any:
    """The network on the CPU; the same parameters for the same seed, on each rank."""
    import torch
    from torch import nn

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return nn.Sequential(nn.Linear(FEATURES, LONGEST_SUM), nn.Tanh(), nn.Linear(LONGEST_SUM, CLASSES))


def batch(rank: int, step: int, samples: int = BATCH) -> tuple[Any, Any]:
    """Inputs (samples, FEATURES) and labels (samples,) that this rank trains on in this step, on the CPU."""
    import torch

    generator = torch.Generator().manual_seed(1_000_003 * step + rank)
    inputs = torch.randn(samples, FEATURES, generator=generator)
    return inputs, torch.randint(0, CLASSES, (samples,), generator=generator)


def loss_of(model: Any, inputs: Any, labels: Any) -> Any:
    """The mean loss of a batch."""
    from torch.nn.functional import cross_entropy

    return cross_entropy(model(inputs), labels)


def wrapped(ctx: Context, model: Any) -> Any:
    """The model in DistributedDataParallel, on the device of this rank."""
    from torch.nn.parallel import DistributedDataParallel

    ids = [ctx.device.index] if ctx.device.type == "cuda" else None
    return DistributedDataParallel(model.to(ctx.device), device_ids=ids)


def exact_arithmetic(work: Callable[[Context], Facts]) -> Callable[[Context], Facts]:
    """Do some work in single precision without TF32, which has 10 bits of mantissa only, and with the same kernels."""

    @functools.wraps(work)
    def exactly(ctx: Context) -> Facts:
        import torch

        cudnn, matmul = torch.backends.cudnn, torch.backends.cuda.matmul
        before = cudnn.allow_tf32, cudnn.deterministic, matmul.allow_tf32
        cudnn.allow_tf32, cudnn.deterministic, matmul.allow_tf32 = False, True, False
        try:
            return work(ctx)
        finally:
            # What is timed later is timed with what users get.
            cudnn.allow_tf32, cudnn.deterministic, matmul.allow_tf32 = before

    return exactly


def tolerance(terms: int, dtype: Any) -> float:
    """How far two orders of summing `terms` numbers may lie apart, relative to the largest result.

    Rounding errors of n additions grow as eps * sqrt(n); 16 is the slack for what surrounds the sum.
    """
    import torch

    return float(16 * torch.finfo(dtype).eps * terms**0.5)


def farthest(got: list[Any], expected: list[Any]) -> float:
    """The largest difference of two lists of tensors, relative to the largest element of the expected one of a pair.

    NaN where an element of either is.
    """
    return worst(map(_distance, got, expected)) if got else 0.0


def _distance(one: Any, other: Any) -> float:
    scale = float(other.abs().max()) or 1.0
    return float((one.detach() - other.detach()).abs().max()) / scale
