"""Short names for the content of batches and parameters: equal content, equal name."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import torch

_SAMPLED = 256
"""Numbers of a tensor that are looked at."""
_OF_A_TABLE = 2
"""Dimensions."""


def print_of(batch: Any) -> str:
    """A name of a batch, from a few numbers of each tensor; empty where there is none that can be read without waiting
    for a GPU."""
    digest = hashlib.blake2b(digest_size=8)
    seen = False
    for tensor in tensors_in(batch):
        if tensor.device.type == "cpu" and tensor.layout is torch.strided and tensor.numel():
            flat = tensor.detach().reshape(-1)
            # A storage that NumPy has seen can never be resized again: it sees a copy.
            few = flat[:: max(1, flat.numel() // _SAMPLED)].clone()
            digest.update(content_of(few))
            seen = True
    return digest.hexdigest() if seen else ""


def content_of(tensor: torch.Tensor) -> bytes:
    """The bytes of a contiguous tensor of the CPU. PyTorch installs without numpy, which only makes it fast."""
    numbers = tensor.view(torch.uint8)
    try:
        return bytes(numbers.numpy().tobytes())
    except RuntimeError:
        return bytes(numbers.tolist())


class Table(NamedTuple):
    """Whole numbers in rows: sequences of tokens, categories of a customer, or answers to many questions. `tokens` says
    that the batch alone shows them to be the first of these."""

    rows: int
    columns: int
    tokens: bool


def table_of(batch: Any) -> Table | None:
    """The first tensor of two dimensions in a batch of whole numbers that has none of more, as pictures have; None
    where there is none."""
    tensors = list(tensors_in(batch))
    if not all(_is_whole(each) and each.dim() <= _OF_A_TABLE for each in tensors):
        return None
    # So are tokens called by each model of Hugging Face; what programs call their numbers says nothing.
    named = batch.get("input_ids") if isinstance(batch, Mapping) else None
    tables = [each for each in tensors if each.dim() == _OF_A_TABLE]
    if isinstance(named, torch.Tensor) and named.dim() == _OF_A_TABLE:
        return Table(named.shape[0], named.shape[1], tokens=True)
    return Table(tables[0].shape[0], tables[0].shape[1], tokens=_next_of(*tables[:2])) if tables else None


def _is_whole(tensor: torch.Tensor) -> bool:
    real = tensor.is_floating_point() or tensor.is_complex() or tensor.dtype is torch.bool
    return not real and tensor.layout is torch.strided and not tensor.is_nested


def _next_of(given: torch.Tensor, wanted: torch.Tensor | None = None) -> bool:
    """What is wanted at each place of a row is what is given at the next."""
    if wanted is None or given.shape != wanted.shape or given.shape[1] < 2 or given.device.type != "cpu":
        return False
    # Of a table that holds one number only, each one is what comes next.
    return torch.equal(given[:, 1:], wanted[:, :-1]) and bool((given != given[0, 0]).any())


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
