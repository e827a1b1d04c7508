"""The global rank is used as the number of a GPU, which only works on the first node.

## What goes wrong

The global rank counts the processes of all nodes, the GPUs of a node are numbered from 0 again. On one node the two
agree. On the second node of eight GPUs the first process has rank 8 and asks for a ninth GPU: `CUDA error: invalid
device ordinal`. What numbers the GPUs is the local rank, which `torchrun` puts into `LOCAL_RANK`.

## Fix

Use `int(os.environ["LOCAL_RANK"])` for devices and keep the rank for samplers and guards. Unsafe: a launcher other
than `torchrun` may not set that variable.

## Silent when

The rank is taken modulo the number of GPUs, or a test has asked for it before; it is the index that `mp.spawn` hands
out; the program meets at `localhost`, or sets `LOCAL_RANK` to the rank, so that it runs on one node anyway; the file is
not a program, and whoever imports it may take care of that.

## Sources

meta-llama/llama-cookbook#90, LMCache/LMCache#814, MzeroMiko/VMamba#115,
https://docs.pytorch.org/docs/stable/elastic/run.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.event_context import only_some_ranks
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.placement import DeviceUsed
from gpudoctor.lint.events.process import EnvironmentWrite, InitGroup
from gpudoctor.lint.questions.addresses import is_here
from gpudoctor.lint.repair.repair import After, Code, Fresh, Holds, Repair, Substitute
from gpudoctor.lint.repair.snippets import FROM_LAUNCHER, LOCAL, local_rank_of
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules._error_texts import INVALID_ORDINAL

# Ranks that meet at such an address are on one node, where the global rank is the local one.


class GlobalRankAsDevice(Rule):
    code = "GPU205"
    severity = Severity.WARNING
    errors = INVALID_ORDINAL
    fix_safety = Safety.UNSAFE
    needs = (DeviceUsed, EnvironmentWrite, InitGroup)

    def in_code(self, program: Program) -> Findings:
        # `mp.spawn` starts its processes on one node; of a library file the caller may know better.
        if program.world is not LaunchWorld.TORCHRUN or not program.whole or _one_node(program):
            return
        # Under `if rank == 0:` the number is known, and right.
        uses = [
            used
            for used in program.events(DeviceUsed)
            if used.certain and _rank_of(used.device) is not None and not only_some_ranks(used)
        ]
        if not uses:
            return
        rank = _rank_of(uses[0].device)
        assert rank is not None
        # One finding: the first use is the choice, and the others follow from it.
        yield self.found(
            at=uses[0].location,
            message=f"The number of the GPU is the global rank{_source(rank)}. On a second node the ranks go on "
            "counting while the GPUs start again at 0: `CUDA error: invalid device ordinal`.",
            remedy=f"Use the local rank for devices: `{local_rank_of(program)}`{_set_by(program)}.",
            because=[("the rank is read here", rank.place), *_others(uses)],
            repair=_use_local(rank, uses),
        )


def _set_by(program: Program) -> str:
    return "" if program.launcher else ", which torchrun sets"


def _use_local(rank: Rank, uses: list[DeviceUsed]) -> Repair | None:
    """Every use gets the local rank: by its name, or by one that is read where the global rank is."""
    if rank.place is None:
        return None
    title = "Use the local rank for devices"
    places = [place for used in uses for place in (used.location, used.device.place) if place]
    named = (Substitute(place, rank, (Holds(LOCAL),)) for place in dict.fromkeys(places))
    new: Code = (Fresh("local_rank", rank.place),)
    fresh = (Substitute(place, rank, new) for place in dict.fromkeys(places))
    read = After(rank.place, ((*new, " = ", *FROM_LAUNCHER),))
    return Repair(title, tuple(named), otherwise=Repair(title, (read, *fresh)))


def _others(uses: list[DeviceUsed]) -> list[tuple[str, Location]]:
    """The next places where the rank becomes a device, each once."""
    places = dict.fromkeys(used.location for used in uses if used.location != uses[0].location)
    # Three places show the pattern; a long training script may have dozens.
    return [("it is the number of a GPU here, too", place) for place in list(places)[:3]]


def _rank_of(device: Value) -> Rank | None:
    index = device.index
    # Who numbers his processes himself, by an argument or as children of one, knows how many nodes there are.
    own = (RankSource.SPAWN_INDEX, RankSource.ARGUMENT)
    if isinstance(index, Rank) and index.kind is RankKind.GLOBAL and index.source not in own:
        return index
    return None


def _source(rank: Rank) -> str:
    return {
        RankSource.ENVIRONMENT: ", from the variable `RANK`",
        RankSource.PROCESS_GROUP: ", from the process group",
        RankSource.SLURM: ", from SLURM",
        RankSource.MPI: ", from MPI",
    }.get(rank.source, "")


def _one_node(program: Program) -> bool:
    """The processes meet at an address that only this node has, or the program makes the rank its local rank."""
    writes = [write for write in program.events(EnvironmentWrite) if write.name == "LOCAL_RANK"]
    # `os.environ["LOCAL_RANK"] = str(rank)`.
    if any(part.counts(RankKind.GLOBAL) for write in writes for part in write.parts):
        return True
    written = [write.value for write in program.events(EnvironmentWrite) if write.name == "MASTER_ADDR"]
    # `except KeyError:` makes a group of one, for who starts no launcher: its address says nothing of the others.
    several = (init for init in program.events(InitGroup) if init.number_of_ranks != 1)
    methods = [init.init_method for init in several if init.init_method is not None]
    return any(is_here(values) for values in (*written, *methods))
