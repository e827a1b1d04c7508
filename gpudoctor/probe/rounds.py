"""Start ranks of our own, and start them again for the rest where a stage broke: without its GPU where one broke it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence

from gpudoctor.probe.conclude import PlanOutcome
from gpudoctor.probe.journal import RankState
from gpudoctor.probe.launch import MOST_ROUNDS, Launcher, Round, left_after, run_round
from gpudoctor.probe.measurement_plan import MeasurementPlan
from gpudoctor.probe.options import News, Teller, Wishes, plan_for
from gpudoctor.probe.results import Check, Fact, ProbedMachine, Verdict
from gpudoctor.probe.root_cause import guilty_rank, stuck, verdict_of
from gpudoctor.probe.stages import START, stages_of
from gpudoctor.ranks.loopback import LOOPBACK, loopback_trouble
from gpudoctor.record import replace

EXPERIMENTS: dict[str, dict[str, str]] = {
    "nccl": {
        "NCCL_P2P_DISABLE": "copies between GPUs hang: switch off ACS (BIOS) or the IOMMU (`iommu=off`)",
        "NCCL_SHM_DISABLE": "shared memory is too small or broken: `docker run --shm-size=8g`, or `--ipc=host`",
    }
}
"""What is switched off, by backend, where all ranks hang in a collective; with what its success means."""
VISIBLE = "CUDA_VISIBLE_DEVICES"


class Rounds:
    """All starts of ranks on this machine, and what came of them.

    `parts` has one entry for each plan: a GPU that breaks a stage by itself is left out, and the others go on with a
    plan of their own. `left_out` says so, with the reason.
    """

    def __init__(
        self,
        machine: ProbedMachine,
        plan: MeasurementPlan,
        wishes: Wishes,
        tell: Teller,
        launcher: Launcher | None = None,
    ) -> None:
        self.broken: dict[str, Check] = {}
        self.left_out: tuple[Check, ...] = ()
        self.parts: tuple[PlanOutcome, ...] = ()
        self.over = False
        self._machine, self._wishes, self._tell = machine, wishes, tell
        self._launcher = launcher
        """Good for one start of ranks."""
        self._given: dict[str, str] = {}
        self._take_up(plan)

    def _take_up(self, plan: MeasurementPlan) -> None:
        self._plan = plan
        self._states = {rank: RankState(rank) for rank in range(plan.world.size)}
        self._asks = {stage.name: stage.asks for stage in stages_of(plan)}
        self.parts = (*self.parts, PlanOutcome(plan, self._states))

    def run(self) -> None:
        """Do all stages that can be done."""
        if trouble := loopback_trouble():
            # Ranks that cannot meet would try to for a minute and a half, and know no reason.
            self.broken[START] = _no_loopback(trouble)
            self.over = True
            return
        left = tuple(self._asks)
        for _ in range(MOST_ROUNDS):
            found = self._round(left)
            if not found.broken:
                break
            check = self._verdict(found)
            rank = guilty_rank(found.states) if self._plan.world.meaningful else None
            if rank is not None:
                self._leave_out(rank, check)
                left = self._not_yet_done()
                continue
            self.broken[found.broken] = check
            if found.broken == START:
                break
            left = left_after(left, found.broken)
            if not left:
                break
        self.over = True

    def _round(self, only: tuple[str, ...]) -> Round:
        launcher, self._launcher = self._launcher, None
        return run_round(
            replace(self._plan, only=only),
            timeout=self._wishes.timeout,
            worker=self._wishes.worker,
            watcher=self._watch,
            given=self._given,
            launcher=launcher,
        )

    def _verdict(self, found: Round) -> Check:
        backend = self._plan.world.backend
        check = verdict_of(found.broken, found.states, backend=backend, limit=found.limit)
        return self._experimented(check, found.broken) if stuck(found.states) else check

    def _experimented(self, check: Check, stage: str) -> Check:
        """Try the stage again without a transport, one after the other: the one that it works without is broken."""
        for name, why in EXPERIMENTS.get(self._plan.world.backend, {}).items():
            self._tell(News(f"trying {stage} again with {name}=1"))
            plan, given = replace(self._plan, only=(stage,)), {**self._given, name: "1"}
            found = run_round(plan, timeout=self._wishes.timeout, worker=self._wishes.worker, given=given)
            if not found.broken:
                remedy = f"{why}; until then, `export {name}=1` works, and costs bandwidth"
                return replace(check, reason=f"{check.reason}; it works with {name}=1", remedy=remedy)
        return check

    def _leave_out(self, rank: int, check: Check) -> None:
        """Go on with a plan for the other GPUs."""
        uuids = self._machine.used_by(self._machine.visible)
        uuid = uuids[self._plan.world.local_ranks[rank]]
        kept = [each for each in uuids if each != uuid]
        shown = _choice(uuids, kept, self._given.get(VISIBLE, os.environ.get(VISIBLE, "")))
        self.left_out = (*self.left_out, left_out(self._machine, uuid, check, shown))
        self._given[VISIBLE] = shown
        self._machine = replace(self._machine, torch={**self._machine.torch, "visible_gpus": Fact(kept)})
        ranks = self._wishes.ranks
        wishes = replace(self._wishes, ranks=ranks and max(1, min(ranks, len(kept))))
        self._take_up(plan_for(self._machine, wishes))

    def _not_yet_done(self) -> tuple[str, ...]:
        """The stages of the new plan that the earlier ranks have not all come through."""
        done = {
            name
            for part in self.parts
            for name in set.intersection(*(set(state.done) for state in part.states.values()))
        }
        return tuple(name for name in self._asks if name not in done)

    def _watch(self, states: Mapping[int, RankState]) -> None:
        take_over(self._states, states)
        names = list(self._asks)
        slowest = min(states.values(), key=lambda state: state.progress)
        done = names.index(slowest.stage) if slowest.stage in names else 0
        self._tell(News(self._asks.get(slowest.stage, f"starting {len(states)} ranks"), done, len(names), states))


def _no_loopback(trouble: str) -> Check:
    return Check(
        START,
        Verdict.FAIL,
        reason=f"processes on this machine cannot reach each other at {LOOPBACK}: {trouble}",
        expectation=f"a connection over {LOOPBACK}",
        remedy="switch the loopback interface on, `ip link set lo up`: containers and sandboxes without a network may "
        "have it off",
    )


def take_over(states: Mapping[int, RankState], later: Mapping[int, RankState]) -> None:
    """Add what the ranks found out in a later start of them."""
    for rank, state in later.items():
        states[rank].done.update(state.done)


def _choice(uuids: Sequence[str], kept: Sequence[str], before: str) -> str:
    """What to set CUDA_VISIBLE_DEVICES to for the GPUs that are kept, which stand in the order of `uuids`."""
    # A GPU that falls off the bus makes the others move up: their names stay.
    if all(each.startswith(("GPU-", "MIG-")) for each in kept):
        return ",".join(kept)
    entries = before.split(",") if before else [str(index) for index in range(len(uuids))]
    return ",".join(entries[uuids.index(each)] for each in kept)


def left_out(machine: ProbedMachine, uuid: str, broke: Check, shown: str) -> Check:
    """The verdict on a GPU that broke a stage by itself; pure."""
    gpu = next((each for each in machine.gpus if each.uuid == uuid), None)
    index = "" if gpu is None else f"GPU {gpu.index}, "
    number = "N" if gpu is None else str(gpu.index)
    pci = "" if gpu is None or "pci" not in gpu.facts or not gpu.facts["pci"].value else f" at {gpu.facts['pci'].value}"
    stage = "the start of the ranks" if broke.name == START else f"`{broke.name}`"
    return Check(
        "gpu-left-out",
        Verdict.FAIL,
        reason=f"{index}{uuid}{pci}, broke {stage} and was left out of all that follows: {broke.reason}",
        expectation="every GPU takes part",
        remedy=f"`nvidia-smi --gpu-reset -i {number}`, else reboot, else have it replaced (`dmesg | grep -i xid` says "
        f"more); until then `export {VISIBLE}={shown}` trains on the others",
        node=machine.host,
        details=broke.details,
    )
