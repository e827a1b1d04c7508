"""The report with all verdicts, from what the ranks handed over. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpudoctor.probe import epochs, verdict
from gpudoctor.probe.checks import EXAMINATIONS, SWEEP, bandwidth
from gpudoctor.probe.checks.check import Examination, Seen
from gpudoctor.probe.journal import RankState
from gpudoctor.probe.measurement_plan import MeasurementPlan, World
from gpudoctor.probe.results import Bandwidth, Check, ProbeReport, StepResult, Verdict
from gpudoctor.probe.stages import START, stages_of, trials_by_name
from gpudoctor.probe.step_figures import Samples, related, step_result
from gpudoctor.record import dataclass, replace


@dataclass(frozen=True)
class PlanOutcome:
    """What the ranks of one plan found out; there are several where a GPU was left out on the way."""

    plan: MeasurementPlan
    states: Mapping[int, RankState]

    @property
    def facts(self) -> FactsByRank:
        """What each rank handed over, by stage."""
        return {rank: state.done for rank, state in self.states.items()}


def concluded(
    report: ProbeReport,
    plan: MeasurementPlan,
    states: Mapping[int, RankState],
    broken: Mapping[str, Check],
    samples: Samples,
    earlier: Sequence[PlanOutcome] = (),
) -> ProbeReport:
    """The report with all verdicts.

    `earlier` is what was found out before a GPU was left out: it holds where it was not examined again.
    """
    parts = (*earlier, PlanOutcome(plan, states))
    facts = parts[-1].facts
    found = [step for part in parts for step in _steps(part.plan, part.facts, samples)]
    steps = related(found, min(filter(None, (_ceiling(part.facts) for part in parts)), default=None))
    files = tuple(row for part in parts for row in _epochs(part.plan, part.facts))
    rows = _rows(plan, facts)
    return replace(
        report,
        checks=(
            *report.checks,
            *_start(plan, facts, broken),
            *_examined(parts, broken),
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


def _notes(plan: MeasurementPlan) -> tuple[str, ...]:
    world = plan.world
    if world.device == "cpu":
        return (
            f"no GPU was examined: {world.size} ranks on the CPU show that training is correct, not how fast it is",
        )
    if world.shared:
        return (f"{world.size} ranks share one GPU over gloo: that shows that training is correct, not how fast it is",)
    return ()


FactsByRank = Mapping[int, Mapping[str, Mapping[str, object]]]


def _start(plan: MeasurementPlan, facts: FactsByRank, broken: Mapping[str, Check]) -> tuple[Check, ...]:
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
        reason=f"{world.size} ranks{where} are connected over {world.backend}",
    )


def _examined(parts: Sequence[PlanOutcome], broken: Mapping[str, Check]) -> Iterator[Check]:
    """Each check by the last ranks that came through it, and the trials that broke."""
    plan = parts[-1].plan
    wanted = {stage.name for stage in stages_of(plan)}
    for each in (*EXAMINATIONS, SWEEP):
        if each.name in wanted:
            whole = [part for part in parts if all(each.name in done for done in part.facts.values())]
            part = whole[-1] if whole else parts[-1]
            yield _of(each, part.plan.world, part.facts, broken)
    for part in parts:
        names = (*trials_by_name(part.plan), *(trial.name for trial in epochs.epochs_of(part.plan)))
        yield from (broken[name] for name in names if name in broken)


def _of(each: Examination, world: World, facts: FactsByRank, broken: Mapping[str, Check]) -> Check:
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


def _steps(plan: MeasurementPlan, facts: FactsByRank, samples: Samples) -> Iterator[StepResult]:
    for name, trial in trials_by_name(plan).items():
        ranks = {rank: done[name] for rank, done in facts.items() if name in done}
        measured = any(entry.get("seconds") for entry in ranks.values())
        if len(ranks) == plan.world.size and measured:
            yield step_result(trial, ranks, plan.world, samples)


def _epochs(plan: MeasurementPlan, facts: FactsByRank) -> tuple[StepResult, ...]:
    found = []
    for trial in epochs.epochs_of(plan):
        ranks = {rank: done[trial.name] for rank, done in facts.items() if trial.name in done}
        if "accuracy" in ranks.get(0, {}):
            found.append(epochs.epoch_result(trial, ranks, plan.world))
    return tuple(found)


def _ceiling(facts: FactsByRank) -> float | None:
    """TFLOP/s that the slowest device reaches in a large matrix product."""
    rates = [done.get("devices-alike", {}).get("tflops") for done in facts.values()]
    known = [max(rate.values()) for rate in rates if isinstance(rate, dict) and rate]
    return min(known, default=None)


def _rows(plan: MeasurementPlan, facts: FactsByRank) -> tuple[Bandwidth, ...]:
    ranks = {rank: done[SWEEP.name] for rank, done in facts.items() if SWEEP.name in done}
    if len(ranks) < plan.world.size or any("not_here" in entry for entry in ranks.values()):
        return ()
    return bandwidth.rows(Seen(plan.world, ranks))  # type: ignore[arg-type]
