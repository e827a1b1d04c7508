"""The probe as an outline: take stock, decide what can be examined here, start ranks, judge what they found."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import time
from collections.abc import Iterator

from gpudoctor.probe import inventory
from gpudoctor.probe.check_names import with_full_names
from gpudoctor.probe.conclude import concluded
from gpudoctor.probe.join import take_part
from gpudoctor.probe.journal import RankState
from gpudoctor.probe.launch import Launcher
from gpudoctor.probe.launcher_env import AssignedRank, advice
from gpudoctor.probe.measurement_plan import MeasurementPlan
from gpudoctor.probe.options import News, Teller, Wishes, plan_for
from gpudoctor.probe.results import ProbedMachine, ProbeReport
from gpudoctor.probe.root_cause import verdict_of
from gpudoctor.probe.rounds import Rounds, take_over
from gpudoctor.record import replace

INSTALL = "pip install torch nvidia-ml-py psutil"


def _silent(news: News) -> None:
    return


def examine(wishes: Wishes, tell: Teller = _silent) -> ProbeReport:
    """Examine this machine with ranks of our own."""
    started, began = now(), time.monotonic()
    tell(News("taking inventory of the machine"))
    with launcher_at_hand() as launcher:
        report = _own_ranks(wishes, tell, launcher)
    seconds = round(time.monotonic() - began, 2)
    return replace(report, checks=with_full_names(report.checks), started=started, seconds=seconds)


@contextlib.contextmanager
def launcher_at_hand() -> Iterator[Launcher | None]:
    """A launcher that loads torch while something else is done, which takes as long; None where there is no torch."""
    if importlib.util.find_spec("torch") is None:
        yield None
        return
    with Launcher() as launcher:
        yield launcher


def _own_ranks(wishes: Wishes, tell: Teller, launcher: Launcher | None) -> ProbeReport:
    machine = inventory.take_stock()
    weak = inventory.weak_points(machine)
    elsewhere = advice(os.environ)
    report = ProbeReport(machine=(machine,), checks=weak, notes=(elsewhere,) if elsewhere else ())
    if _torch_missing(machine):
        report = replace(
            report, notes=(*report.notes, f"torch is not installed, so that nothing was trained: {INSTALL}")
        )
    else:
        report = _with_ranks(report, plan_for(machine, wishes), wishes, tell, launcher)
    return report


def examine_given(place: AssignedRank, wishes: Wishes, tell: Teller = _silent) -> ProbeReport | None:
    """Examine as one of the ranks that somebody else has started; the report on the first of them, None on others."""
    started, began = now(), time.monotonic()
    if importlib.util.find_spec("torch") is None:
        return examine(wishes, tell) if place.rank == 0 else None
    tell(News(f"waiting for {place.size} ranks of {place.by}"))
    joint = take_part(
        place,
        lambda world: MeasurementPlan(
            world, wishes.workloads, wishes.strategies, wishes.pace, wishes.data, wishes.only
        ),
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
    report = ProbeReport(joint.machines, (*weak, *joint.load), notes=joint.notes)
    report = concluded(report, joint.plan, states, broken, joint.samples)
    seconds = round(time.monotonic() - began, 2)
    checks = with_full_names(report.checks)
    return replace(report, checks=checks, interrupted=joint.interrupted, started=started, seconds=seconds)


def now() -> str:
    """The time in UTC, to the second, as ISO 8601 writes it: 2026-11-22T03:10:14Z."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())


def _torch_missing(machine: ProbedMachine) -> bool:
    version = machine.torch.get("version")
    return version is None or version.value is None


def _with_ranks(
    report: ProbeReport, plan: MeasurementPlan, wishes: Wishes, tell: Teller, launcher: Launcher | None
) -> ProbeReport:
    """The report with what ranks on this machine found out."""
    with inventory.UtilisationSampler(report.machine[0].used_by(plan.world.size)) as sampler:
        rounds = Rounds(report.machine[0], plan, wishes, tell, launcher)
        # What is known until then is worth a report.
        with contextlib.suppress(KeyboardInterrupt):
            rounds.run()
    loaded = [check for each in report.machine for check in inventory.weak_points_under_load(each, sampler.moments)]
    report = replace(report, checks=(*report.checks, *loaded, *rounds.left_out))
    *earlier, last = rounds.parts
    found = concluded(report, last.plan, last.states, rounds.broken, sampler.samples, earlier)
    return replace(found, interrupted=not rounds.over)
