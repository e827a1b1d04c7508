"""What the figures mean: thresholds, each with its source, and the verdicts that follow. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from gpudoctor.probe.inventory.speeds import nvlink_speed
from gpudoctor.probe.measurement_plan import World
from gpudoctor.probe.results import Bandwidth, Check, ProbedMachine, StepResult, Utilisation, Verdict
from gpudoctor.probe.step_figures import efficiency_range, noisy
from gpudoctor.record import dataclass

NOISE = 0.05
"""Half a confidence interval, as a share of the figure, from which on nothing is concluded."""
EXPOSED = 0.10
WAITING = 0.05
BUSY = 50.0
ADVISER = "the limits of PyTorch's former profiler adviser (kineto tb_plugin)"
PLATEAU = 64 << 20


@dataclass(frozen=True)
class Band:
    """Efficiency of DDP on this kind of connection: from `good` on it passes, below `poor` it fails."""

    good: float
    poor: float
    of: str


NVLINK = Band(0.90, 0.80, "GPUs joined by NVLink")
SWITCH = Band(0.75, 0.55, "GPUs below one PCIe switch or host bridge")
FAR = Band(0.60, 0.35, "GPUs without direct access to each other, or on several sockets")
BANDS = "DDP on 8 DGX V100: 93 % of linear (pytorch/benchmarks/distributed/ddp); the bands by connection are ours"

# GB/s in one direction between two GPUs; a ring of collectives is expected to reach `_REACHED` of it.
_NVLINK_SPEED = {
    "V100": 150.0,
    "A100": 300.0,
    "A800": 200.0,
    "H100": 450.0,
    "H200": 450.0,
    "H800": 200.0,
    "B200": 900.0,
}
_REACHED = 0.7
LINKS_COUNTED = "the NVLinks that NVML counts, of which collectives reach 75 to 85 % (stas00/ml-engineering, network)"
LINKS = "NVLink in one direction by model, of which collectives reach 75 to 85 % (stas00/ml-engineering, network)"


def connection(machines: Sequence[ProbedMachine]) -> Band | None:
    """The weakest connection between GPUs of one node; None where the inventory does not know."""
    kinds = {str(link.kind.value) for machine in machines for link in machine.links if link.kind.value is not None}
    if not kinds or len(machines) > 1:
        return None
    if all(kind.startswith("NV") for kind in kinds):
        return NVLINK
    direct = all(link.p2p.value in (True, "ok", "OK", "yes", None) for machine in machines for link in machine.links)
    near = all(kind.startswith("NV") or kind in ("PIX", "PXB", "PHB") for kind in kinds)
    return SWITCH if near and direct else FAR


def judged(
    world: World, machines: Sequence[ProbedMachine], steps: Sequence[StepResult], bandwidth: Sequence[Bandwidth]
) -> tuple[Check, ...]:
    """All verdicts that follow from figures, in the order in which they are shown."""
    return tuple(_judged(world, machines, steps, bandwidth))


def _judged(
    world: World, machines: Sequence[ProbedMachine], steps: Sequence[StepResult], bandwidth: Sequence[Bandwidth]
) -> Iterator[Check]:
    if steps:
        yield training_works(steps)
    yield ddp_efficiency(world, connection(machines), steps, "weak")
    yield ddp_efficiency(world, connection(machines), steps, "strong")
    yield exposed_communication(world, steps)
    yield gpus_busy(world, steps)
    yield bus_bandwidth(world, machines, bandwidth)


def training_works(steps: Sequence[StepResult]) -> Check:
    """Every reference step must learn: it trains on the same batch again and again, so the loss has to fall."""
    bad = [row for row in steps if not _learns(row)]
    if not bad:
        return Check(
            "training-works", Verdict.PASS, float(len(steps)), "trials", "the loss falls",
            reason=f"the loss falls in all {len(steps)} trials",
        )  # fmt: skip
    row = bad[0]
    return Check(
        "training-works",
        Verdict.FAIL,
        float(len(steps) - len(bad)),
        "trials",
        f"the loss falls in all {len(steps)}",
        "each trial trains on one batch again and again",
        f"{row.workload} with {row.strategy} on {row.world_size}: the loss went {row.first_loss} to {row.last_loss}",
        "see the checks `device-arithmetic` and `gradients-match`",
    )


def _learns(row: StepResult) -> bool:
    if row.first_loss is None or row.last_loss is None:
        return False
    return math.isfinite(row.last_loss) and row.last_loss < row.first_loss


def ddp_efficiency(world: World, band: Band | None, steps: Sequence[StepResult], scaling: str) -> Check:
    """Throughput on all devices over that of one bare device times their number, for the heaviest workload."""
    name = "ddp-efficiency" if scaling == "weak" else "ddp-strong-efficiency"
    reason = _not_judged(world)
    row, alone = _widest(steps, scaling)
    if reason or row is None or alone is None or row.efficiency is None:
        return Check(name, Verdict.SKIPPED, reason=reason or "not measured")
    band = band or FAR
    low, high = efficiency_range(row, alone)
    figure = f"{row.workload} on {row.world_size} GPUs reaches {row.efficiency:.0%} of linear ({low:.0%} to {high:.0%})"
    expectation = f">= {band.good:.0%} with {band.of}"
    # Between the bands of good and poor, and for a total batch that gets thinner with each GPU, a warning is enough.
    poor = band.poor if scaling == "weak" else 0.0
    verdict = _band_verdict(low, high, band.good, poor)
    if noisy(row.samples_per_second, NOISE) or noisy(alone.samples_per_second, NOISE):
        verdict = Verdict.INCONCLUSIVE
    remedy = {
        Verdict.PASS: "",
        Verdict.INCONCLUSIVE: "measure again while nothing else runs: `gpudoctor probe --thorough`",
    }.get(verdict, "compare the checks `bus-bandwidth` and `exposed-communication`; a larger batch a GPU hides more")
    return Check(name, verdict, round(row.efficiency, 3), "of linear", expectation, BANDS, figure, remedy)


def _band_verdict(low: float, high: float, good: float, poor: float) -> Verdict:
    """Clear of the noise: a pass, a fail, or a warning; on both sides of a border, what is certain of it."""
    if low >= good:
        return Verdict.PASS
    if high < poor:
        return Verdict.FAIL
    return Verdict.WARN if high < good else Verdict.INCONCLUSIVE


def _widest(steps: Sequence[StepResult], scaling: str) -> tuple[StepResult | None, StepResult | None]:
    """DDP on the most devices, of the heaviest workload, and its single device."""
    order = {"linear": 0, "cifar10": 1, "transformer": 2}
    rows = [row for row in steps if row.strategy == "ddp" and row.scaling == scaling and row.world_size > 1]
    row = max(rows, key=lambda row: (order.get(row.workload, 0), row.world_size), default=None)
    if row is None:
        return None, None
    return row, next((each for each in steps if each.strategy == "single" and each.workload == row.workload), None)


def _not_judged(world: World) -> str:
    """Why speed is not judged here; empty where it is."""
    if world.device == "cpu":
        return "speed is not judged on a CPU"
    if world.shared:
        return "the ranks share one GPU, so speed says nothing"
    return "there is one GPU only" if world.size == 1 else ""


def exposed_communication(world: World, steps: Sequence[StepResult]) -> Check:
    """The share of a DDP step that goes away when gradients are not averaged."""
    name = "exposed-communication"
    row, _ = _widest(steps, "weak")
    if _not_judged(world) or row is None or row.exposed_communication is None:
        return Check(name, Verdict.SKIPPED, reason=_not_judged(world) or "not measured")
    share = row.exposed_communication
    verdict = Verdict.PASS if share <= EXPOSED else Verdict.WARN
    if noisy(row.samples_per_second, NOISE):
        verdict = Verdict.INCONCLUSIVE
    reason = f"{share:.0%} of a step of {row.workload} on {row.world_size} GPUs is waiting for gradients"
    remedy = (
        "" if verdict is Verdict.PASS else "a larger batch a GPU, gradient accumulation with `no_sync()`, or bfloat16"
    )
    return Check(name, verdict, round(share, 3), "of the step", f"<= {EXPOSED:.0%}", ADVISER, reason, remedy)


def gpus_busy(world: World, steps: Sequence[StepResult]) -> Check:
    """Every GPU must have been at work during the widest step: the proof of real use."""
    name = "gpus-busy"
    if world.device == "cpu":
        return Check(name, Verdict.SKIPPED, reason="there is no GPU")
    row = max(
        (each for each in steps if _told(each)), key=lambda each: (each.world_size, len(_told(each))), default=None
    )
    seen = _told(row) if row else []
    if row is None or not seen:
        return Check(name, Verdict.INCONCLUSIVE, reason="no utilisation was sampled: NVML is missing or too slow")
    # One rank alone uses one GPU: the others idle rightly.
    seen = sorted(seen, key=lambda each: -(each.mean or 0.0))[: row.world_size]
    least = min(seen, key=lambda each: each.mean or 0.0)
    share = least.mean or 0.0
    enough = share >= BUSY and (world.shared or len(seen) >= row.world_size)
    reason = f"every GPU worked during {row.workload}, the least busy one {share:.0f} % of the time"
    if not enough:
        reason = f"{least.uuid} worked {share:.0f} % of the time during {row.workload} on {row.world_size}"
    return Check(
        name,
        Verdict.PASS if enough else Verdict.WARN,
        round(share, 1),
        "%",
        f">= {BUSY:.0f} % on each",
        ADVISER,
        reason,
        ""
        if enough
        else "see `nvidia-smi dmon`: a GPU that idles in the reference step waits for the others or is not used",
    )


def _told(row: StepResult) -> list[Utilisation]:
    """The GPUs of which enough was seen during this trial."""
    return [each for each in row.utilisation if each.mean is not None] if row.meaningful else []


def bus_bandwidth(world: World, machines: Sequence[ProbedMachine], rows: Iterable[Bandwidth]) -> Check:
    """all_reduce of large messages against what the links between these GPUs can do."""
    name = "bus-bandwidth"
    large = [row for row in rows if row.collective == "all_reduce" and row.bytes >= PLATEAU]
    if _not_judged(world) or not large:
        return Check(name, Verdict.SKIPPED, reason=_not_judged(world) or "no message was large enough to judge by")
    best = max(row.busbw for row in large)
    speed, source = link_speed(machines)
    reason = f"all_reduce of {large[-1].bytes >> 20} MiB reaches {best:.1f} GB/s on the bus"
    if speed is None:
        return Check(
            name, Verdict.INCONCLUSIVE, round(best, 2), "GB/s", reason=f"{reason}; what the links can do is unknown"
        )
    wanted = _REACHED * speed
    verdict = Verdict.PASS if best >= wanted else Verdict.WARN if best >= wanted / 2 else Verdict.FAIL
    remedy = "" if verdict is Verdict.PASS else "`nvidia-smi topo -m` and `NCCL_DEBUG=INFO` show which path NCCL takes"
    return Check(
        name, verdict, round(best, 2), "GB/s", f">= {wanted:.0f}, {_REACHED:.0%} of {speed:.0f}", source, reason, remedy
    )


def link_speed(machines: Sequence[ProbedMachine]) -> tuple[float | None, str]:
    """GB/s in one direction that the weakest connection of a node should carry, and where that is known from."""
    if len(machines) != 1 or connection(machines) is not NVLINK:
        return _pcie_speed(machines), "the PCIe links as NVML sees them, one direction"
    # A card with a bridge has fewer links than its sister on a board.
    counted = nvlink_speed(machines[0])
    if counted is not None:
        return counted, LINKS_COUNTED
    names = [str(gpu.facts["name"].value) for gpu in machines[0].gpus if "name" in gpu.facts]
    speeds = [next((speed for model, speed in _NVLINK_SPEED.items() if model in name), None) for name in names]
    known = [speed for speed in speeds if speed is not None]
    return (min(known), LINKS) if known and len(known) == len(names) else (None, "")


def expected_bandwidth(machines: Sequence[ProbedMachine]) -> tuple[float | None, str]:
    """GB/s on the bus that collectives should reach with large messages, and where that is known from."""
    speed, source = link_speed(machines)
    return (None if speed is None else _REACHED * speed), source


def _pcie_speed(machines: Sequence[ProbedMachine]) -> float | None:
    """The narrowest PCIe link: 0.985 GB/s a lane for generation 3, twice as much for each one after it."""
    if len(machines) != 1:
        return None
    found = []
    for gpu in machines[0].gpus:
        generation, width = gpu.facts.get("pcie_max_generation"), gpu.facts.get("pcie_max_width")
        if generation is None or width is None or not generation.value or not width.value:
            return None
        found.append(0.985 * 2.0 ** (int(str(generation.value)) - 3) * int(str(width.value)))
    return min(found, default=None)
