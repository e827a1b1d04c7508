"""The stages of a probe in their order: the same list in the parent, which waits for them, and on every rank."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpudoctor.probe.checks import EXAMINATIONS, SWEEP
from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.epochs import epochs_of
from gpudoctor.probe.measurement_plan import MeasurementPlan
from gpudoctor.probe.reference_step import Trial, trials_of
from gpudoctor.record import dataclass

START = "start"
START_SECONDS = 90.0
"""Loading torch from a cold disk and opening the first connection; NCCL may take half a minute alone."""


@dataclass(frozen=True)
class Stage:
    """What all ranks do together: its name, what it asks, the work, and the seconds after which it counts as hung."""

    name: str
    asks: str
    work: Callable[[Context], Facts]
    seconds: float


def stages_of(plan: MeasurementPlan) -> tuple[Stage, ...]:
    """The stages that are left to do."""
    return tuple(stage for stage in _all(plan) if not plan.only or stage.name in plan.only)


def _all(plan: MeasurementPlan) -> Iterator[Stage]:
    for each in EXAMINATIONS:
        if each.thorough and plan.pace_name != "thorough":
            continue
        yield Stage(each.name, each.asks, each.work, each.seconds)
    for trial in trials_of(plan):
        yield Stage(trial.name, trial.asks, trial.work, trial.seconds(plan.pace_of(trial.strategy)))
    for epoch in epochs_of(plan):
        yield Stage(epoch.name, epoch.asks, epoch.work, epoch.seconds)
    yield Stage(SWEEP.name, SWEEP.asks, SWEEP.work, SWEEP.seconds)


def trials_by_name(plan: MeasurementPlan) -> dict[str, Trial]:
    """The trials of training, by the name of their stage."""
    return {trial.name: trial for trial in trials_of(plan)}
