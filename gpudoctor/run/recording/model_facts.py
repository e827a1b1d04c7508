"""What was seen of models: layers that nobody holds, statistics of batches, searches of the graph."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Hidden:
    """Layers in a list or dict of a model: gradients are computed for them, and no optimizer holds them."""

    model: str
    attribute: str
    layers: int
    place: Location | None


@dataclass(frozen=True)
class LayersCutUp:
    """Layers were cut up among these ranks, which work on each batch together."""

    ranks: tuple[int, ...]
    place: Location | None


@dataclass(frozen=True)
class Norms:
    """Layers of a wrapper that normalise by the batch of their rank. `statistics` names what the first has seen."""

    wrapper: int
    step: int
    name: str
    count: int
    statistics: int


@dataclass(frozen=True)
class Search:
    """A wrapper that looks for unused parameters: how many bytes of them it found in this iteration."""

    wrapper: int
    iteration: int
    unused: int
