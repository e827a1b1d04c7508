"""Take part with ranks that somebody else has started, on this node or on several.

Each process that was started watches a worker of its own, so that it can tell what became of it. They tell each other
through a store next to the launcher's, never by a collective; the first of them makes the report.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from gpudoctor.errors import UsageError
from gpudoctor.probe import inventory
from gpudoctor.probe import plan as plans
from gpudoctor.probe.document import machine_from, plain
from gpudoctor.probe.journal import Journal, RankState
from gpudoctor.probe.launch import (
    Round,
    add_stacks,
    broken_stage,
    limits_of,
    look_at_processes,
    overdue,
    read_output,
    scratch,
)
from gpudoctor.probe.rank import PLAN, SHARED_FOLDER
from gpudoctor.probe.results import Machine
from gpudoctor.probe.stages import START, START_SECONDS, stages_of
from gpudoctor.ranks.processes import adopting_orphans, children
from gpudoctor.ranks.supervise import end_all
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from pathlib import Path

    from gpudoctor.probe.place import Place

_LOOK_EVERY = 0.2
_GRACE = 3.0
_LAST_WORD = 20.0
"""Seconds for the other nodes to tell how far they came, once this one is through."""


@dataclass(frozen=True)
class Joint:
    """What the first rank knows in the end: how far all ranks came, on which machines, and what GPUs did meanwhile."""

    plan: plans.Plan
    machines: tuple[Machine, ...]
    outcome: Round
    samples: Mapping[str, list[tuple[float, float]]]


class Board:
    """What all processes of the probe can read and write: keys with JSON, in a store of torch."""

    def __init__(self, place: Place) -> None:
        import torch.distributed as dist

        try:
            self._store = dist.PrefixStore("gpudoctor", _store(place))
        except RuntimeError as error:
            raise UsageError(
                f"{place.by} wants the ranks to meet at {place.address}:{place.port}, and no store of torch answers "
                "there: is MASTER_ADDR the first node, MASTER_PORT free (`ss -ltnp`), and no firewall in between?"
            ) from error

    def put(self, key: str, value: Any) -> None:
        """Write; a store whose host has gone is of no use to anybody any more."""
        with contextlib.suppress(RuntimeError):
            self._store.set(key, json.dumps(plain(value)).encode())

    def has(self, key: str) -> bool:
        """Whether it is written, or nothing will be any more."""
        try:
            return bool(self._store.check([key]))
        except RuntimeError:
            return True

    def get(self, key: str, within: float) -> Any:
        """What is written there, None where it is not within that many seconds."""
        until = time.monotonic() + within
        while not self.has(key):
            if time.monotonic() > until:
                return None
            time.sleep(_LOOK_EVERY)
        try:
            return json.loads(self._store.get(key))
        except RuntimeError:
            return None


def _store(place: Place) -> Any:
    """The launcher's store where there is one; else the first rank opens one at the address that all were given."""
    import datetime

    import torch.distributed as dist

    patience = datetime.timedelta(seconds=START_SECONDS)
    if place.rank == 0 and os.environ.get("TORCHELASTIC_USE_AGENT_STORE") != "True":
        with contextlib.suppress(RuntimeError):
            return dist.TCPStore(place.address, place.port, is_master=True, wait_for_workers=False, timeout=patience)
    # Where the port is taken, Ray listens on it already, and keeps such a store.
    return dist.TCPStore(place.address, place.port, is_master=False, timeout=patience)


def take_part(
    place: Place,
    make_plan: Callable[[plans.World], plans.Plan],
    *,
    timeout: float | None,
    worker: str,
    watcher: Callable[[Mapping[int, RankState]], None],
) -> Joint | None:
    """Be the rank that was given. The first rank gets what all found out, the others None."""
    board = Board(place)
    machine = inventory.take_stock()
    board.put(f"place/{place.rank}", _about(place, machine))
    if place.local_rank == 0:
        board.put(f"machine/{place.rank}", machine)
    if place.rank == 0:
        plan, missing = _agreed(board, place, make_plan)
        board.put("plan", plans.written(plan))
        if missing:
            return _without(plan, machine, missing)
    text = board.get("plan", 2 * START_SECONDS)
    if text is None:
        return None
    plan = plans.read(text)
    with (
        scratch() as folder,
        inventory.Sampler(machine.used_by(plan.world.nodes.count(plan.world.nodes[place.rank]))) as sampler,
    ):
        if place.local_rank == 0:
            board.put(f"folder/{place.node}", str(folder))
        state = _watched(board, place, plan, folder, worker, timeout, watcher)
        board.put(f"samples/{place.rank}", sampler.samples if place.local_rank == 0 else {})
        board.put(f"state/{place.rank}", _entries(state))
        joint = _collected(board, place, plan, timeout) if place.rank == 0 else None
        if joint is None:
            # The folder of a node's first rank is used by the others, and the store may live with the first of all.
            board.get("over", 4 * _LAST_WORD)
        board.put("over", True)
    return joint


def _about(place: Place, machine: Machine) -> dict[str, Any]:
    fact = machine.torch.get("visible_gpus")
    gpus = fact.value if fact is not None and isinstance(fact.value, list) else []
    return {"host": platform.node(), "node": place.node, "local_rank": place.local_rank, "gpus": gpus}


def _agreed(
    board: Board, place: Place, make_plan: Callable[[plans.World], plans.Plan]
) -> tuple[plans.Plan, tuple[int, ...]]:
    """The plan for the ranks that have come, and the ranks that have not."""
    until = time.monotonic() + START_SECONDS
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


def _without(plan: plans.Plan, machine: Machine, missing: tuple[int, ...]) -> Joint:
    """Some ranks never came: that is all there is to say."""
    world = plan.world
    states = {
        rank: RankState(rank, pid=0 if rank in missing else 1, host=world.nodes[rank]) for rank in range(world.size)
    }
    for rank, state in states.items():
        state.marks = 0 if rank in missing else 1
    return Joint(plan, (machine,), Round(states, START, START_SECONDS), {})


def _watched(
    board: Board,
    place: Place,
    plan: plans.Plan,
    folder: Path,
    worker: str,
    timeout: float | None,
    watcher: Callable[[Mapping[int, RankState]], None],
) -> RankState:
    """Run the worker of this rank to its end, or until something breaks on any rank."""
    shared = board.get(f"folder/{place.node}", START_SECONDS) or str(folder)
    (folder / PLAN).write_text(plans.written(plan), encoding="utf-8")
    with adopting_orphans():
        strangers = set(children(os.getpid()))
        process = _started(place, folder, shared, worker)
        journal = Journal(folder, (place.rank,))
        try:
            _wait(board, plan, process, journal, timeout, watcher)
            states = journal.read()
            state = states[place.rank]
            state.host = state.host or platform.node()
            if not state.over:
                add_stacks(states)
                read_output(state, folder / "errors")
            state.exit_code = process.poll()
            return state
        finally:
            end_all([process.pid] if process.poll() is None else [], strangers)
            process.poll()


def _started(place: Place, folder: Path, shared: str, worker: str) -> subprocess.Popen[bytes]:
    given = {
        "RANK": place.rank,
        "WORLD_SIZE": place.size,
        "LOCAL_RANK": place.local_rank,
        "MASTER_ADDR": place.address,
        "MASTER_PORT": place.port,
        "TORCHELASTIC_USE_AGENT_STORE": True,
        SHARED_FOLDER: shared,
    }
    with (folder / "errors").open("wb") as errors:
        return subprocess.Popen(
            [sys.executable, "-m", worker, str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=errors,
            stderr=errors,
            env={**os.environ, **{name: str(value) for name, value in given.items()}},
            start_new_session=True,
        )


def _wait(
    board: Board,
    plan: plans.Plan,
    process: subprocess.Popen[bytes],
    journal: Journal,
    timeout: float | None,
    watcher: Callable[[Mapping[int, RankState]], None],
) -> None:
    limits = limits_of(plan, timeout)
    began = time.time()
    trouble_since: float | None = None
    while True:
        states = journal.read()
        watcher(states)
        (state,) = states.values()
        if state.over and process.poll() is not None:
            return
        look_at_processes(states)
        died = process.poll() is not None
        if trouble_since is None and (died or state.error or overdue(states, limits, began)):
            board.put("trouble", state.rank)
        if trouble_since is None and board.has("trouble"):
            trouble_since = time.monotonic()
        # The others get a moment: what they say by themselves tells more than that they were ended.
        if died or (trouble_since is not None and time.monotonic() - trouble_since > _GRACE):
            return
        time.sleep(_LOOK_EVERY)


def _entries(state: RankState) -> dict[str, Any]:
    found: dict[str, Any] = plain(state)
    return found


def _collected(board: Board, place: Place, plan: plans.Plan, timeout: float | None) -> Joint:
    """What all ranks have left on the board."""
    until = time.monotonic() + _LAST_WORD
    states: dict[int, RankState] = {}
    samples: dict[str, list[tuple[float, float]]] = {}
    machines: list[Machine] = []
    for rank in range(place.size):
        entries = board.get(f"state/{rank}", max(0.5, until - time.monotonic()))
        # A node that says nothing at all has died with its watcher.
        states[rank] = RankState(**entries) if entries else RankState(rank, host=plan.world.nodes[rank], process="gone")
        samples.update(board.get(f"samples/{rank}", 0.5) or {})
        if plan.world.local_ranks[rank] == 0 and (found := board.get(f"machine/{rank}", 0.5)):
            machines.append(machine_from(found, plan.world.nodes[rank]))
    broken = broken_stage(states, [START, *(stage.name for stage in stages_of(plan))])
    limit = limits_of(plan, timeout).get(broken, 0.0)
    return Joint(plan, tuple(machines), Round(states, broken, limit), samples)
