"""One process a device: `fully_shard` (FSDP2) keeps a part of each parameter on each of them."""

from __future__ import annotations

from typing import Any

from gpudoctor.probe.context import NotHereError


def wrap(model: Any, ctx: Any, workload: Any, size: int, group: Any) -> Any:
    """The model on the device of this rank, sharded over the first `size` ranks, block by block."""
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
