"""Streams and events. The CPU does one thing after the other: all that was asked for is done when it is asked."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable
from typing import Any

import torch

from gpudoctor.virtual.ordinals import VirtualGpus


def _any_device(of_torch: Any, of_cuda: Any, make: Callable[..., Any]) -> Any:
    """A class of torch's that makes those of GPUs where it is asked for one of these, or does not say of what."""

    class AnyDevice(type):
        """Knows both kinds."""

        def __instancecheck__(cls, instance: Any) -> bool:
            return isinstance(instance, (of_torch, of_cuda))

        def __call__(cls, device: Any = None, *args: Any, **kwargs: Any) -> Any:
            if device is not None and not isinstance(device, int) and torch.device(device).type != "cuda":
                return of_torch(device, *args, **kwargs)
            return make(device, *args, **kwargs)

    return AnyDevice(of_torch.__name__, (), {"__module__": "torch"})


class _Current(threading.local):
    """The streams that this thread has made current, by device."""

    def __init__(self) -> None:
        self.streams: dict[int, Any] = {}


def event_type(gpus: VirtualGpus) -> type[Any]:
    """The class of events of this process's GPUs, as `torch.cuda` names it."""

    class VirtualEvent:
        """A moment: when it was recorded, by the clock."""

        def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
            self.enable_timing = enable_timing
            self._at: float | None = None
            self.device = torch.device("cuda", gpus.current)

        def record(self, stream: Any = None) -> None:
            """Note the time."""
            self._at = time.perf_counter()

        def elapsed_time(self, end_event: VirtualEvent) -> float:
            """Milliseconds until another event."""
            if not (self.enable_timing and end_event.enable_timing):
                raise ValueError("Both events must be created with argument 'enable_timing=True'.")
            if self._at is None or end_event._at is None:
                raise ValueError("Both events must be recorded before calculating elapsed time.")
            return (end_event._at - self._at) * 1e3

        def query(self) -> bool:
            """All that was asked for is done."""
            return True

        def wait(self, stream: Any = None) -> None:
            """Nothing to wait for."""

        def synchronize(self) -> None:
            """Nothing to wait for."""

    return VirtualEvent


def stream_type(gpus: VirtualGpus, makes_event: type[Any]) -> type[Any]:
    """The class of their streams, which record such events."""
    # The stream that a device begins with is number 0.
    numbers = itertools.count(1)

    class VirtualStream:
        """A queue of work that is always empty."""

        def __init__(self, device: Any = None, priority: int = 0, *, stream_id: int | None = None, **_: Any) -> None:
            self.device_index = gpus.index_of(device)
            self.device = torch.device("cuda", self.device_index)
            self.priority = priority
            self.stream_id = self.cuda_stream = next(numbers) if stream_id is None else stream_id

        @staticmethod
        def priority_range() -> tuple[int, int]:
            """The least and the greatest, as many cards have them."""
            return 0, -5

        def record_event(self, event: Any = None) -> Any:
            """Record an event, a new one where none is given."""
            event = makes_event() if event is None else event
            event.record(self)
            return event

        def __eq__(self, other: object) -> bool:
            return isinstance(other, VirtualStream) and hash(self) == hash(other)

        def __hash__(self) -> int:
            return hash((self.device_index, self.stream_id))

        def query(self) -> bool:
            """All that was asked for is done."""
            return True

        def wait_event(self, event: Any) -> None:
            """Nothing to wait for."""

        def wait_stream(self, stream: Any) -> None:
            """Nothing to wait for."""

        def synchronize(self) -> None:
            """Nothing to wait for."""

        def is_capturing(self) -> bool:
            """No graph is ever captured."""
            return False

        def __enter__(self) -> VirtualStream:
            self._before = gpus.select(self.device_index)
            return self

        def __exit__(self, *_: object) -> None:
            gpus.select(self._before)

    return VirtualStream


class Streams:
    """Which stream is current, for each thread and device."""

    def __init__(self, gpus: VirtualGpus) -> None:
        self._gpus = gpus
        self._current = _Current()
        self.event_type = event_type(gpus)
        self.stream_type = stream_type(gpus, self.event_type)
        self._defaults: dict[int, Any] = {}

    def of_any_device(self) -> tuple[Any, Any]:
        """`torch.Stream` and `torch.Event`: for a GPU, or no device, those of `torch.cuda`."""
        stream, event = self.stream_type, self.event_type
        return (
            _any_device(torch.Stream, stream, stream),
            # An event is of the device that is current.
            _any_device(torch.Event, event, lambda device, *args, **kwargs: event(*args, **kwargs)),
        )

    def external(self, stream_ptr: int, device: Any = None, **_: Any) -> Any:
        """The stream with a number that the program knows."""
        return self.stream_type(device, stream_id=stream_ptr)

    def default(self, device: Any = None) -> Any:
        """The stream that a device begins with."""
        index = self._index(device)
        if index not in self._defaults:
            self._defaults[index] = self.stream_type(index, stream_id=0)
        return self._defaults[index]

    def current(self, device: Any = None) -> Any:
        """The stream that work of this thread goes to."""
        return self._current.streams.get(self._index(device)) or self.default(device)

    def make_current(self, stream: Any) -> None:
        """Have work of this thread go to a stream."""
        if stream is not None:
            self._gpus.select(stream.device_index)
            self._current.streams[stream.device_index] = stream

    def context_type(self) -> type[Any]:
        """`torch.cuda.StreamContext`."""
        streams = self

        class StreamContext:
            """Has work go to a stream for a while; None changes nothing."""

            def __init__(self, stream: Any) -> None:
                self.stream = stream

            def __enter__(self) -> None:
                if self.stream is not None:
                    index = self.stream.device_index
                    self._before = streams._gpus.current, streams.current(index)
                    streams.make_current(self.stream)

            def __exit__(self, *_: object) -> None:
                if self.stream is not None:
                    device, stream = self._before
                    streams.make_current(stream)
                    streams._gpus.select(device)

        return StreamContext

    def _index(self, device: Any) -> int:
        return self._gpus.index_of(device)


def accept_streams() -> None:
    """Let tensors be told which stream uses them: C++ refuses streams that are none of its own."""
    torch.Tensor.record_stream = lambda self, stream: None
