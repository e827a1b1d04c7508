"""What launch files want to know of a program that they start, and what they say of it."""

from __future__ import annotations

from collections.abc import Mapping

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass, field

RANKS_OF_TASKS = ("SLURM_PROCID", "SLURM_LOCALID", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "PMI_RANK")
"""Where `srun` and `mpirun` tell a process its rank."""


@dataclass(frozen=True)
class EngineUser:
    """What a program tells a framework (`framework`, by the class `made_by`) that has DeepSpeed train.

    `path` is the file that configures DeepSpeed, without links, where the program names it; empty where the launch
    does. `settings` are given by name, None where it is no constant; `whole` where no others may have been given.
    """

    framework: str
    made_by: str
    path: str
    settings: tuple[tuple[str, object], ...]
    at: Location
    whole: bool = True


@dataclass(frozen=True)
class ProgramFacts:
    """What a program says of how it wants to be started, with the place that says so, where it does.

    `group` is where processes meet that somebody else must have started: alone it waits or ends in an error.
    """

    group: Location | None = None
    group_alone: bool = True
    """It also runs as one process."""
    ignored: Location | None = None
    """Where it would make a group under `torchrun`, and makes none as its launch files start it: each of several
    processes trains alone."""
    alone_in: tuple[str, ...] = ()
    """The launch files, as `AsStarted` names them, whose command leaves an option out that would have it make one."""
    alone_without: tuple[str, ...] = ()
    """These options, as they are written."""
    spawns: Location | None = None
    """It starts its processes itself, whoever starts it."""
    starts_its_own: bool = False
    """It starts its processes itself, perhaps only where an option says so: a launcher has no use for it."""
    workers: Location | None = None
    """A loader has worker processes, which hand over batches through shared memory."""
    by_local_rank: Location | None = None
    """The local rank chooses the GPU."""
    options: tuple[str, ...] = ()
    """The names of its command line options, with dashes."""
    options_known: bool = False
    """It takes no others."""
    trains: bool = False
    """It was followed into its training, or a framework trains for it."""
    frameworks: tuple[str, ...] = ()
    accumulation: int | None = None
    """What an `Accelerator` is told about `gradient_accumulation_steps`."""
    accumulation_at: Location | None = None
    devices: int | None = None
    """How many GPUs of a machine Lightning's Trainer is told to use."""
    devices_at: Location | None = None
    nodes: int | None = None
    engine_users: tuple[EngineUser, ...] = ()
    settings_read: tuple[str, ...] = ()
    """The files, without links, that configure DeepSpeed where the program names them."""
    processes: int | None = None
    """The number of all processes, where it is written into the program."""
    processes_at: Location | None = None
    refused: int | None = None
    """A number of processes with which a test of the program ends it before its training."""
    refused_by: str = ""
    refused_at: Location | None = None


@dataclass(frozen=True)
class AsStarted:
    """One way in which the launch files of a project start a program: those that make as many processes of it.

    `starts` names the launch files, `several` where each makes several processes, `given` are the options that all of
    them give it: the text that follows, or True for a switch.
    """

    starts: tuple[str, ...] = ()
    several: bool = False
    alone: bool = False
    """One of them starts `python` itself, which is told no `RANK`; by `srun` or `mpirun` it may do so several times."""
    given: Mapping[str, str | bool] = field(default_factory=dict)
    words: tuple[str, ...] | None = None
    """All that each of them has behind the name of the program, where that is known and the same."""
    configured: Mapping[str, str] = field(default_factory=dict)
    """What the settings files of the launcher say, by their keys, with `engine.` before those of DeepSpeed."""
    complete: bool = False
    """All options that they give it are known."""
    left_out: bool = False
    """Options that they do not give it are what the program makes of them then, where these are numbers."""
    surely: bool = False
    """Each is known to make more than one process, and not only left to say how many."""
    processes: int | None = None
    """How many there are on all machines together; None where that is not known, or is one."""
    per_node: int | None = None
    for_each_gpu: bool = False
    """Each makes as many processes as there are GPUs, on one machine."""
    gpus: int | None = None
    """How many GPUs each shows it; None where that is not known, or differs."""
    differs: bool = False
    """Other launch files start it in another way."""
    of_one: frozenset[str] = frozenset()
    """Options that launch files give it as one process, and never as several."""
    tasks_of: str = ""
    """What starts all of its processes itself, `srun` or `mpirun`, and tells them nothing of what `torchrun` would."""

    @property
    def said(self) -> str:
        """A clause that names it: "when `run.sh` starts it"; empty where no launch file starts it."""
        return said_of(self.starts)

    @property
    def told(self) -> str:
        """What it does: "`run.sh` starts 8 processes"; empty where all launch files do the same."""
        if not self.differs:
            return ""
        count = self.processes if self.processes is not None else "several" if self.several else "one"
        switches = [f"`--{name}`" for name, value in self.given.items() if value is True]
        words = f" with {', '.join(switches)}" if switches else ""
        return f"{_named(self.starts)} {count} process{'' if count == 'one' else 'es'}{words}"


def said_of(starts: tuple[str, ...]) -> str:
    """The clause for one or more launch files."""
    return f"when {_named(starts)} it" if starts else ""


def _named(starts: tuple[str, ...]) -> str:
    first, *others = starts
    return f"`{first}` and {len(others)} more start" if others else f"`{first}` starts"
