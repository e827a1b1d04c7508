"""What was seen of random numbers: what was seeded, what the generators held, and what was split at random."""

from __future__ import annotations

from collections.abc import Mapping

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Seed:
    """The seed of torch was set, after so many steps."""

    seed: int
    step: int
    place: Location | None


@dataclass(frozen=True)
class GeneratorStates:
    """Names of the states of torch's generators (`cuda` is its GPU's), of Python's and of numpy's, after a step."""

    step: int
    states: Mapping[str, str]


@dataclass(frozen=True)
class RecordedSplit:
    """A data set was split at random into these parts."""

    parts: tuple[int, ...]
    place: Location | None
