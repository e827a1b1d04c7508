"""What `torch.export` and `make_fx` follow without numbers is followed as on the host: C++ knows no other device.

What they return runs on virtual GPUs again. What names a GPU while it is traced, and other tracers, cannot be tried.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensorConverter
from torch.fx.experimental.proxy_tensor import _MakefxTracer
from torch.overrides import _get_current_function_mode_stack, _pop_mode, _push_mode

from gpudoctor.virtual.device_errors import no_tracing
from gpudoctor.virtual.residence import UNKNOWN, place_of
from gpudoctor.virtual.tensor_mode import VirtualMode


class _Tracing(threading.local):
    """Of this thread."""

    depth = 0


_TRACING = _Tracing()


def is_traced() -> bool:
    """Whether this thread is tracing."""
    return _TRACING.depth > 0


def install() -> None:
    """Put the mode away while something is traced."""
    for name in ("export", "export_for_training", "draft_export"):
        # Each version of PyTorch has some of them.
        if hasattr(torch.export, name):
            setattr(torch.export, name, _on_host(getattr(torch.export, name)))
    _MakefxTracer.trace = _on_host(_MakefxTracer.trace)
    _refuse_others()


def _refuse_others() -> None:
    """Whoever else makes a tensor without numbers of one that is on a GPU, as compilers do, ends in C++ otherwise."""
    convert = FakeTensorConverter.from_real_tensor

    @functools.wraps(convert)
    def converted(self: Any, fake_mode: Any, t: torch.Tensor, *args: Any, **kwargs: Any) -> Any:
        place = UNKNOWN if is_traced() else place_of(t)
        if place is not UNKNOWN and place >= 0:
            raise no_tracing(place)
        return convert(self, fake_mode, t, *args, **kwargs)

    FakeTensorConverter.from_real_tensor = converted


def _on_host(trace: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(trace)
    def traced(*args: Any, **kwargs: Any) -> Any:
        with _put_away():
            return trace(*args, **kwargs)

    return traced


@contextlib.contextmanager
def _put_away() -> Iterator[None]:
    modes = list(_get_current_function_mode_stack())
    _change(len(modes), [mode for mode in modes if not isinstance(mode, VirtualMode)])
    _TRACING.depth += 1
    try:
        yield
    finally:
        _TRACING.depth -= 1
        _change(len(_get_current_function_mode_stack()), modes)


def _change(count: int, modes: list[Any]) -> None:
    for _ in range(count):
        _pop_mode()
    for mode in modes:
        _push_mode(mode)
