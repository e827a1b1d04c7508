"""A start of a training program, as a launch file says it."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles.placed_text import PlacedText
from gpudoctor.lint.launchfiles.shell_words import Environment, ShellCommand, Word
from gpudoctor.record import dataclass, field


class StartedBy(enum.Enum):
    """What makes the processes of a program."""

    TORCHRUN = "torchrun"
    LAUNCH = "torch.distributed.launch"
    ACCELERATE = "accelerate launch"
    DEEPSPEED = "deepspeed"
    COMPOSER = "composer"
    FABRIC = "fabric run"
    PYTHON = "python"
    SCRIPT = "a script"
    """Another launch file, which starts the program."""
    COMMAND = "a command"
    """One that the project may install."""


OF_TORCH = frozenset({StartedBy.TORCHRUN, StartedBy.LAUNCH})


@dataclass(frozen=True)
class StartOption:
    """An option of a launcher: its name with dashes, what it is given, and where it stands."""

    name: str
    value: Word | None
    at: Location
    words: tuple[Word, ...] = field(default=(), compare=False)

    @property
    def number(self) -> int | None:
        return self.value.number if self.value is not None else None

    @property
    def text(self) -> str | None:
        return self.value.text if self.value is not None else None

    @property
    def counts_gpus(self) -> bool:
        """It is as many as there are GPUs: `gpu`, or `$(nvidia-smi -L | wc -l)`."""
        holes = self.value.holes if self.value is not None else ()
        listed = any(command[:1] == ("nvidia-smi",) for hole in holes for command in hole.commands)
        return listed or self.text in ("gpu", "auto")


StartOptions = Mapping[str, StartOption]


@dataclass(frozen=True)
class Starter:
    """What starts the launcher itself, perhaps several times: `srun`, `mpirun`, a container."""

    name: str
    word: Word
    options: StartOptions
    closed: bool = True
    """All of its options are known."""

    def number(self, name: str) -> int | None:
        """The number that it is told by an option."""
        option = self.options.get(name)
        return option.number if option is not None else None

    @property
    def slots(self) -> tuple[int, ...]:
        """How many processes `mpirun -H one:4,other:4` is to place on each host; empty where that is not known."""
        hosts = self.options.get("hosts")
        counts = [each.partition(":")[2] or "1" for each in (hosts.text or "").split(",")] if hosts is not None else []
        return tuple(map(int, counts)) if hosts is not None and hosts.text and all(map(str.isdecimal, counts)) else ()


@dataclass(frozen=True)
class Container:
    """A container in which the program runs: what it may use of the machine, where that is said."""

    kind: str
    at: Location
    shared_memory: str | None = ""
    """What is said of it; empty where nothing is, None where it is not known."""
    remedy: str = ""
    gpus: str | None = None
    """What is said of its GPUs; empty where it is given none, None where that is not known."""
    gpus_remedy: str = ""
    copies: int | None = None
    """How many of it take part in one training, each as a node; None where that is not said."""
    copies_at: Location | None = None
    alike: bool = True
    """All of these run the same command."""
    slots: int | None = None
    """How many processes `mpirun` places on each copy of it; None where that is not said."""
    slots_at: Location | None = None
    told_in: tuple[Word, ...] = ()
    """The files of variables that it is given."""
    service: tuple[str, ...] = ()
    """The files of Compose that say more of it, as the command names them, and the name of its service."""

    @property
    def begins(self) -> str:
        """Its kind, where a sentence begins with it."""
        return self.kind[:1].upper() + self.kind[1:]


@dataclass(frozen=True)
class BuiltService:
    """A service that runs the image of a Dockerfile: its name, seen from the file of the service.

    `command` is what it is given in the place of the image's `CMD`, and the text in which that stands.
    """

    dockerfile: str
    container: Container
    environment: Environment
    command: tuple[PlacedText, ShellCommand] | None = None

    @property
    def as_image(self) -> bool:
        """It runs what the image runs, perhaps with options: other words would run in its place."""
        return self.command is None or self.command[1].words[0].shown.startswith("-")


@dataclass(frozen=True)
class ProgramStart:
    """A start of a program.

    `starters` come from the outside to the inside. `options` are the launcher's, `closed` where all of them are known.
    `directives` are those of a batch file. `folder` is from where it is started, seen from the file's folder.
    """

    at: Location
    launcher: StartedBy
    word: Word
    options: StartOptions
    closed: bool
    starters: tuple[Starter, ...]
    script: Word | None
    arguments: tuple[Word, ...]
    environment: Environment
    directives: StartOptions = field(default_factory=dict)
    module: bool = False
    conditional: bool = False
    looped: bool = False
    background: bool = False
    per_node: bool = False
    waits: int = 0
    folder: str | None = ""
    container: Container | None = None
    spread_by: str = ""
    """What would have the service that starts it on other machines start several processes."""
    of_function: bool = False
    """A function of the program is started, which another start of it hands over: `executor.submit(train)`."""
    hosts: tuple[int, ...] = ()
    """How many processes each host of its hostfile takes; empty where none is known."""

    @property
    def file(self) -> str:
        return self.at.path

    def started_by(self, *names: str) -> Starter | None:
        """The innermost of these that starts it."""
        return next((each for each in reversed(self.starters) if each.name in names), None)

    def variable(self, name: str) -> Word | None:
        """What a variable of its environment holds."""
        bound = self.environment.get(name)
        return bound.word if bound is not None else None

    def option(self, *names: str) -> StartOption | None:
        """The first of these options that it is given."""
        return next((self.options[name] for name in names if name in self.options), None)

    @property
    def given(self) -> dict[str, str | bool]:
        """The options that the program gets: the text that follows, or True where another one follows. A word as
        `model=large` has `=` before its name."""
        found: dict[str, str | bool] = {}
        for word, following in zip(self.arguments, (*self.arguments[1:], None), strict=False):
            text = word.text
            if text is None:
                continue
            name, equals, value = text.lstrip("-").partition("=")
            if not is_option(text):
                if equals:
                    found[f"={name.lstrip('+')}"] = value
                continue
            after = following.text if following is not None else "--"
            if equals:
                found[name.replace("_", "-")] = value
            elif after is not None:
                found[name.replace("_", "-")] = True if is_option(after) or after == "--" else after
        return found

    @property
    def nodes(self) -> int | None:
        """On how many machines processes of it train together; None where that is not known."""
        name = {StartedBy.ACCELERATE: "num-machines", StartedBy.DEEPSPEED: "num-nodes"}.get(self.launcher, "nnodes")
        option = self.option(name)
        if option is not None:
            text = option.text or ""
            return int(text.rpartition(":")[2]) if text.rpartition(":")[2].isdecimal() else None
        told = self.variable("PET_NNODES") if self.launcher in OF_TORCH else None
        if told is not None:
            return told.number
        if not self.closed or "config-file" in self.options:
            return None
        if self.launcher is StartedBy.DEEPSPEED and "hostfile" in self.options:
            return len(self.hosts) or None
        return 1

    @property
    def processes(self) -> int | None:
        """How many processes the launcher makes on each machine; None where that is not known."""
        match self.launcher:
            case StartedBy.PYTHON:
                return 1
            case StartedBy.ACCELERATE:
                total, nodes = self.option("num-processes"), self.nodes
                return total.number // nodes if total is not None and total.number is not None and nodes else None
            case StartedBy.DEEPSPEED:
                chosen = self.option("num-gpus")
                if chosen is not None or "include" in self.options:
                    return chosen.number if chosen is not None else _included(self.option("include"))
                return self.hosts[0] if len(set(self.hosts)) == 1 and "exclude" not in self.options else None
            case StartedBy.COMPOSER | StartedBy.FABRIC:
                # Left out, it is one for each GPU, or one.
                each = self.option("nproc-per-node")
                return each.number if each is not None else None
        option = self.option("nproc-per-node")
        if option is not None:
            return option.number
        told = self.variable("PET_NPROC_PER_NODE")
        return told.number if told is not None else 1 if self.closed else None

    @property
    def usual_processes(self) -> int | None:
        """How many it makes on each machine where nothing else is said from outside: `${NPROC:-8}`."""
        option = self.option("nproc-per-node", "num-gpus")
        usual = option.value.usual if option is not None and option.value is not None else None
        return int(usual) if usual is not None and usual.isdecimal() else self.processes

    @property
    def world_size(self) -> int | None:
        """How many processes there are on all machines; None where that is not known."""
        mpi = self.started_by("mpirun")
        if self.launcher is StartedBy.PYTHON and mpi is not None and self.started_by("srun") is None:
            return mpi.number("ntasks")
        on_each, tasks = self.processes, self.tasks_per_node
        if on_each is None or tasks is None:
            return None
        if self.launcher is StartedBy.PYTHON:
            machines = self.slurm_nodes if self.started_by("srun") is not None else 1
            return tasks * machines if machines is not None else None
        # A task of SLURM on each machine starts the launcher there.
        return on_each * self.nodes if self.nodes is not None and tasks == 1 else None

    @property
    def tasks_of(self) -> str:
        """What starts its processes itself and names their ranks in its own way, where nobody names them in torch's."""
        starter = self.started_by("srun", "mpirun")
        told = {"RANK", "LOCAL_RANK", "WORLD_SIZE"} & self.environment.keys()
        return starter.name if self.launcher is StartedBy.PYTHON and starter is not None and not told else ""

    @property
    def visible(self) -> tuple[str, ...] | None:
        """The GPUs that it is shown, where a variable says so."""
        word = self.variable("CUDA_VISIBLE_DEVICES")
        if word is None or word.text is None:
            return None
        return tuple(each.strip() for each in word.text.split(",") if each.strip())

    @property
    def tasks_per_node(self) -> int | None:
        """How often `srun` or `mpirun` starts it on each machine; 1 where neither does, None where it is not known."""
        srun, mpi = self.started_by("srun"), self.started_by("mpirun")
        if srun is None:
            return 1 if mpi is None else self._of_mpi(mpi)
        given = self._slurm(srun, "ntasks-per-node")
        own = srun.options.get("ntasks-per-node")
        total, nodes = self._slurm(srun, "ntasks"), self._slurm(srun, "nodes")
        # What srun is told counts more than what the batch file says.
        if "ntasks" in srun.options and own is None:
            given = None
        if given is not None:
            return given.number
        if total is not None:
            count, machines = total.number, _nodes(nodes)
            return max(1, count // machines) if count is not None and machines else None
        if not srun.closed:
            return None
        # Who asks for machines of a kind gets one that nobody has yet, and one task.
        asks = {"nodes", "partition", "gres", "gpus", "account"} & srun.options.keys()
        return 1 if self.directives or asks else None

    def _of_mpi(self, mpi: Starter) -> int | None:
        """How many processes `mpirun` places on each machine: each host takes as many as it has slots."""
        if "ntasks-per-node" in mpi.options:
            return mpi.number("ntasks-per-node")
        total = mpi.number("ntasks")
        if (
            self.container is not None
            and self.container.slots is not None
            and not {"hosts", "hostfile"} & mpi.options.keys()
        ):
            return min(total or self.container.slots, self.container.slots)
        counts = mpi.slots or self.hosts
        if total is None or {"map-by", "pernode"} & mpi.options.keys():
            return None
        if {"hosts", "hostfile"} & mpi.options.keys():
            return min(counts[0], total) if counts and sum(counts) >= total and len(set(counts)) == 1 else None
        # A batch job of several nodes has hosts of its own, and so has a pod.
        several = "nodes" in self.directives and _nodes(self.directives["nodes"]) != 1
        return None if several or self.container is not None else total

    @property
    def slurm_nodes(self) -> int | None:
        """On how many machines `srun` starts it."""
        srun = self.started_by("srun")
        if srun is None:
            return None
        nodes, tasks = self._slurm(srun, "nodes"), self._slurm(srun, "ntasks")
        own = srun.options.get("ntasks")
        # One task runs on one node, of however many the batch file has.
        if own is not None and own.number == 1 and "nodes" not in srun.options:
            return 1
        # A batch file that asks for none gets one, unless its tasks take more.
        if nodes is None and self.directives and (tasks is None or tasks.number == 1):
            return 1
        return _nodes(nodes)

    def slurm(self, name: str) -> StartOption | None:
        """What `srun` is told, or the batch file says for it."""
        srun = self.started_by("srun")
        return self._slurm(srun, name) if srun is not None else self.directives.get(name)

    def _slurm(self, srun: Starter, name: str) -> StartOption | None:
        return srun.options.get(name) or self.directives.get(name)


def _nodes(option: StartOption | None) -> int | None:
    text = option.text or "" if option is not None else ""
    low, _, high = text.partition("-")
    return int(low) if low.isdecimal() and high in ("", low) else None


def _included(option: StartOption | None) -> int | None:
    """`localhost:0,1,2` names three GPUs."""
    text = option.text if option is not None else None
    if text is None or "@" in text or ":" not in text:
        return None
    items = text.partition(":")[2].split(",")
    return len(items) if all(item.isdecimal() for item in items) else None


def is_option(text: str) -> bool:
    """`--name` or `-n`; `-1` is a number."""
    return text[:1] == "-" and text.lstrip("-")[:1].isalpha()
