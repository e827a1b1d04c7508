"""Short names for tensors: equal content, equal name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import torch


def of_tensors(tensors: Iterable[torch.Tensor]) -> str:
    """One name for several tensors in this order."""
    digest = hashlib.blake2b(digest_size=8)
    for tensor in tensors:
        digest.update(_content(tensor))
    return digest.hexdigest()


def of_rows(batch: object) -> list[str]:
    """One name for each sample of a batch, taken over all tensors that share its first dimension."""
    tensors = [tensor.detach() for tensor in tensors_in(batch) if tensor.dim() > 0]
    if not tensors:
        return [hashlib.blake2b(repr(batch).encode(), digest_size=8).hexdigest()]
    rows = [tensor for tensor in tensors if tensor.shape[0] == tensors[0].shape[0]]
    return [of_tensors(tensor[i] for tensor in rows) for i in range(rows[0].shape[0])]


def tensors_in(value: object) -> Iterator[torch.Tensor]:
    """The tensors of a nest of containers, in order."""
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from tensors_in(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from tensors_in(item)


def _content(tensor: torch.Tensor) -> bytes:
    if isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin) or tensor.is_meta:
        return b"?"
    # A sharded parameter is named after its local part: asking for the rest would be a collective.
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    flat = local.detach().cpu().contiguous().reshape(-1)
    return flat.view(torch.uint8).numpy().tobytes()
