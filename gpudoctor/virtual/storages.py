"""Storages that are moved by themselves, as by a `map_location` that calls `storage.cuda()`."""

from __future__ import annotations

from typing import Any

import torch

from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.residence import HOST, place_of_storage, put_storage


def install(gpus: VirtualGpus) -> None:
    """Have storages go to virtual GPUs and back; a move copies, as with tensors."""

    def moved(storage: Any, place: int) -> Any:
        return storage if place_of_storage(storage) == place else put_storage(storage.clone(), place)

    for kind in (torch.UntypedStorage, torch.TypedStorage):
        kind.cuda = lambda self, device=None, non_blocking=False: moved(self, gpus.index_of(device))
        kind.cpu = lambda self: moved(self, HOST)
