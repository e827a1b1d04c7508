"""Events of what a program tells its user: loggers, and the numbers that are shown or that decide something."""

from __future__ import annotations

from gpudoctor.lint.flow.condition import Dependence
from gpudoctor.lint.values.base import Value, Values
from gpudoctor.lint.values.way import Event
from gpudoctor.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class StartLogger(Event):
    """An experiment logger is opened: `wandb.init`, `SummaryWriter`. `disabled` where other ranks get a mute one."""

    call: str
    path: Values | None = None
    shared: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Averaged(Event):
    """What this rank computed from its own share of some loaders (`shards`) is divided by the length of `dataset`."""

    dataset: Value
    shards: frozenset[Value]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Event):
    """A number is shown, logged, compared for the best, or decides something. `how`: `print`, `log`, `bar`."""

    how: str
    value: Value
    shards: frozenset[Value] = frozenset()
    depends: Dependence = Dependence.NONE
    """How far ranks may disagree about all that is shown together: on the rank where it says whose number it is."""
