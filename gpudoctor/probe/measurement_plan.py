"""What will be examined: who takes part, on which devices, how thoroughly. Plain data that parent and ranks share.

How the time is budgeted: a stage of training takes `warm_up` steps and then `blocks` blocks of `block_seconds`, so
eight GPUs with the normal pace take about 12 stages of 2 s, 12 s of checks and bandwidth, and 20 s to start.
"""

from __future__ import annotations

import json

from gpudoctor.plain import from_plain, plain
from gpudoctor.record import dataclass

WORKLOADS = ("linear", "cifar10", "transformer")
STRATEGIES = ("single", "data_parallel", "ddp", "fsdp2")
DEFAULT_STRATEGIES = ("single", "data_parallel", "ddp")


@dataclass(frozen=True)
class Pace:
    """How long the measured part takes: steps before the clock starts, blocks, and seconds a block should take.

    `use_seconds` is for how long the devices are kept at work where their utilisation is to be seen: the driver looks
    back for up to a second, and is asked four times a second.
    """

    warm_up: int
    blocks: int
    block_seconds: float
    largest_message: int
    """Bytes of the largest message of the bandwidth sweep."""
    use_seconds: float


PACES = {
    "quick": Pace(5, 5, 0.1, 1 << 26, 2.5),
    "normal": Pace(10, 8, 0.15, 1 << 28, 5.0),
    "thorough": Pace(20, 15, 0.4, 1 << 30, 10.0),
}
ON_CPU = Pace(1, 3, 0.02, 1 << 20, 0.0)
"""Speed is not judged there: enough to see that every path works."""


@dataclass(frozen=True)
class World:
    """Who takes part. `nodes` names the host of each rank, `local_ranks` its number on its node.

    `shared` says that several ranks share one GPU, which NCCL refuses and where speed says nothing.
    """

    nodes: tuple[str, ...]
    local_ranks: tuple[int, ...]
    backend: str = "gloo"
    device: str = "cpu"
    shared: bool = False

    @property
    def size(self) -> int:
        """How many ranks there are."""
        return len(self.nodes)

    @property
    def meaningful(self) -> bool:
        """Whether speed says anything: every rank has a GPU of its own."""
        return self.device == "cuda" and not self.shared

    def meaningful_for(self, strategy: str) -> bool:
        """Whether the speed of a strategy says anything: a single rank has a shared GPU to itself."""
        return self.meaningful or (self.device == "cuda" and strategy == "single")


@dataclass(frozen=True)
class MeasurementPlan:
    """All that the ranks need to know; the same on each of them."""

    world: World
    workloads: tuple[str, ...] = WORKLOADS
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES
    pace_name: str = "normal"
    data: str = ""
    """The folder of the CIFAR-10 files, or nothing for synthetic data."""
    only: tuple[str, ...] = ()
    """The stages that are left to do, where an earlier start has done the others; empty for all."""

    @property
    def pace(self) -> Pace:
        """How long to measure what all ranks do together."""
        return PACES[self.pace_name] if self.world.meaningful else ON_CPU

    def pace_of(self, strategy: str) -> Pace:
        """How long to measure a strategy: one rank alone has a shared GPU to itself."""
        return PACES[self.pace_name] if self.world.meaningful_for(strategy) else ON_CPU


def written(plan: MeasurementPlan) -> str:
    """The plan as text for the ranks."""
    return json.dumps(plain(plan))


def read(text: str) -> MeasurementPlan:
    """The plan that `written` made into text."""
    return from_plain(MeasurementPlan, json.loads(text))


def world_sizes(largest: int) -> tuple[int, ...]:
    """1, 2, 4 ... and `largest` itself."""
    sizes = [1]
    while sizes[-1] * 2 < largest:
        sizes.append(sizes[-1] * 2)
    return (*sizes, largest) if largest > 1 else (1,)
