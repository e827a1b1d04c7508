"""One process, several GPUs: DataParallel divides each batch and copies the model to every GPU in each step."""

from __future__ import annotations

from typing import Any

from gpudoctor.probe.context import NotHereError


def wrap(model: Any, ctx: Any, workload: Any, size: int, group: Any) -> Any:
    """The model on the first `size` GPUs that this process sees."""
    import torch
    from torch import nn

    if torch.cuda.device_count() < size:
        raise NotHereError(f"this process sees {torch.cuda.device_count()} GPUs, and DataParallel needs all {size}")
    return nn.DataParallel(model.to(ctx.device), device_ids=list(range(size)))
