"""What a probe finds out, as plain frozen data; `document.py` writes it as JSON.

Units are part of the name or stand in the docstring of each field: seconds, bytes, GB/s (10^9 bytes), samples/s.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

from gpudoctor.record import dataclass, field

SCHEMA_VERSION = 1


class Verdict(enum.Enum):
    """How a check ended. `skipped` does not apply here; `inconclusive` could not be told, which is never a pass."""

    PASS = "pass"
    WARN = "warn"
    FAIL = "fail"
    SKIPPED = "skipped"
    INCONCLUSIVE = "inconclusive"


@dataclass(frozen=True)
class Check:
    """One verdict.

    `figure` is what was measured, in `unit`; `expectation` is what it was held against and `source` where that comes
    from; `reason` says in plain words why the verdict is what it is, and `remedy` what to do, with a command to type
    where there is one. `full_name` says where the check belongs, by domain and level: `gpu/sanity/device-arithmetic`.
    `node` is the host it holds for, empty where it holds for all ranks together. `details` is for
    who looks closer: a traceback, the stacks of a rank that hangs, the last lines of its output.
    """

    name: str
    verdict: Verdict
    figure: float | None = None
    unit: str = ""
    expectation: str = ""
    source: str = ""
    reason: str = ""
    remedy: str = ""
    node: str = ""
    details: str = ""
    full_name: str = ""


@dataclass(frozen=True)
class Fact:
    """One field of the inventory: its value, or why there is none ("not available, because ...")."""

    value: str | int | float | bool | list[str] | None
    because: str = ""


@dataclass(frozen=True)
class ProbedGpu:
    """One GPU as NVML and torch see it. `uuid` is the key that both share; `index` counts in NVML's (PCI) order."""

    published_as = "Gpu"

    index: int
    uuid: str
    facts: Mapping[str, Fact]


@dataclass(frozen=True)
class Link:
    """How two GPUs are connected: `kind` is NV#, PIX, PXB, PHB, NODE or SYS, `p2p` what peer access works."""

    a: str
    b: str
    kind: Fact
    p2p: Fact


@dataclass(frozen=True)
class ProbedVariable:
    """An environment variable that matters for training, and what it does on this machine."""

    published_as = "Variable"

    name: str
    value: str
    meaning: str


@dataclass(frozen=True)
class ProbedMachine:
    """The inventory of one node. `torch` and `system` hold named facts; `gpus` is empty where none is visible.

    `weak` is what the inventory alone says is wrong with it.
    """

    published_as = "Machine"

    host: str
    gpus: tuple[ProbedGpu, ...] = ()
    links: tuple[Link, ...] = ()
    system: Mapping[str, Fact] = field(default_factory=dict)
    torch: Mapping[str, Fact] = field(default_factory=dict)
    environment: tuple[ProbedVariable, ...] = ()
    weak: tuple[Check, ...] = ()

    @property
    def visible(self) -> int:
        """How many GPUs torch may use here."""
        return len(self._visible)

    def used_by(self, ranks: int) -> list[str]:
        """The UUIDs of the GPUs that so many ranks use: those that are hidden from torch or left over idle rightly."""
        return self._visible[:ranks]

    @property
    def _visible(self) -> list[str]:
        fact = self.torch.get("visible_gpus")
        return fact.value if fact is not None and isinstance(fact.value, list) else []


@dataclass(frozen=True)
class Interval:
    """A measured figure: the mean of `n` blocks and the 95 % confidence interval around it."""

    mean: float
    low: float
    high: float
    n: int

    @property
    def spread(self) -> float:
        """Half the width of the interval, as a share of the mean; infinite where nothing is known."""
        # Of the upper half: the lower one ends at zero.
        return (self.high - self.mean) / self.mean if self.mean > 0 else float("inf")


@dataclass(frozen=True)
class Utilisation:
    """One GPU during a step: percent of time in which a kernel ran, as NVML saw it, and every sample of it.

    `samples` are pairs of seconds since the step began and percent. `mean` is None where there were none.
    """

    uuid: str
    mean: float | None
    samples: tuple[tuple[float, float], ...] = ()


@dataclass(frozen=True)
class StepResult:
    """A reference training step, measured.

    `workload` is linear, cifar10 or transformer; `strategy` single, data_parallel, ddp or fsdp2; `world_size` the
    number of devices that took part. `scaling` is weak (batch per device kept) or strong (total batch kept).
    `efficiency` is throughput over `world_size` times that of one device without any wrapper; `exposed_communication`
    and `loader_wait` are shares of the step; memory is in bytes. None means not measured; `note` says why, or what
    a figure is not good for. `meaningful` is False where speed says nothing: on a CPU, or on a shared GPU.
    """

    workload: str
    strategy: str
    world_size: int
    scaling: str = "weak"
    device: str = "cpu"
    batch_per_device: int = 0
    steps: int = 0
    samples_per_second: Interval | None = None
    seconds_per_step: float | None = None
    speedup: float | None = None
    efficiency: float | None = None
    exposed_communication: float | None = None
    loader_wait: float | None = None
    peak_memory: int | None = None
    tflops: float | None = None
    ceiling_tflops: float | None = None
    first_loss: float | None = None
    last_loss: float | None = None
    accuracy: float | None = None
    seconds_per_epoch: float | None = None
    utilisation: tuple[Utilisation, ...] = ()
    meaningful: bool = True
    note: str = ""


@dataclass(frozen=True)
class Bandwidth:
    """One collective at one size: `bytes` is S of nccl-tests' formulas, both bandwidths are in GB/s (10^9 bytes)."""

    collective: str
    dtype: str
    bytes: int
    world_size: int
    seconds: float
    algbw: float
    busbw: float
    backend: str = ""
    meaningful: bool = True


@dataclass(frozen=True)
class ProbeFinding:
    """What is wrong with the machine, in the words of the other commands: one for each check that warns or fails."""

    published_as = "Finding"

    name: str
    severity: str
    message: str
    remedy: str
    node: str = ""
    seen_in: str = "machine"


class Direction(enum.Enum):
    """What became of something since an earlier probe. `other` is neither better nor worse: it was not judged."""

    WORSE = "worse"
    BETTER = "better"
    OTHER = "other"
    NEW = "new"
    GONE = "gone"


@dataclass(frozen=True)
class Change:
    """One thing that differs from an earlier probe by more than noise.

    `before` and `after` are figures in `unit`, or verdicts; `relative` is the share by which a figure went up, or
    down where it is negative. `because` says why this is more than noise, or what the check itself says now.
    """

    what: str
    direction: Direction
    before: float | str | None = None
    after: float | str | None = None
    unit: str = ""
    relative: float | None = None
    because: str = ""


@dataclass(frozen=True)
class Comparison:
    """This probe against an earlier one, whose report lies in `against`.

    `surroundings` says what else is not as it was: another machine, driver or version of torch. `same` counts the
    figures and verdicts that were compared and are as they were; `notes` says what could not be compared, and why.
    """

    against: str
    changes: tuple[Change, ...] = ()
    surroundings: tuple[str, ...] = ()
    same: int = 0
    notes: tuple[str, ...] = ()

    def of(self, direction: Direction) -> tuple[Change, ...]:
        """The changes in this direction."""
        return tuple(change for change in self.changes if change.direction is direction)


@dataclass(frozen=True)
class ProbeReport:
    """All that a probe found out. `machine` has one entry a node, `notes` says what was not examined and why.

    `comparison` is there where an earlier report was given to compare with. `started` is when the examination began,
    in UTC (ISO 8601), empty in reports that were written before it was told; `seconds` is how long it took.
    """

    machine: tuple[ProbedMachine, ...]
    checks: tuple[Check, ...] = ()
    steps: tuple[StepResult, ...] = ()
    bandwidth: tuple[Bandwidth, ...] = ()
    notes: tuple[str, ...] = ()
    world_size: int = 0
    backend: str = ""
    device: str = ""
    started: str = ""
    seconds: float = 0.0
    interrupted: bool = False
    comparison: Comparison | None = None

    @property
    def findings(self) -> tuple[ProbeFinding, ...]:
        """The checks that warn or fail, as findings."""
        severities = {Verdict.FAIL: "error", Verdict.WARN: "warning"}
        return tuple(
            ProbeFinding(check.name, severities[check.verdict], check.reason, check.remedy, check.node)
            for check in self.checks
            if check.verdict in severities
        )

    @property
    def not_judged(self) -> dict[tuple[Verdict, str], list[Check]]:
        """The checks that were never reached or skipped, with nothing to do about it, by why that is."""
        found: dict[tuple[Verdict, str], list[Check]] = {}
        for verdict in (Verdict.INCONCLUSIVE, Verdict.SKIPPED):
            for check in self.checks:
                if check.verdict is verdict and not (check.remedy or check.expectation or check.details):
                    found.setdefault((verdict, check.reason), []).append(check)
        return found

    @property
    def failed(self) -> bool:
        """Whether any check failed."""
        return any(check.verdict is Verdict.FAIL for check in self.checks)
