"""Wrappers and gradient clipping: calls that a program makes beside forward, backward and step."""

from __future__ import annotations

import functools
import weakref
from typing import TYPE_CHECKING

import torch
from torch import nn
from torch.nn.parallel import DataParallel, DistributedDataParallel

if TYPE_CHECKING:
    from .journal import Journal


def watch(journal: Journal) -> None:
    """Write a line for each wrapper around a model, with how often it was wrapped, and for each clipping."""
    wrapped: weakref.WeakKeyDictionary[nn.Module, int] = weakref.WeakKeyDictionary()
    for wrapper in (DataParallel, DistributedDataParallel):
        _watch_wrapper(journal, wrapper, wrapped)
    clip = nn.utils.clip_grad_norm_

    @functools.wraps(clip)
    def watched_clip(parameters: object, max_norm: float, *args: object, **kwargs: object) -> torch.Tensor:
        journal.write("clip", bound=float(max_norm))
        return clip(parameters, max_norm, *args, **kwargs)

    nn.utils.clip_grad_norm_ = watched_clip
    nn.utils.clip_grad.clip_grad_norm_ = watched_clip


def _watch_wrapper(
    journal: Journal, wrapper: type[nn.Module], wrapped: weakref.WeakKeyDictionary[nn.Module, int]
) -> None:
    make = wrapper.__init__

    @functools.wraps(make)
    def watched_make(self: nn.Module, module: nn.Module, *args: object, **kwargs: object) -> None:
        make(self, module, *args, **kwargs)
        core = module
        while isinstance(core, (DataParallel, DistributedDataParallel)):
            core = core.module
        wrapped[core] = wrapped.get(core, 0) + 1
        journal.write("wrap", wrapper=wrapper.__name__, times=wrapped[core])

    wrapper.__init__ = watched_make
