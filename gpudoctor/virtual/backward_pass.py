"""Backward runs code of the user's, too: hooks, own functions, checkpoints. It must find the mode in place.

What the engine makes in C++ has no place. It is taken to live where the loss does, which only answers what its device
is, and never raises.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch

from gpudoctor.virtual.residence import UNKNOWN, DevicePlace, place_of

if TYPE_CHECKING:
    import contextlib


class _BackwardOfThread(threading.local):
    """The backward that this thread is in."""

    place: DevicePlace = UNKNOWN


_pass = _BackwardOfThread()


def birthplace() -> DevicePlace:
    """Where a tensor lives that the engine of this backward has made; `UNKNOWN` outside of one."""
    return _pass.place


def install(in_mode: Callable[[], contextlib.AbstractContextManager[Any]]) -> None:
    """Have the engine run with the mode in place, also where the answer to `Tensor.backward` has put it away."""
    run = torch.autograd.graph._engine_run_backward

    @functools.wraps(run)
    def watched(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        before = _pass.place
        _pass.place = next((place_of(each) for each in outputs if isinstance(each, torch.Tensor)), UNKNOWN)
        try:
            with in_mode():
                return run(outputs, *args, **kwargs)
        finally:
            _pass.place = before

    torch.autograd.graph._engine_run_backward = watched
    torch.autograd._engine_run_backward = watched
