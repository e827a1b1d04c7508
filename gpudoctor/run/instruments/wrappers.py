"""Wrappers around models: when they are made, around what, and whether training goes through them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.parallel import DataParallel, DistributedDataParallel

from gpudoctor.run.instruments.state import Span, State


def watch(state: State) -> None:
    """Write a line for each wrapper that is made, and count the forwards through it."""
    for kind in (DistributedDataParallel, DataParallel):
        _watch_making(state, kind)
        _watch_forward(state, kind)


def _watch_making(state: State, kind: type[nn.Module]) -> None:
    make = kind.__init__
    told, noted = state.recorder.guarded(_tell), state.recorder.guarded(state.wrappers.add)

    @functools.wraps(make)
    def watched(self: nn.Module, module: nn.Module, *args: Any, **keywords: Any) -> None:
        # Before it is made: a rank that fails or waits in there has said what it was about to do.
        told(state, kind.__name__, self, module, args, keywords)
        make(self, module, *args, **keywords)
        noted(self)

    kind.__init__ = watched


def _tell(state: State, kind: str, wrapper: nn.Module, module: nn.Module, args: Any, keywords: Any) -> None:
    parameters = list(module.parameters())
    norms = [each for each in module.modules() if isinstance(each, _BatchNorm)]
    state.write(
        "wrap",
        wrapper=kind,
        id=id(wrapper),
        inner=id(module),
        model=type(module).__name__,
        nested=any(isinstance(each, (DistributedDataParallel, DataParallel)) for each in module.modules()),
        parameters=len(parameters),
        trainable=sum(each.requires_grad for each in parameters),
        bytes=sum(each.numel() * each.element_size() for each in parameters),
        devices=sorted({str(each.device) for each in parameters}),
        buffers=sum(1 for _ in module.buffers()),
        norms=len(norms),
        synced_norms=sum(isinstance(each, nn.SyncBatchNorm) for each in norms),
        device_ids=str(keywords.get("device_ids", args[0] if args else None)),
        find_unused=bool(keywords.get("find_unused_parameters", False)),
        place=state.recorder.place(),
    )


def _watch_forward(state: State, kind: type[nn.Module]) -> None:
    forward: Callable[..., Any] = kind.forward

    @functools.wraps(forward)
    def watched(self: nn.Module, *args: Any, **keywords: Any) -> Any:
        # Inside of `torch.compile` whatever we do would break the graph.
        if torch.compiler.is_compiling():
            return forward(self, *args, **keywords)
        state.used = True
        state.count("forwards" if torch.is_grad_enabled() else "forwards without gradient")
        with Span(state, "forward"):
            return forward(self, *args, **keywords)

    kind.forward = watched
