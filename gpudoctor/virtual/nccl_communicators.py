"""Communicators of NCCL: made at the first collective on a GPU, by all ranks together, each rank with its own GPU."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from gpudoctor.virtual.nccl_refusals import duplicate_gpu, elsewhere_than_bound
from gpudoctor.virtual.residence import UNKNOWN, DevicePlace

if TYPE_CHECKING:
    import torch.distributed as dist

    from gpudoctor.virtual.ordinals import VirtualGpus


class Communicators:
    """Those of one process group on one rank."""

    def __init__(self, gpus: VirtualGpus, store: dist.Store, rank: int, size: int) -> None:
        self._gpus = gpus
        self._store = store
        self._rank = rank
        self._size = size
        self._made: list[DevicePlace] = []
        self._bound: int | None = None

    def bind(self, index: int) -> None:
        """The group is for this GPU alone, and its communicator is made at once."""
        self._bound = index
        self.connect(index)

    def connect(self, place: DevicePlace) -> None:
        """Have a communicator for a tensor that lives there; raises what NCCL raises when it makes one.

        Where that is unknown it is taken for one on the GPU that the group uses, and nothing is raised.
        """
        if self._bound is not None and (error := elsewhere_than_bound(place, self._bound)) is not None:
            raise error
        if place is UNKNOWN:
            place = self._bound
        if place in self._made or (place is UNKNOWN and self._made):
            return
        if UNKNOWN in self._made:
            # The others have this one already.
            self._made[self._made.index(UNKNOWN)] = place
            return
        self._made.append(place)
        self._refuse_same_gpu(len(self._made) - 1, _name(self._gpus, place))

    def _refuse_same_gpu(self, number: int, mine: str) -> None:
        self._store.set(f"gpu/{number}/{self._rank}", mine)
        for other in range(self._size):
            # Ranks wait here for each other, as in NCCL.
            if other != self._rank and self._store.get(f"gpu/{number}/{other}").decode() == mine and mine:
                bus = f"{(int(mine.rpartition('/')[2]) + 1) << 12:x}"
                raise duplicate_gpu(self._rank, other, bus)


def _name(gpus: VirtualGpus, place: DevicePlace) -> str:
    """A GPU by its node and its number there; empty where it is not known."""
    return "" if place is UNKNOWN else f"{gpus.node or socket.gethostname()}/{gpus.physical(place)}"
