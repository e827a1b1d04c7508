"""Take part with ranks that somebody else has started, on this node or on several.

Each process that was started watches a worker of its own, so that it can tell what became of it. They tell each other
through a board next to the launcher's store, never by a collective; the first of them makes the report. Where a stage
breaks, the first one says what is left to do, and all start new workers for it.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from gpudoctor.plain import plain
from gpudoctor.probe import inventory
from gpudoctor.probe import measurement_plan as plans
from gpudoctor.probe.checks.check import ranks_in_words
from gpudoctor.probe.journal import LOST, Journal, RankState
from gpudoctor.probe.launch import (
    FOLDER,
    MOST_ROUNDS,
    Round,
    Watcher,
    add_stacks,
    broken_stage,
    left_after,
    limits_of,
    look_at_processes,
    overdue,
    read_output,
)
from gpudoctor.probe.launcher_env import AssignedRank
from gpudoctor.probe.rank_process import PLAN, ROUND, SHARED_FOLDER
from gpudoctor.probe.report_json import machine_from
from gpudoctor.probe.results import Check, Fact, ProbedMachine, Verdict
from gpudoctor.probe.shared_store import LOOK_EVERY, Board
from gpudoctor.probe.stages import START, stages_of
from gpudoctor.ranks.process_tree import adopting_orphans, children, end_all
from gpudoctor.ranks.scratch import scratch
from gpudoctor.ranks.starting import module_command
from gpudoctor.record import dataclass, replace

_GRACE = 3.0
_LAST_WORD = 20.0
"""Seconds for the other nodes to tell how far they came, once this one is through."""


@dataclass(frozen=True)
class Joint:
    """What the first rank knows in the end: how far all ranks came, on which machines, and what GPUs did meanwhile.

    `load` is what was seen of the GPUs while they worked that is wrong with them; `notes` says what was not reached.
    """

    plan: plans.MeasurementPlan
    machines: tuple[ProbedMachine, ...]
    rounds: tuple[Round, ...]
    samples: Mapping[str, list[tuple[float, float]]]
    load: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()
    interrupted: bool = False


def take_part(
    place: AssignedRank,
    make_plan: Callable[[plans.World], plans.MeasurementPlan],
    *,
    timeout: float | None,
    worker: str,
    watcher: Watcher,
) -> Joint | None:
    """Be the rank that was given. The first rank gets what all found out, the others None."""
    board = Board(place, timeout)
    seen = _look_around(board, place)
    board.put(f"place/{place.rank}", _about(place, seen))
    if place.rank == 0:
        plan, missing = _agreed(board, place, make_plan)
        board.put("plan/0", "" if missing else plans.written(plan))
        if missing:
            return _without(plan, seen.machine, missing, board.patience)
    text = board.get("plan/0", 2 * board.patience)
    if not text:
        return None
    plan = plans.read(text)
    seat = _Seat(board, place, worker, timeout, watcher)
    with scratch(FOLDER) as folder:
        if place.local_rank == 0:
            board.put(f"folder/{place.node}", str(folder))
        with inventory.UtilisationSampler(seen.mine(plan, place.rank)) as sampler:
            rounds = seat.all_rounds(plan, folder)
        if seen.own:
            board.put(f"samples/{place.rank}", sampler.samples)
            board.put(f"load/{place.rank}", inventory.weak_points_under_load(seen.machine, sampler.moments))
        joint = _collected(board, place, plan, rounds, seat.interrupted) if place.rank == 0 else None
        _part(board, place, rounds)
    return joint


def _part(board: Board, place: AssignedRank, rounds: tuple[Round, ...]) -> None:
    """Leave together: others use the folder of a node's first rank, and the store may live with the first of all."""
    if place.rank != 0:
        board.get("over", 4 * _LAST_WORD)
        board.put(f"left/{place.rank}", True)
        return
    board.put("over", True)
    until = time.monotonic() + _GRACE
    for rank, state in rounds[-1].states.items():
        if rank != 0 and state.process != LOST:
            board.get(f"left/{rank}", until - time.monotonic())


@dataclass(frozen=True)
class _MachineSeen:
    """The machine as a rank sees it; `own` says that it has looked by itself, and not heard it from its neighbour."""

    machine: ProbedMachine
    own: bool

    def mine(self, plan: plans.MeasurementPlan, rank: int) -> list[str]:
        """The GPUs that this process is to watch: a neighbour that sees them, too, does it for both."""
        return self.machine.used_by(plan.world.nodes.count(plan.world.nodes[rank])) if self.own else []


def _look_around(board: Board, place: AssignedRank) -> _MachineSeen:
    """The inventory, taken once a node; the others wait, as their hold on the GPUs would look like somebody else's."""
    key = f"node/{place.node}"
    if place.local_rank != 0:
        found = board.get(key, board.patience)
        machine = machine_from(found, found["host"]) if found else None
        # With a GPU for each task, SLURM shows every rank its own only: then each has to look.
        if machine is not None and (not machine.gpus or place.local_rank < machine.visible):
            return _MachineSeen(machine, own=False)
    machine = inventory.take_stock()
    if place.local_rank == 0:
        board.put(key, machine)
    board.put(f"machine/{place.rank}", machine)
    return _MachineSeen(machine, own=True)


def _about(place: AssignedRank, seen: _MachineSeen) -> dict[str, Any]:
    gpus = seen.machine.used_by(seen.machine.visible)
    return {"host": platform.node(), "node": place.node, "local_rank": place.local_rank, "gpus": gpus, "own": seen.own}


def _agreed(
    board: Board, place: AssignedRank, make_plan: Callable[[plans.World], plans.MeasurementPlan]
) -> tuple[plans.MeasurementPlan, tuple[int, ...]]:
    """The plan for the ranks that have come, and the ranks that have not."""
    until = time.monotonic() + board.patience
    places = {rank: board.get(f"place/{rank}", max(0.0, until - time.monotonic())) for rank in range(place.size)}
    missing = tuple(rank for rank, found in places.items() if found is None)
    nobody = {"host": "an unknown node", "node": -1, "local_rank": 0, "gpus": []}
    return make_plan(world_of([places[rank] or nobody for rank in range(place.size)])), missing


def world_of(places: list[dict[str, Any]]) -> plans.World:
    """Who takes part, from what each rank tells of itself; pure."""
    names = _names(places)
    nodes = tuple(names[each["node"]] for each in places)
    seen = {node: {gpu for each in places if each["node"] == node for gpu in each["gpus"]} for node in names}
    ranks = {node: sum(each["node"] == node for each in places) for node in names}
    local_ranks = tuple(each["local_rank"] for each in places)
    if all(len(seen[node]) >= ranks[node] for node in names):
        return plans.World(nodes, local_ranks, "nccl", "cuda")
    shared = all(seen.values())
    return plans.World(nodes, local_ranks, "gloo", "cuda" if shared else "cpu", shared)


def _names(places: Iterable[dict[str, Any]]) -> dict[int, str]:
    """Each node by its host, with a number where two nodes are on one host."""
    hosts = {each["node"]: each["host"] for each in places}
    several = len(set(hosts.values())) < len(hosts)
    return {node: f"{host}#{node}" if several else host for node, host in hosts.items()}


def _without(plan: plans.MeasurementPlan, machine: ProbedMachine, missing: tuple[int, ...], patience: float) -> Joint:
    """Some ranks never came: that is all there is to say."""
    world = plan.world
    states = {
        rank: RankState(rank, pid=0 if rank in missing else 1, host=world.nodes[rank]) for rank in range(world.size)
    }
    for rank, state in states.items():
        state.marks = 0 if rank in missing else 1
    return Joint(plan, (machine,), (Round(states, START, patience),), {})


class _Seat:
    """What a given process does in each round: run a worker; the first one asks all how far it came."""

    def __init__(self, board: Board, place: AssignedRank, worker: str, timeout: float | None, watcher: Watcher) -> None:
        self._board, self._place = board, place
        self._worker, self._timeout, self._watcher = worker, timeout, watcher
        self.interrupted = False

    def all_rounds(self, plan: plans.MeasurementPlan, folder: Path) -> tuple[Round, ...]:
        """Do what is planned, and again what is left where a stage broke. Only the first rank learns how it went."""
        rounds: list[Round] = []
        for number in range(MOST_ROUNDS):
            try:
                state = self._watched(number, plan, folder)
            except KeyboardInterrupt:
                if self._place.rank != 0:
                    raise
                # What is known until then is worth a report.
                self.interrupted = True
                return (*rounds, Round(self._states(number, plan, 0.1)))
            self._board.put(f"state/{number}/{self._place.rank}", _entries(state))
            if self._place.rank == 0:
                rounds.append(self._asked(number, plan))
                left = _left(plan, rounds[-1]) if number + 1 < MOST_ROUNDS else ()
                self._board.put(f"plan/{number + 1}", plans.written(replace(plan, only=left)) if left else "")
            text = self._board.get(f"plan/{number + 1}", 4 * _LAST_WORD)
            if not text:
                break
            plan = plans.read(text)
        return tuple(rounds)

    def _watched(self, number: int, plan: plans.MeasurementPlan, folder: Path) -> RankState:
        """Run the worker of this rank to its end, or until something breaks on any rank."""
        own = folder / f"round{number}"
        own.mkdir()
        shared = self._board.get(f"folder/{self._place.node}", self._board.patience) or str(folder)
        (own / PLAN).write_text(plans.written(plan), encoding="utf-8")
        with adopting_orphans():
            strangers = set(children(os.getpid()))
            process = self._started(number, own, os.path.join(shared, f"round{number}"))
            journal = Journal(own, (self._place.rank,))
            try:
                self._wait(number, plan, process, journal)
                states = journal.read()
                state = states[self._place.rank]
                state.host = state.host or platform.node()
                if not state.over:
                    add_stacks(states)
                    read_output(state, own / "errors")
                state.exit_code = process.poll()
                if state.exit_code is not None and not state.pid:
                    state.process = "gone"
                return state
            except KeyboardInterrupt:
                self._board.put(f"so-far/{number}/{self._place.rank}", _entries(journal.read()[self._place.rank]))
                raise
            finally:
                end_all([process.pid] if process.poll() is None else [], strangers)
                process.poll()

    def _started(self, number: int, folder: Path, shared: str) -> subprocess.Popen[bytes]:
        place = self._place
        given = {
            "RANK": place.rank,
            "WORLD_SIZE": place.size,
            "LOCAL_RANK": place.local_rank,
            "MASTER_ADDR": place.address,
            "MASTER_PORT": place.port,
            "TORCHELASTIC_USE_AGENT_STORE": True,
            ROUND: f"gpudoctor-round{number}",
            SHARED_FOLDER: shared,
            # For what the rank starts in turn.
            "PYTHONSAFEPATH": 1,
        }
        with (folder / "errors").open("wb") as errors:
            return subprocess.Popen(
                module_command(self._worker, str(folder)),
                stdin=subprocess.DEVNULL,
                stdout=errors,
                stderr=errors,
                env={**os.environ, **{name: str(value) for name, value in given.items()}},
                start_new_session=True,
            )

    def _wait(
        self, number: int, plan: plans.MeasurementPlan, process: subprocess.Popen[bytes], journal: Journal
    ) -> None:
        limits = limits_of(plan, self._timeout)
        trouble = f"trouble/{number}"
        began = time.time()
        trouble_since: float | None = None
        told = ""
        while True:
            states = journal.read()
            self._watcher(states)
            (state,) = states.values()
            if state.stage != told:
                # What is known by now, should this node not live to tell the rest.
                told = state.stage
                self._board.put(f"so-far/{number}/{state.rank}", _entries(state))
            if state.over and process.poll() is not None:
                return
            look_at_processes(states)
            died = process.poll() is not None
            if trouble_since is None and (died or state.error or overdue(states, limits, began)):
                self._board.put(trouble, state.rank)
            if trouble_since is None and self._board.has(trouble):
                trouble_since = time.monotonic()
            # The others get a moment: what they say by themselves tells more than that they were ended.
            if died or (trouble_since is not None and time.monotonic() - trouble_since > _GRACE):
                return
            time.sleep(LOOK_EVERY)

    def _asked(self, number: int, plan: plans.MeasurementPlan) -> Round:
        """What all ranks say of this round."""
        states = self._states(number, plan, _LAST_WORD)
        broken = broken_stage(states, [START, *(stage.name for stage in stages_of(plan))])
        return Round(states, broken, limits_of(plan, self._timeout).get(broken, 0.0))

    def _states(self, number: int, plan: plans.MeasurementPlan, patience: float) -> dict[int, RankState]:
        """How far each rank came by its last word; where that does not come, by what was heard of it before."""
        until = time.monotonic() + patience
        states: dict[int, RankState] = {}
        for rank, node in enumerate(plan.world.nodes):
            entries = self._board.get(f"state/{number}/{rank}", max(0.1, until - time.monotonic()))
            so_far = entries or self._board.get(f"so-far/{number}/{rank}", 0.1) or {"rank": rank, "host": node}
            states[rank] = RankState(**so_far)
            if not entries:
                # A node that says nothing at all has died with its watcher.
                states[rank].process = LOST
        return states


def _left(plan: plans.MeasurementPlan, done: Round) -> tuple[str, ...]:
    """The stages that new workers can do; nothing where they could not even meet, or where a node has gone."""
    if done.broken in ("", START) or _lost_in(done):
        return ()
    return left_after([stage.name for stage in stages_of(plan)], done.broken)


def _lost_in(done: Round) -> list[int]:
    return [rank for rank, state in done.states.items() if state.process == LOST]


def _entries(state: RankState) -> dict[str, Any]:
    found: dict[str, Any] = plain(state)
    return found


def _collected(
    board: Board, place: AssignedRank, plan: plans.MeasurementPlan, rounds: tuple[Round, ...], interrupted: bool
) -> Joint:
    """What all ranks have left on the board besides how far they came."""
    samples: dict[str, list[tuple[float, float]]] = {}
    load: list[Check] = []
    machines: dict[str, ProbedMachine] = {}
    until = time.monotonic() + (0.0 if interrupted else _LAST_WORD)
    lost = _lost_in(rounds[-1])
    for rank in _who_looked(board, place):
        node = plan.world.nodes[rank]
        # Of a rank that is lost there is what it has left before, and nothing to wait for.
        left = 0.1 if rank in lost else max(0.5, until - time.monotonic())
        samples.update(board.get(f"samples/{rank}", left) or {})
        load += [_check(each, node) for each in board.get(f"load/{rank}", left) or ()]
        found = board.get(f"machine/{rank}", left)
        if found:
            machines[node] = together(machines.get(node), machine_from(found, node))
    notes = _notes(plan, rounds[-1])
    return Joint(plan, tuple(machines.values()), rounds, samples, tuple(load), notes, interrupted)


def _who_looked(board: Board, place: AssignedRank) -> list[int]:
    """The ranks that have an inventory and samples to tell."""
    places = {rank: board.get(f"place/{rank}", 0.5) or {} for rank in range(place.size)}
    return [rank for rank, entry in places.items() if entry.get("own")]


def _check(entries: Mapping[str, Any], node: str) -> Check:
    return Check(**{**entries, "verdict": Verdict(entries["verdict"]), "node": node})


def together(one: ProbedMachine | None, other: ProbedMachine) -> ProbedMachine:
    """A node from what two of its ranks see of it, where each sees some of its GPUs; pure."""
    if one is None:
        return other
    known, said = {gpu.uuid for gpu in one.gpus}, {check.name for check in one.weak}
    visible = [uuid for uuid in other.used_by(other.visible) if uuid not in one.used_by(one.visible)]
    return replace(
        one,
        gpus=(*one.gpus, *(gpu for gpu in other.gpus if gpu.uuid not in known)),
        links=(*one.links, *(link for link in other.links if link not in one.links)),
        torch={**one.torch, "visible_gpus": Fact([*one.used_by(one.visible), *visible])},
        weak=(*one.weak, *(check for check in other.weak if check.name not in said)),
    )


def _notes(plan: plans.MeasurementPlan, last: Round) -> tuple[str, ...]:
    """What was not reached, and why no new ranks were started for it."""
    names = [stage.name for stage in stages_of(plan)]
    unreached = left_after(names, last.broken) if last.broken in names else ()
    if not unreached:
        return ()
    lost = _lost_in(last)
    why = (
        f"{ranks_in_words(lost)} no longer answer, and the others cannot go on alone"
        if lost
        else f"{MOST_ROUNDS} stages have broken, and that is enough to know"
    )
    return (f"not reached after {last.broken}: {', '.join(unreached)}; {why}",)
