"""Code in Python that C++ calls: hooks, backwards of own functions, checkpoints, operators.

It must find the mode in place.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable
from typing import Any

import torch

from gpudoctor.virtual.birthplaces import BIRTH
from gpudoctor.virtual.residence import UNKNOWN, guess, place_of

InMode = Callable[[], "contextlib.AbstractContextManager[Any]"]


def install(in_mode: InMode) -> None:
    """Put the mode in place for the engine and for hooks, also where the answer to a call has put it away."""
    run = torch.autograd.graph._engine_run_backward

    @functools.wraps(run)
    def watched(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        before = BIRTH.loss
        BIRTH.loss = next((place_of(each) for each in outputs if isinstance(each, torch.Tensor)), UNKNOWN)
        try:
            with in_mode():
                return run(outputs, *args, **kwargs)
        finally:
            BIRTH.loss = before

    torch.autograd.graph._engine_run_backward = watched
    torch.autograd._engine_run_backward = watched
    _watch_saving(in_mode)
    _watch_operators(in_mode)


def _watch_operators(in_mode: InMode) -> None:
    """Operators that are written in Python, by PyTorch itself or by others: they make tensors on devices."""
    add = torch.library.Library.impl

    @functools.wraps(add)
    def added(self: Any, op_name: Any, fn: Any, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(fn, types.FunctionType) or fn is torch.library.fallthrough_kernel:
            return add(self, op_name, fn, *args, **kwargs)

        @functools.wraps(fn)
        def computed(*given: Any, **options: Any) -> Any:
            with in_mode():
                return fn(*given, **options)

        return add(self, op_name, computed, *args, **kwargs)

    torch.library.Library.impl = added


def _watch_saving(in_mode: InMode) -> None:
    """What is saved in a forward goes through hooks within an operation."""
    hooks = torch.autograd.graph.saved_tensors_hooks
    begin = hooks.__init__

    @functools.wraps(begin)
    def begun(self: Any, pack_hook: Callable[[Any], Any], unpack_hook: Callable[[Any], Any]) -> None:
        @functools.wraps(pack_hook)
        def pack(tensor: Any) -> Any:
            # What the hook computes itself is no operation that anything is born of.
            before = BIRTH.saving, BIRTH.operation
            BIRTH.saving = True
            # The engine may hand it out again when another operation is under way, on another GPU.
            guess(tensor, BIRTH.operation)
            try:
                with in_mode():
                    return pack_hook(tensor)
            finally:
                BIRTH.saving, BIRTH.operation = before

        begin(self, pack, unpack_hook)

    hooks.__init__ = begun
