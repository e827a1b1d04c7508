"""Where a tensor lives: a mark on its storage, which all views share and which dies with it.

PyTorch keeps the Python object of a storage for as long as the storage lives, also where only C++ still refers to it:
an attribute of it is as weak and as safe between threads as the storage itself.
"""

from __future__ import annotations

import contextlib
from typing import Any

import torch

DevicePlace = int | None
"""The index of a virtual GPU, `HOST`, or `UNKNOWN`."""
HOST = -1
UNKNOWN = None

_storage_of = torch._C.TensorBase.untyped_storage
# What a storage says that nobody has marked.
torch.UntypedStorage._gpudoctor_place = UNKNOWN
torch.UntypedStorage._gpudoctor_guess = UNKNOWN
torch.UntypedStorage._gpudoctor_pinned = False
_PLAIN = {torch.Tensor, torch.nn.Parameter}


def place_of(tensor: torch.Tensor) -> DevicePlace:
    """Where a tensor lives: the index of a virtual GPU, `HOST`, or `UNKNOWN` for one that was born in C++."""
    if type(tensor) not in _PLAIN:
        tensor = _held(tensor)
    try:
        place: DevicePlace = _storage_of(tensor)._gpudoctor_place
    except (NotImplementedError, RuntimeError):
        # That of a sparse tensor is that of its values.
        return next((place_of(part) for part in _parts(tensor)), UNKNOWN)
    return place


def put(tensor: torch.Tensor, place: DevicePlace) -> torch.Tensor:
    """Say where a tensor lives, and with it all of its views; returns it."""
    try:
        _storage_of(_held(tensor))._gpudoctor_place = place
    except (NotImplementedError, RuntimeError):
        for part in _parts(tensor):
            put(part, place)
    return tensor


def guess(tensor: torch.Tensor, place: DevicePlace) -> None:
    """Note where a tensor of which nobody knows it probably lives."""
    if place_of(tensor) is UNKNOWN:
        with contextlib.suppress(NotImplementedError, RuntimeError):
            _storage_of(_held(tensor))._gpudoctor_guess = place


def guessed(tensor: torch.Tensor) -> DevicePlace:
    """Where it was noted that it probably lives: good enough for an answer, never for an error."""
    try:
        place: DevicePlace = _storage_of(_held(tensor))._gpudoctor_guess
    except (NotImplementedError, RuntimeError):
        return UNKNOWN
    return place


def settle(found: object, place: DevicePlace) -> None:
    """Put the tensors of a result where they are born; those that live somewhere already stay there."""
    if isinstance(found, torch.Tensor):
        if place_of(found) is UNKNOWN:
            put(found, place)
    elif isinstance(found, (tuple, list)):
        for each in found:
            settle(each, place)


def is_pinned(tensor: torch.Tensor) -> bool:
    """Whether the storage was pinned."""
    return bool(_storage_of(_held(tensor))._gpudoctor_pinned)


def pin(tensor: torch.Tensor) -> torch.Tensor:
    """Note that the storage is in pinned memory of the host; returns the tensor."""
    storage: Any = _storage_of(_held(tensor))
    storage._gpudoctor_pinned = True
    storage._gpudoctor_place = HOST
    return tensor


def place_of_storage(storage: Any) -> DevicePlace:
    """Where a storage lives, typed or untyped."""
    place: DevicePlace = getattr(storage, "_untyped_storage", storage)._gpudoctor_place
    return place


def put_storage(storage: Any, place: DevicePlace) -> Any:
    """Say where a storage lives, typed or untyped; returns it."""
    getattr(storage, "_untyped_storage", storage)._gpudoctor_place = place
    return storage


def _held(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with the numbers, where this one only wraps another, as a DTensor does."""
    while hasattr(type(tensor), "__tensor_flatten__"):
        names = tensor.__tensor_flatten__()[0]
        held = getattr(tensor, names[0], None) if names else None
        if not isinstance(held, torch.Tensor):
            break
        tensor = held
    return tensor


def _parts(tensor: torch.Tensor) -> tuple[torch.Tensor, ...]:
    if torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        # One of a batch in `vmap`, or with its tangent.
        return (torch._C._functorch.get_unwrapped(tensor),)
    if tensor.layout == torch.sparse_coo:
        return tensor._values(), tensor._indices()
    by_rows = tensor.layout in (torch.sparse_csr, torch.sparse_bsr)
    if by_rows or tensor.layout in (torch.sparse_csc, torch.sparse_bsc):
        outer, inner = (
            (tensor.crow_indices(), tensor.col_indices()) if by_rows else (tensor.ccol_indices(), tensor.row_indices())
        )
        return tensor.values(), outer, inner
    return ()
