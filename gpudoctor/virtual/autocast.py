"""`torch.autocast("cuda")` casts on the CPU: the same dtypes, with the lists of operations of the CPU's autocast."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from gpudoctor.virtual.operands import Operands
    from gpudoctor.virtual.tensor_mode import TorchAnswer


def install() -> None:
    """Have autocast for CUDA switch that of the CPU on and off, too."""
    kind = torch.amp.autocast_mode.autocast
    enter, leave = kind.__enter__, kind.__exit__

    @functools.wraps(enter)
    def entered(self: Any) -> Any:
        found = enter(self)
        if self.device == "cuda":
            _states(self).append((torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")))
            _switch(self._enabled, self.fast_dtype)
        return found

    @functools.wraps(leave)
    def left(self: Any, *error: Any) -> Any:
        if self.device == "cuda":
            _switch(*_states(self).pop())
        return leave(self, *error)

    kind.__enter__, kind.__exit__ = entered, left


def answers(operands: Operands) -> Iterator[tuple[Any, TorchAnswer]]:
    """Functions that are computed otherwise: oneDNN has no LSTM in half precision, and torch has one of its own."""

    def recurrent(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        half = torch.is_autocast_enabled("cpu") and torch.get_autocast_dtype("cpu") is torch.float16
        if not half and args[0].dtype is not torch.float16:
            return operands.computed(func, args, kwargs)
        # Not by `torch.backends.mkldnn.flags`, which sets more, and warns.
        before = torch._C._get_mkldnn_enabled()
        torch._C._set_mkldnn_enabled(False)
        try:
            return operands.computed(func, args, kwargs)
        finally:
            torch._C._set_mkldnn_enabled(before)

    yield torch._VF.lstm, recurrent


def _states(autocast: Any) -> list[tuple[bool, torch.dtype]]:
    """What the CPU's autocast was, for each time that this one was entered."""
    found: list[tuple[bool, torch.dtype]] = autocast.__dict__.setdefault("_gpudoctor_host", [])
    return found


def _switch(enabled: bool, dtype: torch.dtype) -> None:
    torch.set_autocast_enabled("cpu", enabled)
    torch.set_autocast_dtype("cpu", dtype)
