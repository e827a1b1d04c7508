"""Modules that `torch.jit` has scripted or traced: C++ runs them, and their results live where their inputs do."""

from __future__ import annotations

from typing import Any

import torch

from gpudoctor.virtual.residence import UNKNOWN, place_of, settle


def install() -> None:
    """Settle what their calls return."""
    called = torch.nn.Module.__call__

    def watched(self: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
        found = called(self, *args, **kwargs)
        # A number of the host may go along with tensors of a GPU.
        given = (each for each in (*args, *kwargs.values(), *self.parameters()) if isinstance(each, torch.Tensor))
        place = next((at for each in given if (at := place_of(each)) is not UNKNOWN and each.dim()), UNKNOWN)
        if place is not UNKNOWN:
            settle(found, place)
        return found

    torch.jit.ScriptModule.__call__ = watched
