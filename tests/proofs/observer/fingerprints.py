"""Short names for tensors: equal content, equal name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping

import torch

# Those of a program are counted, and each time it is asked who calls.
_CPU, _NUMPY = torch.Tensor.cpu, torch.Tensor.numpy


def of_tensors(tensors: Iterable[torch.Tensor]) -> str:
    """One name for several tensors in this order."""
    return _name(map(_content, tensors))


def of_rows(batch: object) -> list[str]:
    """One name for each sample of a batch, taken over all tensors that share its first dimension."""
    tensors = [tensor.detach() for tensor in tensors_in(batch) if tensor.dim() > 0]
    if not tensors:
        return [hashlib.blake2b(repr(batch).encode(), digest_size=8).hexdigest()]
    rows = [tensor for tensor in tensors if tensor.shape[0] == tensors[0].shape[0]]
    contents = [(_content(tensor), tensor.shape[0]) for tensor in rows]
    return [_name(_row(whole, count, at) for whole, count in contents) for at in range(rows[0].shape[0])]


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


def _name(contents: Iterable[bytes]) -> str:
    digest = hashlib.blake2b(digest_size=8)
    for content in contents:
        digest.update(content)
    return digest.hexdigest()


def _row(whole: bytes, count: int, at: int) -> bytes:
    """Of the content of a tensor with so many rows, that of one."""
    size = len(whole) // count
    return whole[at * size : (at + 1) * size]


def _content(tensor: torch.Tensor) -> bytes:
    if tensor.is_meta or isinstance(tensor, torch.nn.parameter.UninitializedTensorMixin):
        return b"?"
    # A sharded parameter is named after its local part: asking for the rest would be a collective.
    local = tensor.to_local() if hasattr(tensor, "to_local") else tensor
    # A storage that NumPy has seen can never be resized again, as FSDP does: it sees a copy.
    flat = _CPU(local.detach()).clone(memory_format=torch.contiguous_format).reshape(-1)
    return _NUMPY(flat.view(torch.uint8)).tobytes()
