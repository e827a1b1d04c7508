"""What launch files want to know of a program that they start, and what they say of it."""

from __future__ import annotations

from collections.abc import Mapping

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass, field


@dataclass(frozen=True)
class ProgramFacts:
    """What a program says of how it wants to be started, with the place that says so, where it does.

    `group` is where processes meet that somebody else must have started: alone it waits or ends in an error.
    """

    group: Location | None = None
    group_alone: bool = True
    """It also runs as one process."""
    spawns: Location | None = None
    """It starts its processes itself, whoever starts it."""
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


@dataclass(frozen=True)
class AsStarted:
    """How the launch files of a project start a program, as far as they agree.

    `several` where each starts several processes of it, `given` are the options that all of them give it: the text that
    follows, or True for a switch. `said` is a clause that names it: "as `run.sh` starts it".
    """

    said: str
    several: bool = False
    alone: bool = False
    """One of them starts a single process, which is told no rank."""
    given: Mapping[str, str | bool] = field(default_factory=dict)
    surely: bool = False
    """Each is known to make more than one process, and not only left to say how many."""
