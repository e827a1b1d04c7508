"""Wrappers around models: when they are made, around what, and whether training goes through them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.compiler import is_compiling
from torch.nn.parallel import DataParallel, DistributedDataParallel

from gpudoctor.run.instruments.fingerprints import print_of, tensors_in
from gpudoctor.run.instruments.models import moves_alone
from gpudoctor.run.instruments.state import Span, State
from gpudoctor.run.stand_ins import standing_for

_NONE = object()
"""In the place of what a forward returns."""
_FIRST_STEPS = 4
"""Steps in which backwards are followed to the calls that they go through."""
_LOOKED_AT = 4
"""Training forwards whose input is looked at."""


def watch(state: State) -> None:
    """Write a line for each wrapper that is made, and count the forwards through it."""
    for kind in (DistributedDataParallel, DataParallel):
        _watch_making(state, kind)
        _watch_forward(state, kind)


def _watch_making(state: State, kind: type[nn.Module]) -> None:
    make = kind.__init__
    told, noted = state.recorder.guarded(_tell), state.recorder.guarded(state.wrappers.add)

    @standing_for(make)
    def watched(self: nn.Module, module: nn.Module, *args: Any, **keywords: Any) -> None:
        # Before it is made: a rank that fails or waits in there has said what it was about to do.
        told(state, kind.__name__, self, module)
        make(self, module, *args, **keywords)
        noted(self)

    kind.__init__ = watched


def _tell(state: State, kind: str, wrapper: nn.Module, module: nn.Module) -> None:
    state.write(
        "wrap",
        wrapper=kind,
        id=id(wrapper),
        inner=id(module),
        model=type(module).__name__,
        nested=any(isinstance(each, (DistributedDataParallel, DataParallel)) for each in module.modules()),
        trainable=sum(each.requires_grad for each in module.parameters()),
        devices=sorted({str(each.device) for each in module.parameters()}),
        place=state.recorder.place(),
    )


def _note_input(state: State, args: Any, keywords: Any) -> None:
    state.forwards += 1
    state.write("input", print=print_of((args, keywords)))


def _watch_forward(state: State, kind: type[nn.Module]) -> None:
    forward: Callable[..., Any] = kind.forward
    follow = state.recorder.guarded(_BufferCopies(state).follow)
    note = state.recorder.guarded(_note_input)

    @standing_for(forward)
    def watched(self: nn.Module, *args: Any, **keywords: Any) -> Any:
        # Inside of `torch.compile` whatever we do would break the graph.
        if is_compiling():
            return forward(self, *args, **keywords)
        if state.resting:
            output: Any = _NONE
            try:
                output = forward(self, *args, **keywords)
            finally:
                if output is _NONE:
                    state.failed(sys.exc_info()[1])
            return output
        state.used = True
        if state.forwards < _LOOKED_AT and torch.is_grad_enabled():
            note(state, args, keywords)
        state.count("forwards" if torch.is_grad_enabled() else "forwards without gradient")
        with Span(state, "forward"):
            output = forward(self, *args, **keywords)
        if state.steps < _FIRST_STEPS:
            follow(self, output)
        return output

    kind.forward = watched


class _BufferCopies:
    """Tells when one backward goes through two calls of a wrapper that copies buffers at the begin of each."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._number = 0
        self._reached: dict[tuple[int, int], dict[int, Any]] = {}

    def follow(self, wrapper: nn.Module, output: Any) -> None:
        result = next((each for each in tensors_in(output) if each.requires_grad and each.grad_fn is not None), None)
        if result is None or not torch.is_grad_enabled() or not _copies_buffers(wrapper):
            return
        self._number += 1
        call, place = self._number, self._state.recorder.place()
        reached = self._state.recorder.guarded(self._note)
        result.register_hook(lambda gradient: reached(id(wrapper), call, place))

    def _note(self, wrapper: int, call: int, place: Any) -> None:
        # Also `torch.autograd.grad` comes by here, as for a penalty on gradients.
        if not self._state.going_back:
            return
        calls = self._reached.setdefault((wrapper, self._state.backwards), {})
        calls[call] = place
        if len(calls) == 2:
            first, second = (calls[each] for each in sorted(calls))
            self._state.write("calls", wrapper=wrapper, step=self._state.steps, first=first, second=second)


def _copies_buffers(wrapper: nn.Module) -> bool:
    """It copies buffers of rank 0 at the begin of each call, and some of them change in each call."""
    copies = getattr(wrapper, "will_sync_module_buffers", None)
    return copies is not None and copies() and any(_changes(each) for each in wrapper.modules())


def _changes(module: nn.Module) -> bool:
    # A spectral norm keeps what it multiplies with.
    return moves_alone(module) or any(name in ("_u", "weight_u") for name in module._buffers)
