"""`torch.autocast("cuda")` casts on the CPU: the same dtypes, with the lists of operations of the CPU's autocast."""

from __future__ import annotations

import functools
from typing import Any

import torch


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


def _states(autocast: Any) -> list[tuple[bool, torch.dtype]]:
    """What the CPU's autocast was, for each time that this one was entered."""
    found: list[tuple[bool, torch.dtype]] = autocast.__dict__.setdefault("_gpudoctor_host", [])
    return found


def _switch(enabled: bool, dtype: torch.dtype) -> None:
    torch.set_autocast_enabled("cpu", enabled)
    torch.set_autocast_dtype("cpu", dtype)
