"""The number of processes is taken from the number of GPUs in this machine.

## What goes wrong

`torch.cuda.device_count()` counts the GPUs that this process can see. The number of processes is what the launcher has
started: fewer with `torchrun --nproc-per-node 2` on a machine with four GPUs, more on two nodes. A process group with
the wrong `world_size` waits for processes that never come, until the rendezvous times out. A `DistributedSampler` with
the wrong `num_replicas` cuts the data into too few shards, `ValueError: Invalid rank 2, rank should be in the interval
[0, 1]`, or into too many, of which nobody reads the last ones.

## Fix

Ask the process group: `dist.get_world_size()`; in most places the argument can be left out, since `init_process_group`
and `DistributedSampler` ask the launcher themselves. No automatic fix.

## Silent when

The program, its launch file, or a framework other than DeepSpeed and Accelerate starts the processes, one for each GPU
of one machine; it multiplies with the number of nodes; the local rank numbers the processes of the group; the number
comes from the launcher, the user or a mesh.

## Sources

pytorch/pytorch#52848, pytorch/pytorch#23074.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, Size, SizeKind
from gpudoctor.lint.domain.value import Values
from gpudoctor.lint.events.data_loading import MakeSampler
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.process import InitGroup, Spawn
from gpudoctor.rule import CrashText, Findings, Program, Rule
from gpudoctor_rules._error_texts import NO_SUCH_RANK


class WorldSizeFromDeviceCount(Rule):
    code = "GPU408"
    severity = Severity.WARNING
    errors = NO_SUCH_RANK
    shows_when = ("ended_well",)
    needs = (InitGroup, MakeSampler)
    looks_at = ((InitGroup, "world_size"), (MakeSampler, "sampler.replicas"))
    crash = CrashText(
        "Invalid rank",
        also="rank should be in the interval",
        because="the number of ranks was not what `device_count()` says",
        remedy="Take both numbers from the process group: `dist.get_rank()` and `dist.get_world_size()`.",
    )

    def in_code(self, program: Program) -> Findings:
        # A framework may start the processes itself, one for each GPU.
        if program.world is LaunchWorld.SINGLE or program.managed_by - program.leaving("processes"):
            return
        # With a process for each GPU of one machine, that it starts itself, the two numbers are the same.
        spawned = [event.number for event in program.events(Spawn)]
        if (program.world is LaunchWorld.SPAWN and not spawned) or None in spawned or program.started_for_each_gpu:
            return
        started = "the launcher starts" if program.world is LaunchWorld.TORCHRUN else "`mp.spawn` is told to start"
        nodes = program.started_on_nodes
        differ = f"on the {nodes} nodes of this launch" if nodes > 1 else "where the two differ"
        for group in program.events(InitGroup):
            count = _device_count(group.world_size)
            if count is not None and _is_launched(group.rank) and not _is_local(group.rank):
                yield self.found(
                    group.location,
                    "`world_size` is the number of GPUs in this machine, and not the number of processes that "
                    f"{started}: {differ}, the group waits for processes that never start.",
                    remedy="Leave `world_size` and `rank` out: `torchrun` sets both."
                    if program.world is LaunchWorld.TORCHRUN
                    else "Give `nprocs` and `world_size` the same number.",
                    because=[("the GPUs are counted here", count.place)],
                    severity=Severity.ERROR if nodes > 1 else Severity.WARNING,
                )
        for made in program.events(MakeSampler):
            sampler = made.sampler
            if (count := _device_count(sampler.replicas)) is None:
                continue
            # What numbers the ranks counts the processes.
            told = _is_launched(sampler.rank) or _is_passed(program, sampler.rank)
            if told and program.has(InitGroup):
                yield self.found(
                    sampler.place,
                    f"`{sampler.label}` splits the data into as many shards as this machine has GPUs, and not as many "
                    f"as {started} processes: {differ}, shards are never read, or ranks have none.",
                    remedy="Leave `num_replicas` and `rank` out: the sampler asks the process group for both.",
                    because=[("the GPUs are counted here", count.place)],
                    severity=Severity.ERROR if nodes > 1 else Severity.WARNING,
                )


def _device_count(values: Values | None) -> Size | None:
    """The count of devices, where it can be nothing else."""
    only = values.single if values is not None else None
    return only if isinstance(only, Size) and only.counts(SizeKind.DEVICES) else None


def _is_launched(rank: Values | None) -> bool:
    """The rank is known to come from whoever starts the processes; an argument may be numbered by anybody."""
    return rank is None or (isinstance(rank.single, Rank) and rank.single.source is not RankSource.ARGUMENT)


def _is_local(rank: Values | None) -> bool:
    """A group that is numbered by the local rank is made for one machine."""
    return rank is not None and rank.all(lambda each: each.counts(RankKind.LOCAL))


def _is_passed(program: Program, rank: Values | None) -> bool:
    """The project's launcher passes it, and tells the process group how many there are: with a group of as many as
    there are GPUs, the program is made for one machine."""
    passed = program.takes_local_rank and _is_local(rank)
    return passed and not any(_device_count(group.world_size) for group in program.events(InitGroup))
