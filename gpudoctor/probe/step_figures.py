"""From what the ranks measured in a trial to the figures of the report. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from gpudoctor.probe.measure import interval, worst
from gpudoctor.probe.measurement_plan import World
from gpudoctor.probe.reference_step import Trial
from gpudoctor.probe.results import Interval, StepResult, Utilisation
from gpudoctor.record import replace

Samples = Mapping[str, Sequence[tuple[float, float]]]
"""Utilisation by GPU: pairs of `time.time()` and percent."""

_LOOKS_BACK = 1.0
_ENOUGH = 4
"""Samples of utilisation below which nothing is said."""

CPU_NOTE = "on a CPU: shows that it works, not how fast"
SHARED_NOTE = "several ranks share one GPU: shows that it works, not how fast"


def step_result(trial: Trial, ranks: Mapping[int, Mapping[str, Any]], world: World, samples: Samples) -> StepResult:
    """One row of the table, without what needs the other rows (speed-up, efficiency)."""
    parts = [facts for _, facts in sorted(ranks.items()) if facts.get("seconds")]
    first = parts[0]
    # A step is over when the slowest rank has done it.
    blocks = [max(block) for block in zip(*(facts["seconds"] for facts in parts), strict=True)]
    each = [block / first["steps"] for block in blocks]
    mean = sum(each) / len(each)
    peaks = [facts["peak_memory"] for facts in parts if facts["peak_memory"] is not None]
    return StepResult(
        workload=trial.workload,
        strategy=trial.strategy,
        world_size=trial.size,
        scaling=trial.scaling,
        device=world.device,
        batch_per_device=first["batch_per_device"],
        steps=first["steps"] * len(blocks),
        samples_per_second=interval([first["samples_a_step"] / seconds for seconds in each]),
        seconds_per_step=mean,
        exposed_communication=_exposed(parts, mean),
        peak_memory=max(peaks, default=None),
        tflops=first["flops_a_step"] / mean / 1e12 if first["flops_a_step"] else None,
        first_loss=max(facts["first_loss"] for facts in parts),
        last_loss=worst(facts["last_loss"] for facts in parts),
        utilisation=_utilisation(samples, first["began"], first["ended"]),
        meaningful=world.meaningful_for(trial.strategy),
        note="" if world.meaningful_for(trial.strategy) else SHARED_NOTE if world.shared else CPU_NOTE,
    )


def _exposed(parts: Sequence[Mapping[str, Any]], mean: float) -> float | None:
    """The share of the step that goes when gradients are not averaged; None where that was not measured."""
    bare = [facts["seconds_without_communication"] for facts in parts if facts.get("seconds_without_communication")]
    if not bare:
        return None
    blocks = [max(block) / parts[0]["steps"] for block in zip(*bare, strict=True)]
    without: float = sum(blocks) / len(blocks)
    return max(0.0, 1 - without / mean)


def _utilisation(samples: Samples, began: float, ended: float) -> tuple[Utilisation, ...]:
    found = []
    for uuid, every in samples.items():
        during = tuple((at - began, percent) for at, percent in every if began <= at <= ended)
        # The driver looks back for up to a second: what it says before that is about the time before.
        settled = [percent for at, percent in during if at >= _LOOKS_BACK]
        mean = sum(settled) / len(settled) if len(settled) >= _ENOUGH else None
        found.append(Utilisation(uuid, mean, during))
    return tuple(found)


def related(steps: Iterable[StepResult], ceiling: float | None) -> tuple[StepResult, ...]:
    """The rows with what compares them: speed-up and efficiency against one bare device, and TFLOP/s of all of them.

    `ceiling` is what one device reaches in a large matrix product, in TFLOP/s.
    """
    rows = tuple(steps)
    alone = {row.workload: row for row in rows if row.strategy == "single"}
    return tuple(_related(row, alone.get(row.workload), ceiling) for row in rows)


def _related(row: StepResult, alone: StepResult | None, ceiling: float | None) -> StepResult:
    if alone is None or row.samples_per_second is None or alone.samples_per_second is None:
        return row
    speedup = row.samples_per_second.mean / alone.samples_per_second.mean
    per_device = alone.tflops * speedup / row.world_size if alone.tflops else None
    return replace(
        row,
        speedup=speedup,
        efficiency=speedup / row.world_size,
        tflops=per_device,
        ceiling_tflops=ceiling if per_device else None,
    )


def efficiency_range(row: StepResult, alone: StepResult) -> tuple[float, float]:
    """Between which values the efficiency lies, with the noise of both measurements."""
    one, other = row.samples_per_second, alone.samples_per_second
    if one is None or other is None or other.low <= 0:
        return 0.0, float("inf")
    return max(0.0, one.low) / other.high / row.world_size, one.high / other.low / row.world_size


def noisy(figure: Interval | None, allowed: float) -> bool:
    """Whether the interval is so wide that nothing can be said."""
    return figure is None or figure.spread > allowed
