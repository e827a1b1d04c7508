"""Which virtual GPUs a process sees, which one is current, and which one a `device` argument means."""

from __future__ import annotations

import os
import threading
from typing import Any

import torch

from gpudoctor.virtual.device_errors import bad_fork, invalid_ordinal
from gpudoctor.virtual.residence import HOST, UNKNOWN, DevicePlace

VISIBLE = "CUDA_VISIBLE_DEVICES"


class _Thread(threading.local):
    """The current device is one for each thread, as with CUDA."""

    current = 0


class VirtualGpus:
    """The virtual GPUs of this process. CUDA looks at `CUDA_VISIBLE_DEVICES` once, when it begins."""

    def __init__(self, machine: int, node: str = "") -> None:
        self.machine = machine
        """How many the machine has."""
        self.node = node
        """Which machine it is, where several virtual ones are on this one."""
        self.forked = False
        """This process was forked from one that had begun to use its GPUs."""
        self._seen: tuple[int, ...] | None = None
        self._thread = _Thread()
        os.register_at_fork(after_in_child=self._after_fork)

    @property
    def begun(self) -> bool:
        """Whether this process has used a GPU."""
        return self._seen is not None and not self.forked

    @property
    def count(self) -> int:
        """How many GPUs the process sees."""
        return len(self._visible() if self._seen is None else self._seen)

    @property
    def current(self) -> int:
        """The index of the current GPU of this thread."""
        self.begin()
        return self._thread.current

    def begin(self) -> None:
        """Begin to use GPUs, as what asks for one does."""
        if self.forked:
            raise bad_fork()
        if self._seen is None:
            self._seen = self._visible()

    def select(self, index: int) -> int:
        """Make a GPU the current one of this thread; returns the one that was."""
        before, self._thread.current = self.current, self.checked(index)
        return before

    def checked(self, index: int) -> int:
        """The index, where there is such a GPU."""
        self.begin()
        if not 0 <= index < self.count:
            raise invalid_ordinal()
        return index

    def physical(self, index: int) -> int:
        """Which GPU of the machine has this index here. NCCL asks, who is not what PyTorch counts as its beginning."""
        seen = self._visible() if self._seen is None else self._seen
        if not 0 <= index < len(seen):
            raise invalid_ordinal()
        return seen[index]

    def meant(self, device: Any) -> DevicePlace:
        """What a `device` argument means: a GPU, the host, or `UNKNOWN` for other devices and for none."""
        if device is None or isinstance(device, bool):
            return UNKNOWN
        if isinstance(device, int):
            return self.checked(device)
        device = torch.device(device)
        if device.type == "cpu":
            return HOST
        if device.type != "cuda":
            return UNKNOWN
        return self.current if device.index is None else self.checked(device.index)

    @staticmethod
    def numbered(device: Any) -> int:
        """The number that a `device` argument says, which there may not be; -1 where it says none."""
        if device is None or isinstance(device, bool):
            return -1
        if isinstance(device, int):
            return device
        device = torch.device(device)
        return -1 if device.type != "cuda" or device.index is None else int(device.index)

    def index_of(self, device: Any) -> int:
        """The GPU that a `device` argument means: the current one where it says none."""
        place = self.meant(device)
        if place == HOST or (place is UNKNOWN and device is not None):
            raise ValueError(f"Expected a cuda device, but got: {device}")
        return self.current if place is UNKNOWN else place

    def _visible(self) -> tuple[int, ...]:
        """As CUDA reads it: what stands behind a number that there is not does not count."""
        given = os.environ.get(VISIBLE)
        if given is None:
            return tuple(range(self.machine))
        seen: list[int] = []
        for word in given.split(","):
            number = word.strip()
            if not number.isdecimal() or not int(number) < self.machine or int(number) in seen:
                break
            seen.append(int(number))
        return tuple(seen)

    def _after_fork(self) -> None:
        self.forked = self._seen is not None
