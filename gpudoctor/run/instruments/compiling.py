"""`torch.compile`: what it would trace through leaves when it is called first, and where that is, is told."""

from __future__ import annotations

import functools
from typing import Any

import torch

from gpudoctor.run.instruments.state import State
from gpudoctor.run.stand_ins import standing_for


def watch(state: State) -> None:
    """Have those leave that asked for it."""
    compiled, tell = torch.compile, state.recorder.guarded(functools.cache(_tell))

    @standing_for(compiled)
    def watched(*args: Any, **keywords: Any) -> Any:
        for leave in state.before_compiling:
            leave()
        state.before_compiling.clear()
        tell(state)
        return compiled(*args, **keywords)

    torch.compile = watched


def _tell(state: State) -> None:
    state.write("compile", place=state.recorder.place())
