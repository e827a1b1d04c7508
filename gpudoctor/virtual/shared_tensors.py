"""Tensors that processes hand to each other: the memory is shared, and the place goes along with it."""

from __future__ import annotations

from multiprocessing.reduction import ForkingPickler
from typing import Any

import torch
from torch.multiprocessing import reductions

from gpudoctor.virtual.device_errors import bad_fork
from gpudoctor.virtual.ordinals import VirtualGpus
from gpudoctor.virtual.received_storage import RECEIVE, received
from gpudoctor.virtual.residence import UNKNOWN, DevicePlace, place_of_storage, put_storage


def install(gpus: VirtualGpus) -> None:
    """Have storages say where they live when they are sent, and be put there when they come."""

    def receive(storage: Any, place: DevicePlace) -> Any:
        if place is not UNKNOWN and place >= 0:
            if gpus.forked:
                raise bad_fork()
            gpus.checked(place)
        # Torch 2.6 does not keep the object that comes with the storage, as it does that of a tensor.
        whole = torch.empty(0, dtype=torch.uint8).set_(storage, 0, (storage.nbytes(),), (1,))
        return put_storage(whole.untyped_storage(), place)

    RECEIVE[:] = [receive]
    ForkingPickler.register(torch.UntypedStorage, _sent)


def _sent(storage: Any) -> tuple[Any, ...]:
    rebuild, arguments = reductions.reduce_storage(storage)
    return received, (place_of_storage(storage), rebuild, arguments)
