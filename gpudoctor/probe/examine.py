"""The probe as an outline: take stock, decide what can be examined here, start ranks, judge what they found."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import time
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from gpudoctor.probe import epochs, inventory, verdict
from gpudoctor.probe.blame import stuck, verdict_of
from gpudoctor.probe.checks import EXAMINATIONS, SWEEP, bandwidth
from gpudoctor.probe.checks.base import Examination, Seen
from gpudoctor.probe.join import take_part
from gpudoctor.probe.journal import RankState
from gpudoctor.probe.launch import MOST_ROUNDS, WORKER, Launcher, left_after, run_round
from gpudoctor.probe.place import advice
from gpudoctor.probe.plan import DEFAULT_STRATEGIES, WORKLOADS, Plan, World
from gpudoctor.probe.results import Bandwidth, Check, Machine, Report, StepResult, Verdict
from gpudoctor.probe.stages import START, stages_of, trials_by_name
from gpudoctor.probe.steps import related, step_result
from gpudoctor.record import dataclass, field, replace

if TYPE_CHECKING:
    from gpudoctor.probe.place import Place

EXPERIMENTS: dict[str, dict[str, str]] = {
    "nccl": {
        "NCCL_P2P_DISABLE": "copies between GPUs hang: switch off ACS (BIOS) or the IOMMU (`iommu=off`)",
        "NCCL_SHM_DISABLE": "shared memory is too small or broken: `docker run --shm-size=8g`, or `--ipc=host`",
    }
}
"""What is switched off, by backend, where all ranks hang in a collective; with what its success means."""
INSTALL = "pip install torch nvidia-ml-py psutil"


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


def _silent(news: News) -> None:
    return


def examine(wishes: Wishes, tell: Teller = _silent) -> Report:
    """Examine this machine with ranks of our own."""
    started, began = now(), time.monotonic()
    tell(News("taking stock of the machine"))
    with launcher_at_hand() as launcher:
        report = _own_ranks(wishes, tell, launcher)
    return replace(report, started=started, seconds=round(time.monotonic() - began, 2))


@contextlib.contextmanager
def launcher_at_hand() -> Iterator[Launcher | None]:
    """A launcher that loads torch while something else is done, which takes as long; None where there is no torch."""
    if importlib.util.find_spec("torch") is None:
        yield None
        return
    with Launcher() as launcher:
        yield launcher


def _own_ranks(wishes: Wishes, tell: Teller, launcher: Launcher | None) -> Report:
    machine = inventory.take_stock()
    weak = inventory.weak_points(machine)
    elsewhere = advice(os.environ)
    report = Report(machine=(machine,), checks=weak, notes=(elsewhere,) if elsewhere else ())
    if _torch_missing(machine):
        report = replace(
            report, notes=(*report.notes, f"torch is not installed, so that nothing was trained: {INSTALL}")
        )
    else:
        report = _with_ranks(report, plan_for(machine, wishes), wishes, tell, launcher)
    return report


def examine_given(place: Place, wishes: Wishes, tell: Teller = _silent) -> Report | None:
    """Examine as one of the ranks that somebody else has started; the report on the first of them, None on others."""
    started, began = now(), time.monotonic()
    if importlib.util.find_spec("torch") is None:
        return examine(wishes, tell) if place.rank == 0 else None
    tell(News(f"waiting for {place.size} ranks of {place.by}"))
    joint = take_part(
        place,
        lambda world: Plan(world, wishes.workloads, wishes.strategies, wishes.pace, wishes.data, wishes.only),
        timeout=wishes.timeout,
        worker=wishes.worker,
        watcher=lambda states: tell(News(next(iter(states.values())).stage or "starting", states=states)),
    )
    if joint is None:
        return None
    backend, states = joint.plan.world.backend, {rank: RankState(rank) for rank in range(place.size)}
    broken = {}
    for each in joint.rounds:
        take_over(states, each.states)
        if each.broken:
            broken[each.broken] = verdict_of(each.broken, each.states, backend=backend, limit=each.limit)
    weak = tuple(check for machine in joint.machines for check in inventory.weak_points(machine))
    report = Report(joint.machines, (*weak, *joint.load), notes=joint.notes)
    report = concluded(report, joint.plan, states, broken, joint.samples)
    seconds = round(time.monotonic() - began, 2)
    return replace(report, interrupted=joint.interrupted, started=started, seconds=seconds)


def now() -> str:
    """The time in UTC, to the second, as ISO 8601 writes it: 2026-11-22T03:10:14Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def take_over(states: Mapping[int, RankState], later: Mapping[int, RankState]) -> None:
    """Add what the ranks found out in a later start of them."""
    for rank, state in later.items():
        states[rank].done.update(state.done)


def _torch_missing(machine: Machine) -> bool:
    version = machine.torch.get("version")
    return version is None or version.value is None


def plan_for(machine: Machine, wishes: Wishes) -> Plan:
    """Who takes part on this machine: all GPUs with NCCL, two ranks that share one, or two on the CPU with gloo."""
    gpus = machine.visible
    if gpus == 0:
        count, backend, device, shared = wishes.ranks or 2, "gloo", "cpu", False
    else:
        count = wishes.ranks or max(2, gpus)
        shared = count > gpus
        backend, device = ("gloo" if shared else "nccl"), "cuda"
    world = World((machine.host,) * count, tuple(range(count)), backend, device, shared)
    return Plan(world, wishes.workloads, wishes.strategies, wishes.pace, wishes.data, wishes.only)


def _with_ranks(report: Report, plan: Plan, wishes: Wishes, tell: Teller, launcher: Launcher | None) -> Report:
    """The report with what ranks on this machine found out."""
    with inventory.Sampler(report.machine[0].used_by(plan.world.size)) as sampler:
        rounds = _Rounds(plan, wishes, tell, launcher)
        # What is known until then is worth a report.
        with contextlib.suppress(KeyboardInterrupt):
            rounds.run()
    loaded = [check for each in report.machine for check in inventory.weak_points_under_load(each, sampler.moments)]
    report = replace(report, checks=(*report.checks, *loaded))
    found = concluded(report, plan, rounds.states, rounds.broken, sampler.samples)
    return replace(found, interrupted=not rounds.over)


class _Rounds:
    """Starts ranks, and starts them again for the rest where a stage broke."""

    def __init__(self, plan: Plan, wishes: Wishes, tell: Teller, launcher: Launcher | None = None) -> None:
        self.broken: dict[str, Check] = {}
        self.states = {rank: RankState(rank) for rank in range(plan.world.size)}
        """The facts of all rounds, rank by rank."""
        self.over = False
        self._plan, self._wishes, self._tell = plan, wishes, tell
        self._launcher = launcher
        """Good for one start of ranks."""
        self._asks = {stage.name: stage.asks for stage in stages_of(plan)}

    def run(self) -> None:
        """Do all stages that can be done."""
        left = tuple(self._asks)
        for _ in range(MOST_ROUNDS):
            broken = self._round(left)
            if not broken or broken == START:
                break
            left = left_after(left, broken)
            if not left:
                break
        self.over = True

    def _round(self, only: tuple[str, ...]) -> str:
        plan = replace(self._plan, only=only)
        launcher, self._launcher = self._launcher, None
        found = run_round(
            plan, timeout=self._wishes.timeout, worker=self._wishes.worker, watcher=self._watch, launcher=launcher
        )
        if found.broken:
            world = self._plan.world
            check = verdict_of(found.broken, found.states, backend=world.backend, limit=found.limit)
            self.broken[found.broken] = check
            if stuck(found.states):
                self.broken[found.broken] = self._experimented(check, found.broken)
        return found.broken

    def _experimented(self, check: Check, stage: str) -> Check:
        """Try the stage again without a transport, one after the other: the one that it works without is broken."""
        for name, why in EXPERIMENTS.get(self._plan.world.backend, {}).items():
            self._tell(News(f"trying {stage} again with {name}=1"))
            plan = replace(self._plan, only=(stage,))
            found = run_round(plan, timeout=self._wishes.timeout, worker=self._wishes.worker, given={name: "1"})
            if not found.broken:
                remedy = f"{why}; until then, `export {name}=1` works, and costs bandwidth"
                return replace(check, reason=f"{check.reason}; it works with {name}=1", remedy=remedy)
        return check

    def _watch(self, states: Mapping[int, RankState]) -> None:
        take_over(self.states, states)
        names = list(self._asks)
        slowest = min(states.values(), key=lambda state: state.progress)
        done = names.index(slowest.stage) if slowest.stage in names else 0
        self._tell(News(self._asks.get(slowest.stage, f"starting {len(states)} ranks"), done, len(names), states))


def concluded(
    report: Report,
    plan: Plan,
    states: Mapping[int, RankState],
    broken: Mapping[str, Check],
    samples: Mapping[str, list[tuple[float, float]]],
) -> Report:
    """The report with all verdicts, from what the ranks handed over. Pure."""
    facts = {rank: state.done for rank, state in states.items()}
    steps = _steps(plan, facts, samples)
    files = _epochs(plan, facts)
    rows = _rows(plan, facts)
    return replace(
        report,
        checks=(
            *report.checks,
            *_start(plan, facts, broken),
            *_examined(plan, facts, broken),
            *verdict.judged(plan.world, report.machine, steps, rows),
            *((epochs.judged(plan.world, files),) if plan.data else ()),
        ),
        steps=(*steps, *files),
        bandwidth=rows,
        world_size=plan.world.size,
        backend=plan.world.backend,
        device=plan.world.device,
        notes=(*report.notes, *_notes(plan)),
    )


def _notes(plan: Plan) -> tuple[str, ...]:
    world = plan.world
    if world.device == "cpu":
        return (
            f"no GPU was examined: {world.size} ranks on the CPU show that training is correct, not how fast it is",
        )
    if world.shared:
        return (f"{world.size} ranks share one GPU over gloo: that shows that training is correct, not how fast it is",)
    return ()


Facts = Mapping[int, Mapping[str, Mapping[str, object]]]


def _start(plan: Plan, facts: Facts, broken: Mapping[str, Check]) -> tuple[Check, ...]:
    """Whether all ranks have started, each on a device of its own."""
    if START in broken:
        return (replace(broken[START], name="ranks-start"),)
    if START not in facts[0]:
        return (Check("ranks-start", Verdict.INCONCLUSIVE, reason="the ranks had not met when the probe was ended"),)
    everybody = facts[0][START]["everybody"]
    return (started(plan.world, [entry["device"] for entry in everybody]),)  # type: ignore[attr-defined]


def started(world: World, devices: list[str]) -> Check:
    """All ranks have started and met; on GPUs that are meant to be their own, no two on one."""
    name = "ranks-start"
    places = list(zip(world.nodes, devices, strict=True))
    twice = [rank for rank, place in enumerate(places) if places.index(place) != rank]
    if world.meaningful and twice:
        first = places.index(places[twice[0]])
        return Check(
            name,
            Verdict.FAIL,
            reason=f"ranks {first} and {twice[0]} use the same GPU, {places[first][1]}",
            remedy="start one rank for each GPU and choose it by LOCAL_RANK: `torch.cuda.set_device(local_rank)`",
        )
    nodes = len(set(world.nodes))
    where = f" on {nodes} nodes" if nodes > 1 else ""
    return Check(
        name,
        Verdict.PASS,
        float(world.size),
        "ranks",
        reason=f"{world.size} ranks{where} have met over {world.backend}",
    )


def _examined(plan: Plan, facts: Facts, broken: Mapping[str, Check]) -> tuple[Check, ...]:
    wanted = {stage.name for stage in stages_of(plan)}
    names = (*trials_by_name(plan), *(trial.name for trial in epochs.epochs_of(plan)))
    trials = [name for name in names if name in broken]
    return (
        *(_of(each, plan.world, facts, broken) for each in (*EXAMINATIONS, SWEEP) if each.name in wanted),
        *(broken[name] for name in trials),
    )


def _of(each: Examination, world: World, facts: Facts, broken: Mapping[str, Check]) -> Check:
    """The verdict of one check, also where it broke, was never reached or does not apply."""
    if each.name in broken:
        return broken[each.name]
    ranks = {rank: done[each.name] for rank, done in facts.items() if each.name in done}
    if len(ranks) < world.size:
        return Check(each.name, Verdict.INCONCLUSIVE, reason="not examined: the ranks did not come that far")
    why_not = next((entry["not_here"] for entry in ranks.values() if "not_here" in entry), None)
    if why_not is not None:
        return Check(each.name, Verdict.SKIPPED, reason=str(why_not))
    return each.judge(Seen(world, ranks))  # type: ignore[arg-type]


def _steps(plan: Plan, facts: Facts, samples: Mapping[str, list[tuple[float, float]]]) -> tuple[StepResult, ...]:
    found = []
    for name, trial in trials_by_name(plan).items():
        ranks = {rank: done[name] for rank, done in facts.items() if name in done}
        measured = any(entry.get("seconds") for entry in ranks.values())
        if len(ranks) == plan.world.size and measured:
            found.append(step_result(trial, ranks, plan.world, samples))
    return related(found, _ceiling(plan, facts))


def _epochs(plan: Plan, facts: Facts) -> tuple[StepResult, ...]:
    found = []
    for trial in epochs.epochs_of(plan):
        ranks = {rank: done[trial.name] for rank, done in facts.items() if trial.name in done}
        if "accuracy" in ranks.get(0, {}):
            found.append(epochs.epoch_result(trial, ranks, plan.world))
    return tuple(found)


def _ceiling(plan: Plan, facts: Facts) -> float | None:
    """TFLOP/s that the slowest device reaches in a large matrix product."""
    rates = [done.get("devices-alike", {}).get("tflops") for done in facts.values()]
    known = [max(rate.values()) for rate in rates if isinstance(rate, dict) and rate]
    return min(known, default=None)


def _rows(plan: Plan, facts: Facts) -> tuple[Bandwidth, ...]:
    ranks = {rank: done[SWEEP.name] for rank, done in facts.items() if SWEEP.name in done}
    if len(ranks) < plan.world.size or any("not_here" in entry for entry in ranks.values()):
        return ()
    return bandwidth.rows(Seen(plan.world, ranks))  # type: ignore[arg-type]
