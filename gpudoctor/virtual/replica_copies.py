"""DataParallel: what it copies between GPUs in C++, which a build without CUDA lacks. All else is PyTorch's own."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.nn.parallel import _functions

from gpudoctor.virtual.nccl_exchanges import Pieces
from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.residence import UNKNOWN, place_of, put


def install(gpus: VirtualGpus) -> None:
    """Put the copies where DataParallel looks for them."""
    copies = _Copies(gpus)
    for name in ("broadcast", "broadcast_out", "broadcast_coalesced", "scatter", "scatter_out", "gather", "gather_out"):
        setattr(torch._C, f"_{name}", getattr(copies, name))
    # Its own asks for a stream in C++, by a number.
    vars(_functions)["_get_stream"] = lambda device: None if device.type == "cpu" else torch.cuda.Stream(device)
    _know_gradients(_functions.Broadcast, lambda ctx, number: ctx.target_gpus[number // ctx.num_inputs])
    _know_gradients(_functions.Gather, lambda ctx, _: ctx.target_device)
    _keep_targets()
    _know_gradients(_functions.Scatter, lambda ctx, number: ctx.gpudoctor_targets[number])


class _Copies:
    def __init__(self, gpus: VirtualGpus) -> None:
        self._gpus = gpus

    def broadcast(self, tensor: torch.Tensor, devices: Sequence[int]) -> list[torch.Tensor]:
        """One copy on each GPU; the tensor itself where it lives already."""
        return [tensor if place_of(tensor) == each else self._moved(tensor, each) for each in devices]

    def broadcast_out(self, tensor: torch.Tensor, out: Pieces) -> list[torch.Tensor]:
        for each in out:
            each.copy_(tensor)
        return list(out)

    def broadcast_coalesced(
        self, tensors: Pieces, devices: Sequence[int], buffer_size: int = 0
    ) -> list[list[torch.Tensor]]:
        """All of the tensors for each GPU."""
        return [list(tensors)] + [[self._moved(each, device) for each in tensors] for device in devices[1:]]

    def scatter(
        self,
        tensor: torch.Tensor,
        devices: Sequence[int],
        chunk_sizes: Sequence[int] | None = None,
        dim: int = 0,
        streams: object = None,
    ) -> list[torch.Tensor]:
        """The parts of a tensor, one on each GPU."""
        parts = tensor.split(list(chunk_sizes), dim) if chunk_sizes else tensor.chunk(len(devices), dim)
        return [self._moved(part, device) for part, device in zip(parts, devices, strict=False)]

    def scatter_out(self, tensor: torch.Tensor, out: Pieces, dim: int = 0, streams: object = None) -> Pieces:
        parts = tensor.split([each.size(dim) for each in out], dim)
        for part, each in zip(parts, out, strict=True):
            each.copy_(part)
        return out

    def gather(self, tensors: Pieces, dim: int, destination: int | None = None) -> torch.Tensor:
        """The parts as one tensor, on one GPU or on the host (-1)."""
        target = self._gpus.current if destination is None else destination
        return torch.cat([self._moved(each, target) for each in tensors], dim)

    def gather_out(self, tensors: Pieces, out: torch.Tensor, dim: int) -> torch.Tensor:
        return out.copy_(torch.cat([each.to(out.device) for each in tensors], dim))

    def _moved(self, tensor: torch.Tensor, place: int) -> torch.Tensor:
        # -1 is the host, as PyTorch counts devices here.
        return put(tensor.detach().clone(), place)


def _know_gradients(function: Any, place: Callable[[Any, int], Any]) -> None:
    """Gradients come from C++, without a place: they live where the results of `forward` did."""
    backward = function.backward

    @functools.wraps(backward)
    def placed(ctx: Any, *gradients: Any) -> Any:
        for number, each in enumerate(gradients):
            if isinstance(each, torch.Tensor) and place_of(each) is UNKNOWN:
                where = place(ctx, number)
                put(each, -1 if where == "cpu" else where)
        return backward(ctx, *gradients)

    function.backward = staticmethod(placed)


def _keep_targets() -> None:
    """`Scatter` does not remember to which GPUs."""
    forward = _functions.Scatter.forward

    @functools.wraps(forward)
    def kept(ctx: Any, target_gpus: Any, *args: Any) -> Any:
        ctx.gpudoctor_targets = [torch._utils._get_device_index(each, True) for each in target_gpus]
        return forward(ctx, target_gpus, *args)

    _functions.Scatter.forward = staticmethod(kept)
