"""`torch.compile`: what it would trace through leaves when it is called first."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from gpudoctor.run.instruments.state import State


def watch(state: State) -> None:
    """Have those leave that asked for it."""
    compiled = torch.compile

    @functools.wraps(compiled)
    def watched(*args: Any, **keywords: Any) -> Any:
        for leave in state.before_compiling:
            leave()
        state.before_compiling.clear()
        return compiled(*args, **keywords)

    torch.compile = watched
