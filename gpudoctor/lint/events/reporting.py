"""Events of what a program tells its user: loggers, and the numbers that are shown or that decide something."""

from __future__ import annotations

from gpudoctor.lint.domain.data import Dataset, Loader
from gpudoctor.lint.domain.tensor import Mark, Tensor
from gpudoctor.lint.domain.value import Text, Unknown
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.record import dataclass


@dataclass(frozen=True, kw_only=True)
class Scored(Event):
    """A function (`call`) measures all that it is given: its value for all data is no mean of its values for shards."""

    call: str


@dataclass(frozen=True, kw_only=True)
class StartLogger(Event):
    """An experiment logger is opened: `wandb.init`, `SummaryWriter`. `disabled` where other ranks get a mute one."""

    call: str
    shared: bool = False
    logger: Unknown | None = None
    adds_file: bool = False
    """Each process writes a file of its own there, and what they show is one run."""


@dataclass(frozen=True, kw_only=True)
class UseLogger(Event):
    """Something is logged: a method of the logger is called, other than to close it."""

    logger: Unknown


@dataclass(frozen=True, kw_only=True)
class Averaged(Event):
    """What this rank computed from its own share of some loaders (`shards`) is divided by the length of `dataset`."""

    dataset: Dataset
    shards: frozenset[Loader | Mark]


@dataclass(frozen=True, kw_only=True)
class MetricShown(Event):
    """A number is shown, logged, compared for the best, or decides something. `how`: `print`, `log`, `bar`, `file`."""

    how: str
    value: Tensor | Text | Unknown
    shards: frozenset[Loader | Mark] = frozenset()
    divergence: Divergence = Divergence.NONE
    """How far ranks may disagree about all that is shown together: on the rank where it says whose number it is."""
    averaged: bool = False
    """What is shown is the mean of the loop around."""
