"""PyTorch's profiler: it finds no kernels of a virtual GPU, and would say so for each operation."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from torch.autograd import ProfilerState, profiler
from torch.profiler import ProfilerActivity
from torch.profiler import profiler as by_activity


def install() -> None:
    """Have both kinds record the CPU alone, as they do where there is no GPU."""
    for kind, host in ((profiler.profile, _events_of_host), (by_activity._KinetoProfile, _activity_of_host)):
        _after_making(kind, host)
    profiler.emit_nvtx.__enter__ = lambda self: self
    profiler.emit_nvtx.__exit__ = lambda *_: False


def _after_making(kind: type[Any], then: Callable[[Any], None]) -> None:
    make = kind.__init__

    @functools.wraps(make)
    def made(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if getattr(self, "use_device", None) == "cuda":
            self.use_device = None
            then(self)

    kind.__init__ = made


def _events_of_host(recorder: Any) -> None:
    recorder.use_cpu = True
    if recorder.enabled:
        recorder.profiler_kind = ProfilerState.KINETO
        recorder.kineto_activities = {ProfilerActivity.CPU}


def _activity_of_host(recorder: Any) -> None:
    recorder.activities = {ProfilerActivity.CPU}
