"""Where a tensor lives that was born in C++, and that nobody has put anywhere: a guess, which only answers questions.

In a backward that is where the loss lives; where torch hands a tensor to be saved for the backward, where the operation
is computed. An error of CUDA is never raised on account of a guess.
"""

from __future__ import annotations

import threading

from gpudoctor.virtual.residence import UNKNOWN, DevicePlace


class Birth(threading.local):
    """What this thread is computing."""

    operation: DevicePlace = UNKNOWN
    """Where the results of the last operation live."""
    loss: DevicePlace = UNKNOWN
    """Where the loss lives whose backward is under way."""
    saving: bool = False
    """A hook for saved tensors is under way, and with it an operation."""

    @property
    def place(self) -> DevicePlace:
        """Where a tensor lives that was born now; `UNKNOWN` where nothing tells."""
        return self.operation if self.saving else self.loss


BIRTH = Birth()
"""Of the thread that asks."""
