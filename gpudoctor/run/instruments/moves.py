"""How long the host takes to copy tensors to another device: batches, on their way to a GPU.

Only what the host waits for can be seen without waiting ourselves. Of a copy that goes on by itself
(`non_blocking=True` from pinned memory) that is little; of others it holds what the GPU had to do before.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.compiler import is_compiling

from gpudoctor.run import clock
from gpudoctor.run.instruments.state import State

_METHODS = ("to", "cuda")


def watch(state: State) -> None:
    """Time copies from the host, until something is compiled: calls between the graphs are traced."""
    for name in _METHODS:
        setattr(torch.Tensor, name, _WatchedMove(getattr(torch.Tensor, name), state))
    state.before_compiling.append(_leave)


class _WatchedMove:
    """A method of tensors. Those who look for it in the class find that of torch."""

    def __init__(self, method: Any, state: State) -> None:
        self._method = method
        self._bound = method.__get__
        self._state = state

    def __get__(self, tensor: Any, kind: Any = None) -> Any:
        if tensor is None:
            return self._method
        # First, because also this may be traced: not all that compiles goes through `torch.compile`.
        if is_compiling():
            return self._bound(tensor)
        # What is copied within a forward or to make a batch is their time.
        if self._state.resting or self._state.inside:
            return self._bound(tensor)
        return functools.partial(self._timed, tensor)

    def _timed(self, tensor: torch.Tensor, *args: Any, **keywords: Any) -> Any:
        began = clock.perf_counter()
        moved = self._method(tensor, *args, **keywords)
        if moved.device.type != "cpu" and tensor.device.type == "cpu":
            self._state.spend("copy", clock.perf_counter() - began)
        return moved


def _leave() -> None:
    for name in _METHODS:
        if isinstance(vars(torch.Tensor).get(name), _WatchedMove):
            # What torch has lies in a class below.
            delattr(torch.Tensor, name)
