"""The smallest workload: one linear layer, as in the first articles on DataParallel. Its step is all overhead."""

from __future__ import annotations

from typing import Any

from gpudoctor.probe.workloads.reference import loss_of
from gpudoctor.probe.workloads.workload import Workload

FEATURES, CLASSES = 10, 2


def workload(samples: int) -> Workload:
    """Inputs (samples, 10), labels (samples,) of two classes that a line separates."""
    return Workload("linear", samples, _model, _batch, loss_of, rate=0.05)


def _model() -> Any:
    import torch
    from torch import nn

    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(FEATURES, CLASSES))


def _batch(samples: int, seed: int) -> tuple[Any, Any]:
    import torch

    inputs = torch.randn(samples, FEATURES, generator=torch.Generator().manual_seed(seed))
    return inputs, (inputs.sum(dim=1) > 0).long()
