"""How several devices train one model: each strategy says who takes part, and wraps the model.

`size` is the number of devices. All functions run on the ranks that `takes_part` names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudoctor.probe.context import NotHereError
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Strategy:
    """`takes_part(rank, size)`; `wrap(model, ctx, workload, size, group)` gives the model to train, on its device.

    `multiplies` is by how much the batch that a taking-part rank feeds is larger than that of one device.
    """

    name: str
    takes_part: Callable[[int, int], bool]
    wrap: Callable[..., Any]
    multiplies: Callable[[int], int]
    many_processes: bool


def _alone(model: Any, ctx: Any, workload: Any, size: int, group: Any) -> Any:
    """One device, no wrapper: what all others are held against."""
    return model.to(ctx.device)


def _data_parallel(model: Any, ctx: Any, workload: Any, size: int, group: Any) -> Any:
    """One process, the first `size` GPUs that it sees: each step divides the batch and copies the model to all."""
    import torch
    from torch import nn

    if torch.cuda.device_count() < size:
        raise NotHereError(f"this process sees {torch.cuda.device_count()} GPUs, and DataParallel needs all {size}")
    return nn.DataParallel(model.to(ctx.device), device_ids=list(range(size)))


def _ddp(model: Any, ctx: Any, workload: Any, size: int, group: Any) -> Any:
    """One process a device: gradients are averaged over `group` while the backward pass goes on."""
    from torch.nn.parallel import DistributedDataParallel

    ids = [ctx.device.index] if ctx.device.type == "cuda" else None
    return DistributedDataParallel(model.to(ctx.device), device_ids=ids, process_group=group)


def _fsdp2(model: Any, ctx: Any, workload: Any, size: int, group: Any) -> Any:
    """One process a device: each keeps a part of each parameter, block by block."""
    try:
        from torch.distributed.device_mesh import DeviceMesh
        from torch.distributed.fsdp import fully_shard
    except ImportError as error:
        raise NotHereError("this torch has no `fully_shard`, which came with version 2.6") from error

    mesh = DeviceMesh.from_group(group, ctx.device.type) if group is not None else None
    model = model.to(ctx.device)
    for name in workload.layers:
        fully_shard(model.get_submodule(name), mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


BY_NAME = {
    "single": Strategy("single", lambda rank, size: rank == 0, _alone, lambda size: 1, many_processes=False),
    "data_parallel": Strategy(
        "data_parallel", lambda rank, size: rank == 0, _data_parallel, lambda size: size, many_processes=False
    ),
    "ddp": Strategy("ddp", lambda rank, size: rank < size, _ddp, lambda size: 1, many_processes=True),
    "fsdp2": Strategy("fsdp2", lambda rank, size: rank < size, _fsdp2, lambda size: 1, many_processes=True),
}
