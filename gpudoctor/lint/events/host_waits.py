"""Events in which the host waits for the GPU, reads a clock, or is slowed by a debugging aid."""

from __future__ import annotations

from collections.abc import Hashable

from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.events.event_context import Event
from gpudoctor.record import dataclass


@dataclass(frozen=True, kw_only=True)
class HostSync(Event):
    """The host waits for the GPU: `.item()`, `.cpu()`, `print(tensor)`, `torch.cuda.synchronize()` (`call`), or a test
    of a tensor (`bool`). `for_all` where it waits for whatever the GPU was asked to do."""

    call: str
    subject: Tensor | None = None
    for_all: bool = False


@dataclass(frozen=True, kw_only=True)
class ClockRead(Event):
    """`time.time()` and its kind."""

    call: str
    identity: Hashable = None


@dataclass(frozen=True, kw_only=True)
class Elapsed(Event):
    """The time between two looks at a clock is taken: `until - since`, each the identity of a `ClockRead`."""

    since: Hashable
    until: Hashable


@dataclass(frozen=True, kw_only=True)
class DebugFlag(Event):
    """A debugging aid that slows training is switched on, or off again: `torch.autograd.set_detect_anomaly(True)`.
    `on` is None where the user decides it."""

    flag: str
    on: bool | None = True
