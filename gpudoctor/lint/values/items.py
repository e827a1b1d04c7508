"""Events about what the batches of a loader are made of."""

from __future__ import annotations

from gpudoctor.lint.values.base import Value
from gpudoctor.lint.values.way import Event
from gpudoctor.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemRead(Event):
    """A data set of the project reads a file, here, for each item that it is asked for."""

    dataset: Value
    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ItemOnGpu(Event):
    """A data set of the project puts each item on a GPU, here, or the function does that makes batches of a loader."""

    loader: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Streamed(Event):
    """A stream or a sampler of the project (`source`) was followed through its `__iter__`."""

    source: Value
    same_on_ranks: bool
    """It gives all that it holds, once, and nothing in it depends on the rank."""
    same_in_workers: bool
    """Nor on the worker of a loader."""
    by_pieces: bool
    """It gives all of one piece after the other, as many as each has: `for path in files: for line in open(path)`."""
    by_epoch: bool = False
    """A sampler that draws its order anew each time, from a seed which nothing but its `set_epoch` changes."""
