"""Whether the ranks of a group call the same: NCCL does not look, and where they do not it mostly waits forever.

gloo ends the process instead, and then nobody can say where the ranks were. So a rank that comes with another call than
those before it never begins: it waits, as with NCCL, and the run tells where each rank stands, and what it came with.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, ClassVar, NoReturn

if TYPE_CHECKING:
    import torch
    import torch.distributed as dist


class CallAgreement:
    """Of one process group on one rank: what each call asks for, in the group's store, written by who comes first."""

    told: ClassVar[str] = ""
    """Why this process waits in vain, in words."""

    def __init__(self, store: dist.Store, rank: int, size: int) -> None:
        self._store = store
        self._rank = rank
        self._size = size
        self._calls = 0
        self._sent: Counter[str] = Counter()

    def collective(self, name: str, tensors: Iterable[torch.Tensor] = (), root: int | None = None) -> None:
        """All ranks must call this next, with tensors of these sizes and with this root."""
        self._calls += 1
        if self._size > 1:
            of = f" from or for rank {root}" if root is not None else ""
            self._settle(f"{self._calls}", f"`{name}` of {_sizes(tensors)}{of}")

    def exchange(self, sent: Sequence[torch.Tensor], received: Sequence[torch.Tensor]) -> None:
        """What each rank sends to each other one is what that one receives."""
        self.collective("all_to_all")
        for other, (mine, theirs) in enumerate(zip(sent, received, strict=True)):
            for way, each in (((self._rank, other), mine), ((other, self._rank), theirs)):
                self._settle(f"{self._calls}/{way}", f"{_sizes([each])} from rank {way[0]} to rank {way[1]}")

    def between(self, sender: int, receiver: int, tensors: Iterable[torch.Tensor]) -> None:
        """One of two ranks sends this, the other one receives it."""
        way = f"{sender}>{receiver}"
        self._sent[way] += 1
        self._settle(f"{way}/{self._sent[way]}", f"{_sizes(tensors)} from rank {sender} to rank {receiver}")

    def _settle(self, key: str, asked: str) -> None:
        first = self._store.compare_set(key, "", asked).decode()
        if first != asked:
            self._wait(asked, first)

    def _wait(self, asked: str, first: str) -> NoReturn:
        CallAgreement.told = f"waits with {asked}, where another rank has come with {first},"
        while True:
            time.sleep(1)


def _sizes(tensors: Iterable[torch.Tensor]) -> str:
    return f"{' + '.join(str(each.nbytes) for each in tensors) or '0'} bytes"
