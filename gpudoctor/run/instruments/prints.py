"""Short names for the content of batches and parameters: equal content, equal name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import torch

_SAMPLED = 256
"""Numbers of a tensor that are looked at."""


def print_of(batch: Any) -> str:
    """A name of a batch, from a few numbers of each tensor; empty where there is none that can be read without waiting
    for a GPU."""
    digest = hashlib.blake2b(digest_size=8)
    seen = False
    for tensor in tensors_in(batch):
        if tensor.device.type == "cpu" and tensor.layout is torch.strided and tensor.numel():
            flat = tensor.detach().reshape(-1)
            few = flat[:: max(1, flat.numel() // _SAMPLED)].contiguous()
            digest.update(few.view(torch.uint8).numpy().tobytes())
            seen = True
    return digest.hexdigest() if seen else ""


def tokens_of(batch: Any) -> tuple[int, int]:
    """The tokens of a batch and the sequences that they are in: where it is made of whole numbers only, the first of
    its tensors that has two dimensions; else none."""
    tensors = list(tensors_in(batch))
    if any(each.is_floating_point() or each.is_complex() or each.dtype is torch.bool for each in tensors):
        return 0, 0
    first = next((each for each in tensors if each.dim() == 2), None)
    return (first.numel(), first.shape[0]) if first is not None else (0, 0)


def sums_of(parameters: Iterable[torch.Tensor]) -> list[int]:
    """A number for each tensor, the sum of its bits read as whole numbers. Waits for the device once."""
    sums = [_sum_of(parameter) for parameter in parameters]
    if len({each.device for each in sums}) > 1:
        sums = [each.cpu() for each in sums]
    return [int(each) for each in torch.stack(sums).tolist()] if sums else []


def _sum_of(tensor: torch.Tensor) -> torch.Tensor:
    # Of a sharded parameter only the part that lies here: the rest would take a collective.
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    flat = local.detach().reshape(-1).contiguous()
    whole = {2: torch.int16, 4: torch.int32, 8: torch.int64}.get(flat.element_size(), torch.uint8)
    return flat.view(whole).sum(dtype=torch.int64)


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """The tensors of a nest of containers, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)
