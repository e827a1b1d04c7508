"""One process a device: DistributedDataParallel averages the gradients while the backward pass goes on."""

from __future__ import annotations

from typing import Any


def wrap(model: Any, ctx: Any, workload: Any, size: int, group: Any) -> Any:
    """The model on the device of this rank, its gradients averaged over `group`."""
    from torch.nn.parallel import DistributedDataParallel

    ids = [ctx.device.index] if ctx.device.type == "cuda" else None
    return DistributedDataParallel(model.to(ctx.device), device_ids=ids, process_group=group)
