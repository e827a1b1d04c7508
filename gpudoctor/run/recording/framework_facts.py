"""What was seen of frameworks: what they were told, what was handed to them, and what they were left to do."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class RecordedAccelerator:
    """Accelerate's object, as it was when the program first called its `backward`.

    `steps` is how many batches make a step, `models` how many were prepared until then. `plain` where it trains by
    DDP, and neither shards nor scales.
    """

    steps: int
    processes: int
    plain: bool
    models: int
    place: Location | None


@dataclass(frozen=True)
class DividedAgain:
    """A loss that the program has divided by `steps` was given to a `backward` that divides it by the same number."""

    owner: str
    steps: int
    place: Location | None


@dataclass(frozen=True)
class SharedAgain:
    """A loader whose data was shared out among `replicas` was prepared, which shares it out once more."""

    by: str
    replicas: int
    processes: int
    made: Location | None
    place: Location | None


@dataclass(frozen=True)
class GatheredPadding:
    """Parts of the last batch were gathered, of which only `whole` samples were no repetition."""

    whole: int
    place: Location | None


@dataclass(frozen=True)
class RecordedSchedule:
    """A prepared schedule of learning rates: how often the program stepped it, and how many steps it made of that.

    `over` is the call after which the learning rate was 0 for good, 0 where it is not."""

    number: int
    type: str
    processes: int
    calls: int
    steps: int
    over: int
    made: Location | None
    place: Location | None
    """Where the program steps it."""


@dataclass(frozen=True)
class Drawn:
    """What a sampler drew before Lightning took the share of this rank from it; `digest` names the whole list."""

    sampler: str
    digest: str
    length: int
    place: Location | None


@dataclass(frozen=True)
class RecordedEngine:
    """DeepSpeed's engine: how often the program called its `backward` and its `step`, and at which calls it stepped.

    `steps` is how many batches make a step by its settings; `counts` where it counts them itself."""

    number: int
    steps: int
    counts: bool
    backwards: int
    calls: int
    place: Location | None
    """Where the program calls `step`."""
