"""The rank and the number of ranks are computed from numbers that do not fit together.

## What goes wrong

Every process must have a rank of its own below the world size, counted over all machines. Where the two are computed by
the program itself, one of them is easily left at the count of one machine: a local rank given as the rank makes each
node begin with 0 again, and `node * gpus + local_rank` beside a world size that was not multiplied with the GPUs gives
ranks beyond it. The processes then wait for each other in `init_process_group` until it times out, or two take the same
place. On one machine with one node nothing is noticed. A rank that is written as a number is the same in every process,
and with `mp.spawn` the second one that calls itself rank 0 ends with `DistNetworkError: The server socket has failed to
listen on any local network address … EADDRINUSE`.

## Fix

Under `torchrun` leave `rank` and `world_size` out, or take them from `RANK` and `WORLD_SIZE`. With `mp.spawn` the rank
is `node * gpus + index`, and the world size `nodes * gpus`. No automatic fix.

## Silent when

The numbers come from the user or the launcher as they are; the world size of a single machine is the count of its GPUs;
a node's number is multiplied and the world size is the launcher's, which counts all processes; the program names its
own machine as the one to meet on, or another one, to which as many processes may come from each of several machines. A
run is silent where a
process failed before it came to the group, or the ranks meet on another machine.

## Sources

pytorch/pytorch#23074, helboukkouri/character-bert#4, tczhangzhi/pytorch-distributed (distributed_slurm_main.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, Size, SizeKind
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.process import EnvironmentWrite, InitGroup, Spawn
from gpudoctor.lint.questions.addresses import is_here
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import NO_SUCH_RANK, PORT_TAKEN

if TYPE_CHECKING:
    from gpudoctor.api.pack import Value
    from gpudoctor.run.recording import Process

VAIN = ("Timed out", "timed out", "wait timeout", "Invalid rank", "rank should be", "rank < size", "clients joined")
"""What a process says that waited for a group in vain, or that asked for a place that is none."""
LOCAL = ("localhost", "127.0.0.1", "[::1]")
LAUNCHED = frozenset({RankSource.ENVIRONMENT, RankSource.SLURM, RankSource.MPI})
ON_ONE_MACHINE = (SizeKind.DEVICES, SizeKind.LOCAL_WORLD)


class RankArithmetic(Rule):
    code = "GPU415"
    severity = Severity.ERROR
    errors = (*PORT_TAKEN, *NO_SUCH_RANK)
    stops = True
    shows_when = ("ended_well",)
    needs = (InitGroup,)
    looks_at = ((InitGroup, "rank"), (InitGroup, "world_size"))

    def in_code(self, program: Program) -> Findings:
        if program.world is LaunchWorld.SINGLE or program.managed_by:
            return
        for group in program.events(InitGroup):
            yield from self._of(program, group, group.told_rank, group.told_size)

    def in_run(self, recording: Recording) -> Findings:
        # The port may be another job's: only where the code says so it is taken by a second rank 0.
        if self.code in recording.suspected:
            yield from self.crashed(recording, "EADDRINUSE", remedy="Give each process a rank of its own.")
        if not _waited_in_vain(recording, self.code):
            return
        met = [(each, each.groups[0]) for each in (*recording.ranks, *recording.others) if each.groups]
        asked = [(process, group) for process, group in met if _stayed_out(process, recording)]
        for _process, group in asked:
            if group.place is None or group.size is None or group.rank is None:
                continue
            came = len({other.pid for other, their in met if their.place == group.place and their.size == group.size})
            if group.rank >= group.size:
                message = f"A process asked for rank {group.rank} of {group.size}: ranks begin at 0."
            # Of another machine there is no way to such an address.
            elif came < group.size and any(name in group.address for name in LOCAL):
                message = f"The group waited for {group.size} processes until its time was over, and {came} came."
            else:
                continue
            yield self.found(group.place, message, remedy="Give `nprocs` and `world_size` the same number.")
            return

    def _of(self, program: Program, group: InitGroup, rank: Value | None, size: Value | None) -> Findings:
        started, number = _started(program, group), group.number_of_ranks
        written = rank.in_python if rank is not None else None
        if isinstance(rank, Size) and isinstance(size, Rank):
            yield self.found(
                group.location,
                "The group gets the number of processes as `rank` and "
                "the rank as `world_size`: the two arguments are swapped.",
                remedy="Write `rank=rank, world_size=world_size`.",
            )
        elif (
            number is not None
            and started not in (None, number)
            and _counts_from_here(rank, started, number)
            and not _others_may_come(program, group, number, started)
        ):
            yield self.found(
                group.location,
                f"`world_size` is {number}, and {started} processes are "
                "started: the group waits for the others until it times out."
                if started is not None and started < number
                else f"`world_size` is {number}, and {started} processes are started: some ranks exceed it.",
                remedy="Give `nprocs` and `world_size` the same number.",
                because=[("they are started here", next(program.events(Spawn)).location)],
            )
        elif isinstance(written, int) and _is_for_each(program, group, size):
            yield self.found(
                group.location,
                f"`rank` is {written} for every process: {_end_of_equals(program)}.",
                remedy=_own_rank(program),
            )
        elif group.of_node_alone and _is_for_each(program, group, size):
            yield self.found(
                group.location,
                "`rank` is the number of the node times its GPUs, the same for every process that is started here: "
                f"{_end_of_equals(program)}.",
                remedy="Add the index of the process: `rank=node * gpus + index`.",
            )
        elif isinstance(rank, Rank) and _is_beyond(rank, size):
            yield self.found(
                group.location,
                "`rank` counts every GPU of every node, and `world_size` only what the launcher has started: ranks lie "
                "beyond it, and the group is never complete.",
                remedy="Multiply the world size with the number of GPUs of a node as well.",
                because=[
                    ("the rank of the task comes from here", rank.formula and rank.formula[0].place),
                    ("the number of tasks comes from here", getattr(size, "place", None)),
                ],
            )
        elif isinstance(rank, Rank) and _repeats_on_each_node(program, rank, size):
            yield self.found(
                group.location,
                "`rank` is the local rank, which starts at 0 on each node, and `world_size` counts all nodes: with two "
                "nodes two processes have the same rank, and the group is never complete.",
                remedy=_remedy(program),
                because=[("the local rank comes from here", rank.place)],
                # On one node it works, and most programs never leave it.
                severity=Severity.WARNING,
            )


def _waited_in_vain(recording: Recording, code: str) -> bool:
    """Nobody failed before it came to the group: then its place would stay empty for another reason."""
    crashes = [crash for _, crash in recording.crashes() if crash.type != "ProcessRaisedException"]
    if not crashes:
        # Who has not come may be on its way.
        return bool(recording.hang) and code in recording.suspected
    places = {group.place for each in (*recording.ranks, *recording.others) for group in each.groups}
    return all(crash.place in places and any(text in crash.text for text in VAIN) for crash in crashes)


def _stayed_out(process: Process, recording: Recording) -> bool:
    """It failed before it did anything else, or never came out of `init_process_group`."""
    if process.wraps or process.steps or process.collectives:
        return False
    return process.crash is not None or not process.over or any(each.rank == process.rank for each in recording.hang)


def _started(program: Program, group: InitGroup) -> int | None:
    """How many processes the program starts, where it is written as a number, and this group is theirs."""
    spawns = [event for event in program.events(Spawn) if event.location in group.context.calls]
    return spawns[0].number if len(spawns) == 1 else None


def _counts_from_here(rank: Value | None, started: int | None, size: int) -> bool:
    """Nobody else is to start what is missing: ranks that a node's number moves may be those of several nodes."""
    moved = rank is not None and not rank.is_constant and not (isinstance(rank, Rank) and rank.formula is None)
    return not moved or started is None or started > size


def _others_may_come(program: Program, group: InitGroup, size: int, started: int | None) -> bool:
    """Several machines may meet at another address than this one's own, each with as many processes."""
    if not started or size <= started or size % started:
        return False
    writes = [write.value for write in program.events(EnvironmentWrite) if write.name == "MASTER_ADDR"]
    meeting = [*writes, *([group.init_method] if group.init_method else [])]
    return not all(map(is_here, meeting))


def _is_for_each(program: Program, group: InitGroup, size: Value | None) -> bool:
    """All processes come here that the launcher starts, or the program at one place: more than one."""
    if group.condition or group.number_of_ranks == 1:
        return False
    if program.world is LaunchWorld.SPAWN:
        spawns = [event for event in program.events(Spawn) if event.location in group.context.calls]
        return len(spawns) == 1 and spawns[0].number != 1
    # A number beside a number is meant for one process alone, perhaps.
    return size is not None and size.counts(SizeKind.WORLD) and not program.has(Spawn)


def _end_of_equals(program: Program) -> str:
    # Under `torchrun` the store is the launcher's; else each rank 0 opens its own.
    if program.world is LaunchWorld.SPAWN:
        return "the second one ends with `EADDRINUSE`, since the first has opened the port already"
    return "the group waits for the other ranks until it times out"


def _own_rank(program: Program) -> str:
    if program.world is LaunchWorld.SPAWN:
        return "Give the index that `mp.spawn` passes to the worker: `rank=rank`."
    return "Leave `rank` and `world_size` out: `torchrun` sets both."


def _is_beyond(rank: Rank, size: Value | None) -> bool:
    """`task * gpus + gpu` beside a world size that counts the tasks."""
    if rank.formula is None or not isinstance(size, Size) or size.kind is not SizeKind.WORLD or size.product:
        return False
    base, factor = rank.formula
    # A node's own number times its GPUs, beside all processes of the launcher, is right.
    counts_tasks = isinstance(base, Rank) and base.kind is RankKind.GLOBAL and base.formula is None
    return counts_tasks and factor.counts(*ON_ONE_MACHINE)


def _repeats_on_each_node(program: Program, rank: Rank, size: Value | None) -> bool:
    if rank.kind is not RankKind.LOCAL or rank.formula is not None:
        return False
    if rank.source is RankSource.SPAWN_INDEX:
        # `nodes * gpus`: who multiplies means several nodes.
        several = size is not None and isinstance(size.times, Size) and size.config
        return several or (isinstance(size, Size) and size.product)
    # Other nodes would look for the first one on themselves.
    if any(write.name == "MASTER_ADDR" and is_here(write.value) for write in program.events(EnvironmentWrite)):
        return False
    # What an option says may be numbered over all nodes by whoever passes it.
    launched = program.world is LaunchWorld.TORCHRUN and rank.source in LAUNCHED
    return launched and (size is None or size.counts(SizeKind.WORLD))


def _remedy(program: Program) -> str:
    if program.world is LaunchWorld.SPAWN:
        return "Give each process `rank=node * gpus + index`."
    return "Leave `rank` and `world_size` out: `torchrun` sets both."
