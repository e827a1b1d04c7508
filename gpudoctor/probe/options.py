"""What the user asks for, and what of it can be examined on a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from gpudoctor.probe.journal import RankState
from gpudoctor.probe.launch import WORKER
from gpudoctor.probe.measurement_plan import DEFAULT_STRATEGIES, WORKLOADS, MeasurementPlan, World
from gpudoctor.record import dataclass, field

if TYPE_CHECKING:
    from gpudoctor.probe.results import ProbedMachine


@dataclass(frozen=True)
class Wishes:
    """What the user asks for. `ranks` of None takes all GPUs, or two ranks on the CPU; `timeout` is for one stage."""

    ranks: int | None = None
    workloads: tuple[str, ...] = WORKLOADS
    strategies: tuple[str, ...] = DEFAULT_STRATEGIES
    pace: str = "normal"
    data: str = ""
    timeout: float | None = None
    only: tuple[str, ...] = ()
    worker: str = WORKER


@dataclass(frozen=True)
class News:
    """What is told while the probe is at work: what it does, and which ranks are how far."""

    doing: str
    done: int = 0
    of: int = 0
    states: Mapping[int, RankState] = field(default_factory=dict)


Teller = Callable[[News], None]


def plan_for(machine: ProbedMachine, wishes: Wishes) -> MeasurementPlan:
    """Who takes part on this machine: all GPUs with NCCL, two ranks that share one, or two on the CPU with gloo."""
    gpus = machine.visible
    if gpus == 0:
        count, backend, device, shared = wishes.ranks or 2, "gloo", "cpu", False
    else:
        count = wishes.ranks or max(2, gpus)
        shared = count > gpus
        backend, device = ("gloo" if shared else "nccl"), "cuda"
    world = World((machine.host,) * count, tuple(range(count)), backend, device, shared)
    return MeasurementPlan(world, wishes.workloads, wishes.strategies, wishes.pace, wishes.data, wishes.only)
