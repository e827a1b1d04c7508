"""From a command to the start of a program: launchers, what starts them, and their options."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles.compose_commands import IN_SERVICE, ComposeCommand, compose_command
from gpudoctor.lint.launchfiles.detached import in_terminal, repeated
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText
from gpudoctor.lint.launchfiles.shell import Script, quoted_script, read_script
from gpudoctor.lint.launchfiles.shell_words import Environment, ShellCommand, ShellVariable, Word
from gpudoctor.lint.launchfiles.start import Container, ProgramStart, StartedBy, Starter, StartOption, StartOptions
from gpudoctor.lint.launchfiles.syntax import Syntax, options_of, values_of, words_of
from gpudoctor.record import replace

MAX_DEPTH = 6
"""Commands that start each other are followed so deep: `srun bash -c "torchrun ..."` are three."""


_TORCHRUN = Syntax(
    words_of("standalone module no-python run-path use-env virtual-local-rank help"),
    {"m": "module", "r": "redirects", "t": "tee"},
)
_ACCELERATE = Syntax(
    words_of(
        "cpu multi-gpu tpu xpu hpu use-xpu ipex quiet module no-python same-network debug use-fsdp use-deepspeed "
        "use-mps-device use-megatron-lm use-parallelism-config no-tpu-cluster tpu-cluster tpu-use-sudo "
        "enable-cpu-affinity no-same-network help fsdp-forward-prefetch-flag use-cpu"
    ),
    {"m": "module", "q": "quiet"},
)
_DEEPSPEED = Syntax(
    words_of(
        "module no-python no-local-rank no-ssh-check no-ssh force-multi elastic-training bind-cores-to-rank save-pid "
        "use-env slurm-flag help"
    ),
    {"H": "hostfile", "i": "include", "e": "exclude"},
)
_COMPOSER = Syntax(
    words_of("module-mode command-mode version verbose help v"),
    {"n": "nproc-per-node", "nproc": "nproc-per-node", "m": "module-mode", "c": "command-mode"},
)
_FABRIC = Syntax(words_of("help"), {"devices": "nproc-per-node", "num-nodes": "nnodes"})
_PYTHON = Syntax(
    words_of("u B s S E I v b d i O OO P q x module help version"),
    {"m": "module", "c": "command", "W": "w-value", "X": "x-value"},
)
_SRUN = Syntax(
    words_of(
        "label unbuffered kill-on-bad-exit-flag overlap pty verbose overcommit no-kill multi-prog quiet exact whole "
        "disable-status contiguous hold immediate-flag no-container-mount-home container-writable container-mount-home "
        "no-container-remap-root container-remap-root l u v O s k Q"
    ),
    {
        "N": "nodes",
        "n": "ntasks",
        "G": "gpus",
        "c": "cpus-per-task",
        "p": "partition",
        "w": "nodelist",
        "x": "exclude",
        "t": "time",
        "A": "account",
        "J": "job-name",
        "o": "output",
        "e": "error",
        "i": "input",
        "D": "chdir",
        "C": "constraint",
        "q": "qos",
        "m": "distribution",
        "a": "array",
        "K": "kill-on-bad-exit",
        "r": "relative",
        "B": "extra-node-info",
        "d": "dependency",
        "b": "begin",
        "L": "licenses",
        "M": "clusters",
        "T": "threads",
    },
    optional=words_of("exclusive kill-on-bad-exit immediate propagate K I X"),
)
_MPIRUN = Syntax(
    words_of(
        "allow-run-as-root oversubscribe report-bindings tag-output display-map display-allocation nooversubscribe "
        "verbose v q quiet gloo mpi use-gloo use-mpi autotune enable-recovery bycore bynode byslot bind-to-core "
        "bind-to-none prepend-rank l output-proctable do-not-launch"
    ),
    {
        "np": "ntasks",
        "n": "ntasks",
        "c": "ntasks",
        "N": "ntasks-per-node",
        "npernode": "ntasks-per-node",
        "ppn": "ntasks-per-node",
        "H": "hosts",
        "host": "hosts",
        "f": "hostfile",
        "machinefile": "hostfile",
    },
    two=words_of("mca genv env gmca"),
    single_dash=True,
)
_SSH = Syntax(
    words_of("t tt n q T A N f v x X Y C 4 6 a k K g"),
    {"p": "port", "o": "o", "i": "identity", "l": "login", "J": "jump", "F": "config"},
)
_PDSH = Syntax(
    words_of("a A b S N B L q v d n P"),
    {
        "w": "hosts",
        "x": "exclude",
        "g": "group",
        "l": "login",
        "t": "timeout",
        "u": "limit",
        "f": "fanout",
        "R": "module",
    },
)
_ON_ALL = frozenset({"pdsh", "clush"})
_DOCKER = Syntax(
    words_of(
        "rm privileged init tty interactive detach read-only publish-all no-healthcheck oom-kill-disable quiet help "
        "i t d P it ti dit itd tid nv nvidia"
    ),
    {
        "v": "volume",
        "e": "env",
        "w": "workdir",
        "u": "user",
        "m": "memory",
        "p": "publish",
        "h": "hostname",
        "l": "label",
    },
)
_SINGULARITY = Syntax(
    words_of("nv rocm cleanenv containall contain no-home writable writable-tmpfs fakeroot nvccli no-mount-flag e c C"),
    {"B": "bind", "H": "home", "W": "workdir"},
)

# What only starts what follows it, and how many words of its own stand before that.
_PLAIN = {"exec": "", "nohup": "", "command": "", "builtin": "", "setsid": "", "time": "", "sudo": "", "then": ""}
_TAKING: dict[str, Syntax] = {
    "env": Syntax(words_of("i ignore-environment")),
    "nice": Syntax(frozenset()),
    "ionice": Syntax(frozenset()),
    "numactl": Syntax(words_of("localalloc hardware show l s"), None),
    "stdbuf": Syntax(words_of("oL eL o0 e0 i0 iL")),
    "timeout": Syntax(words_of("foreground preserve-status verbose v")),
    "taskset": Syntax(words_of("c p a cp")),
    "nsys": Syntax(
        words_of("help"),
        {
            "o": "output",
            "t": "trace",
            "f": "force-overwrite",
            "w": "show-output",
            "s": "sample",
            "y": "delay",
            "d": "duration",
        },
    ),
    "coverage": Syntax(words_of("p branch parallel-mode")),
    "caffeinate": Syntax(words_of("i s d m")),
}
_OWN_WORDS = {"timeout": 1, "taskset": 1, "nsys": 1, "coverage": 1}
_RUNNERS = {
    "uv": "run",
    "poetry": "run",
    "pipenv": "run",
    "pixi": "run",
    "conda": "run",
    "mamba": "run",
    "micromamba": "run",
    "rye": "run",
    "hatch": "run",
    "pdm": "run",
}
_RUN = Syntax(
    words_of(
        "no-capture-output live-stream no-sync frozen locked active isolated all-extras no-dev dev quiet q v "
        "verbose no-project"
    ),
    {"n": "name", "p": "prefix", "m": "module"},
)
_SHELLS = frozenset({"bash", "sh", "zsh", "dash"})
_GIVES_GPUS = frozenset({"gpus", "runtime", "device", "privileged", "env-file", "volumes-from"})
_SCRIPTS = (".sh", ".bash")
_CONTAINERS = frozenset({"docker", "podman", "nvidia-docker"})
_STARTING = frozenset({"torchrun", "accelerate", "deepspeed", "python", "python3", "srun", "mpirun"})
_TOLD_BY_SLURM = {
    "nodes": ("SLURM_NNODES", "SLURM_JOB_NUM_NODES"),
    "ntasks": ("SLURM_NTASKS", "SLURM_NPROCS"),
    "ntasks-per-node": ("SLURM_NTASKS_PER_NODE",),
    "cpus-per-task": ("SLURM_CPUS_PER_TASK",),
    "gpus-per-node": ("SLURM_GPUS_PER_NODE", "SLURM_GPUS_ON_NODE"),
}
_MPI = frozenset({"mpirun", "mpiexec", "mpiexec.hydra", "orterun", "horovodrun", "jsrun", "aprun", "ibrun"})


def launches_in(
    script: Script,
    text: PlacedText,
    directives: StartOptions,
    container: Container | None = None,
    starters: tuple[Starter, ...] = (),
) -> Iterator[ProgramStart]:
    """The starts of programs, and of scripts that may start some, among the commands of a script."""
    for command in script.commands:
        yield from _CommandReader(text, directives, container).starts(command, starters, 0)


def directives_of(script: Script, text: PlacedText) -> dict[str, StartOption]:
    """What a batch file asks of SLURM, in comments before its first command."""
    found: dict[str, StartOption] = {}
    for comment in script.head:
        if not comment.text.startswith("#SBATCH"):
            continue
        given, _, _ = comment.text.removeprefix("#SBATCH").partition(" #")
        line = PlacedText(comment.at.path, _moved(given, comment.at))
        inner = read_script(_as_command(line))
        for command in inner.commands:
            options, _, _ = options_of(command.words[1:], _SRUN)
            found |= {name: replace(option, at=comment.at) for name, option in options.items()}
    return found


def told_by_slurm(directives: StartOptions) -> dict[str, ShellVariable]:
    """The variables that a batch file finds set, as far as it says itself what it asks for."""
    found: dict[str, ShellVariable] = {}
    for name, variables in _TOLD_BY_SLURM.items():
        option = directives.get(name)
        if option is not None and option.number is not None:
            bound = ShellVariable((Word((str(option.number),), option.at),), option.at, exported=True)
            found |= dict.fromkeys(variables, bound)
    return found


def _moved(text: str, at: Location) -> list[Piece]:
    return [Piece(text, at.line, at.column + len("#SBATCH"))]


def _as_command(line: PlacedText) -> PlacedText:
    """The options behind a name, so that they read as those of a command."""
    [piece] = line.stretch(0, len(line.text)) or [Piece("", 1, 1)]
    return PlacedText(line.path, [Piece("sbatch", piece.line, 1), piece])


def tasks_of_srun(words: Sequence[str]) -> tuple[dict[str, int | None], tuple[str, ...]]:
    """The options of `srun` that are numbers, by their long names, and the command that it starts."""
    nowhere = Location("", 1, 1)
    options, following, _ = options_of([Word((each,), nowhere) for each in words], _SRUN)
    return {name: option.number for name, option in options.items()}, tuple(each.text or "" for each in following)


class _CommandReader:
    """Reads what one command of a file starts."""

    def __init__(self, text: PlacedText, directives: StartOptions, container: Container | None) -> None:
        self._text = text
        self._directives = directives
        self._container = container

    def starts(self, command: ShellCommand, starters: tuple[Starter, ...], depth: int) -> Iterator[ProgramStart]:
        words = command.words
        if depth > MAX_DEPTH or not words:
            return
        name = _base(words[0])
        rest = words[1:]

        def inner(
            following: Sequence[Word], more: tuple[Starter, ...] = (), **changes: object
        ) -> Iterator[ProgramStart]:
            changed = replace(command, words=tuple(following), **changes)  # type: ignore[arg-type]
            return self.starts(changed, (*starters, *more), depth + 1)

        if name in _PLAIN:
            _, following, _ = options_of(rest, Syntax(words_of("a p E H n k S b i")))
            yield from inner(following)
        elif name == "eval":
            yield from self._quoted(command, rest, starters, depth, per_node=command.per_node)
        elif name in _TAKING:
            yield from self._taking(name, rest, command, inner)
        elif name in _RUNNERS and rest and rest[0].text == _RUNNERS[name]:
            options, following, _ = options_of(rest[1:], _RUN)
            # `uv run train.py` and `uv run -m train` are python's.
            if name == "uv" and "module" in options and options["module"].value is not None:
                yield from self._launch("python", replace(command, words=(words[0], *rest[1:])), starters)
            elif name == "uv" and following and (following[0].text or "").endswith(".py"):
                yield self._made(StartedBy.PYTHON, replace(command, words=following), {}, following, True, starters)
            else:
                yield from inner(following)
        elif name in _SHELLS:
            yield from self._shell(command, rest, starters, depth)
        elif name == "sbatch":
            yield from self._batch(command, rest, depth)
        elif name == "srun":
            options, following, closed = options_of(rest, _SRUN)
            yield from inner(following, (Starter("srun", words[0], options, closed),))
        elif name in _MPI:
            options, following, closed = options_of(rest, _MPIRUN)
            yield from inner(
                following, (Starter("mpirun", words[0], options, closed),), environment=_told(rest, command)
            )
        elif name == "ssh":
            yield from self._remote(command, starters, depth)
        elif name in _ON_ALL:
            yield from self._on_all(command, starters, depth)
        elif name in ("tmux", "screen"):
            yield from self._terminals(name, command, starters, depth)
        elif name in ("xargs", "parallel"):
            yield from self._repeated(name, command, starters, depth)
        elif name in _CONTAINERS and rest and rest[0].text == "run":
            yield from self._container_run(words, command, inner)
        elif (composed := compose_command(command)) is not None:
            yield from self._in_service(composed, command)
        elif name in ("singularity", "apptainer") and rest and rest[0].text in ("exec", "run"):
            _, following, _ = options_of(rest[1:], _SINGULARITY)
            yield from inner(following[1:])
        elif not name and words[0].open and rest and _base(rest[0]) in _STARTING:
            # `$PROFILER torchrun ...`: whatever stands before it, this is started.
            yield from inner(rest)
        else:
            yield from self._launch(name, command, starters)

    def _remote(self, command: ShellCommand, starters: tuple[Starter, ...], depth: int) -> Iterator[ProgramStart]:
        """Another machine reads the words behind its name, and sees none of the variables of this one."""
        options, following, closed = options_of(command.words[1:], _SSH)
        # A name from outside was passed over as an option may be.
        words = following[1:] if closed else following
        there = replace(command, words=words, environment={}, per_node=True)
        more = (*starters, Starter("ssh", command.words[0], options, closed))
        if len(words) == 1:
            yield from self._quoted(there, words, more, depth, per_node=True)
        else:
            yield from self.starts(there, more, depth + 1)

    def _on_all(self, command: ShellCommand, starters: tuple[Starter, ...], depth: int) -> Iterator[ProgramStart]:
        """`pdsh -w node[1-4] "..."` has several machines do the same."""
        options, words, closed = options_of(command.words[1:], _PDSH)
        there = replace(command, words=words, environment={}, per_node=True, looped=True)
        more = (*starters, Starter("ssh", command.words[0], options, closed))
        if len(words) == 1:
            yield from self._quoted(there, words, more, depth, per_node=True)
        elif words:
            yield from self.starts(there, more, depth + 1)

    def _terminals(
        self, name: str, command: ShellCommand, starters: tuple[Starter, ...], depth: int
    ) -> Iterator[ProgramStart]:
        """What runs in terminals beside the script: what is typed into one runs after what was typed before."""
        for each in in_terminal(name, command.words[1:]):
            target = each.options.get("target")
            again = command.looped and (each.own or target is None or target.text is None)
            there = replace(command, words=each.words, background=True, looped=again)
            more = (*starters, Starter("typed" if not each.own else "terminal", command.words[0], each.options))
            if len(each.words) == 1:
                yield from self._quoted(there, each.words, more, depth, per_node=command.per_node)
            else:
                yield from self.starts(there, more, depth + 1)

    def _repeated(
        self, name: str, command: ShellCommand, starters: tuple[Starter, ...], depth: int
    ) -> Iterator[ProgramStart]:
        """`xargs -P 4` and `parallel` start a command for each item."""
        found = repeated(name, command.words[1:])
        if found is None:
            return
        there = replace(command, words=found.words, background=found.at_once, looped=True)
        first = str(found.words[0].parts[0]) if found.words[0].parts else ""
        if name == "parallel" and len(found.words) == 1:
            yield from self._quoted(there, found.words, starters, depth, per_node=command.per_node)
        elif name == "parallel" and "=" in first:
            # A shell reads it: variables may come first.
            env = replace(there, words=(replace(found.words[0], parts=("env",)), *found.words))
            yield from self.starts(env, starters, depth + 1)
        else:
            yield from self.starts(there, starters, depth + 1)

    def _shell(
        self, command: ShellCommand, rest: Sequence[Word], starters: tuple[Starter, ...], depth: int
    ) -> Iterator[ProgramStart]:
        """`bash -c "..."`, and what a shell is given to read."""
        options, following, _ = options_of(
            rest, Syntax(words_of("l e x u i ex eu eux euxo lc"), {"c": "command", "o": "o"})
        )
        flag = next((each for each in ("lc", "ec", "exc", "xc", "cl") if each in options), "")
        if "command" in options and options["command"].value is not None:
            yield from self._quoted(
                command, (options["command"].value,), starters, depth, per_node=runs_on_each(starters)
            )
        elif flag and following:
            yield from self._quoted(command, following[:1], starters, depth, per_node=runs_on_each(starters))
        elif command.heredoc and not following:
            yield from self._heredoc(command, starters)
        elif following:
            yield self._made(StartedBy.SCRIPT, command, {}, following, True, starters)

    def _batch(self, command: ShellCommand, rest: Sequence[Word], depth: int) -> Iterator[ProgramStart]:
        """`sbatch --wrap="..."`, and a script that it is given to read."""
        options, _, _ = options_of(rest, _SRUN)
        if command.heredoc:
            yield from self._heredoc(command, ())
        elif "wrap" in options and options["wrap"].value is not None:
            own = _CommandReader(self._text, {**self._directives, **options}, self._container)
            yield from own._quoted(command, (options["wrap"].value,), (), depth, per_node=False)

    def _taking(self, name: str, rest: Sequence[Word], command: ShellCommand, inner: object) -> Iterator[ProgramStart]:
        _, following, _ = options_of(rest, _TAKING[name])
        skipped = _OWN_WORDS.get(name, 0)
        following = following[skipped:]
        if name in ("nsys", "coverage"):
            _, following, _ = options_of(following, _TAKING[name])
        environment = dict(command.environment)
        while name == "env" and following and "=" in str(following[0].parts[0] if following[0].parts else ""):
            variable = str(following[0].parts[0]).partition("=")[0]
            value = following[0].after(f"{variable}=")
            if value is None or not variable.isidentifier():
                break
            environment[variable] = ShellVariable((value,), following[0].at, True)
            following = following[1:]
        yield from inner(following, environment=environment)  # type: ignore[operator]

    def _container_run(self, words: Sequence[Word], command: ShellCommand, inner: object) -> Iterator[ProgramStart]:
        options, following, container, told = docker_run(words)
        own = _CommandReader(self._text, self._directives, container)
        entry = options.get("entrypoint")
        following = (*([entry.value] if entry is not None and entry.value is not None else []), *following[1:])
        # The project is mounted there, or copied. Nothing of the environment around it is seen inside.
        yield from own.starts(replace(command, words=tuple(following), environment=told), (), 1)

    def _in_service(self, composed: ComposeCommand, command: ShellCommand) -> Iterator[ProgramStart]:
        """`docker compose run train torchrun ...`: what is said of the service stands in the files of Compose."""
        options, following = composed.in_service
        service = following[0].text if following else None
        if composed.does not in IN_SERVICE or service is None or None in composed.files or "entrypoint" in options:
            return
        container = Container(
            f"the service `{service}`", _span(command.words[0].at, following[0].at), None,
            service=(*map(str, composed.files), service),
        )  # fmt: skip
        own = _CommandReader(self._text, self._directives, container)
        inside = replace(command, words=following[1:], environment=variables_told(composed.words))
        yield from own.starts(inside, (), 1)

    def _quoted(
        self, command: ShellCommand, words: Sequence[Word], starters: tuple[Starter, ...], depth: int, *, per_node: bool
    ) -> Iterator[ProgramStart]:
        word = words[0] if words else None
        if word is None or not word.inside:
            return
        early = per_node and not command.per_node
        text, known = quoted_script(word, self._text, dict(command.environment), early=early)
        script = read_script(
            text,
            known,
            folder=command.folder,
            per_node=per_node,
            conditional=command.conditional,
            looped=command.looped,
            background=command.background,
        )
        own = _CommandReader(text, self._directives, self._container)
        for each in script.commands:
            yield from own.starts(each, starters, depth + 1)

    def _heredoc(self, command: ShellCommand, starters: tuple[Starter, ...]) -> Iterator[ProgramStart]:
        text, known = command.heredoc
        assert isinstance(text, PlacedText)
        script = read_script(text, known, folder=command.folder, looped=command.looped)  # type: ignore[arg-type]
        own = _CommandReader(text, directives_of(script, text) or self._directives, self._container)
        for each in script.commands:
            yield from own.starts(each, starters, 1)

    def _launch(self, name: str, command: ShellCommand, starters: tuple[Starter, ...]) -> Iterator[ProgramStart]:
        rest = command.words[1:]
        found: tuple[StartedBy, Syntax] | None = None
        if name == "torchrun":
            found = StartedBy.TORCHRUN, _TORCHRUN
        elif name == "accelerate" and rest and rest[0].text == "launch":
            found, rest = (StartedBy.ACCELERATE, _ACCELERATE), rest[1:]
        elif name in ("deepspeed", "ds"):
            found = StartedBy.DEEPSPEED, _DEEPSPEED
        elif name == "composer":
            found = StartedBy.COMPOSER, _COMPOSER
        elif name == "fabric" and rest and rest[0].text == "run":
            found, rest = (StartedBy.FABRIC, _FABRIC), rest[1:]
        elif _is_python(name):
            yield from self._python(command, starters)
            return
        elif name.endswith(".py") and "/" in (command.words[0].text or ""):
            yield self._made(StartedBy.PYTHON, command, {}, command.words, True, starters)
            return
        if name.endswith(_SCRIPTS) and "/" in command.words[0].shown:
            yield self._made(StartedBy.SCRIPT, command, {}, command.words, True, starters)
        elif found is not None:
            options, following, closed = options_of(rest, found[1])
            yield self._made(found[0], command, options, following, closed, starters)
        elif name and name == command.words[0].text:
            yield self._made(StartedBy.COMMAND, command, {}, command.words, True, starters)

    def _python(self, command: ShellCommand, starters: tuple[Starter, ...]) -> Iterator[ProgramStart]:
        options, following, closed = options_of(command.words[1:], _PYTHON)
        if not closed:
            # What is not known may be the script, and what follows its arguments.
            return
        if "command" in options:
            return
        if "module" not in options:
            yield self._made(StartedBy.PYTHON, command, options, following, closed, starters)
            return
        name = following[0].text if following else None
        known = {
            "torch.distributed.run": (StartedBy.TORCHRUN, _TORCHRUN),
            "torch.distributed.launch": (StartedBy.LAUNCH, _TORCHRUN),
            "torch.distributed.launcher": (StartedBy.LAUNCH, _TORCHRUN),
            "accelerate.commands.launch": (StartedBy.ACCELERATE, _ACCELERATE),
            "deepspeed.launcher.runner": (StartedBy.DEEPSPEED, _DEEPSPEED),
            "deepspeed": (StartedBy.DEEPSPEED, _DEEPSPEED),
        }
        if name in known:
            own, script, closed = options_of(following[1:], known[name][1])
            yield self._made(known[name][0], command, own, script, closed, starters)
        elif following:
            yield self._made(StartedBy.PYTHON, command, options, following, closed, starters)

    def _made(
        self,
        launcher: StartedBy,
        command: ShellCommand,
        options: StartOptions,
        following: Sequence[Word],
        closed: bool,
        starters: tuple[Starter, ...],
    ) -> ProgramStart:
        return ProgramStart(
            at=command.at,
            launcher=launcher,
            word=command.words[0],
            options=options,
            closed=closed,
            starters=starters,
            script=following[0] if following else None,
            arguments=tuple(following[1:]),
            environment=command.environment,
            directives=self._directives,
            module="module" in options,
            conditional=command.conditional,
            looped=command.looped,
            background=command.background,
            per_node=command.per_node,
            waits=command.waits,
            folder=command.folder,
            container=self._container,
        )


def docker_run(words: Sequence[Word]) -> tuple[StartOptions, tuple[Word, ...], Container, Environment]:
    """The options of `docker run`, the image and what follows it, and the container with what it is told."""
    options, following, closed = options_of(words[2:], _DOCKER)
    told = variables_told(words[2:])
    shared, given = _shared_memory(options), _GIVES_GPUS & options.keys()
    plain = closed and _base(words[0]) == "docker" and "NVIDIA_VISIBLE_DEVICES" not in told
    container = Container(
        "docker run",
        _span(words[0].at, words[1].at),
        shared if closed or shared else None,
        "`--ipc=host` or `--shm-size=8g`",
        gpus="given" if given else "" if plain else None,
        gpus_remedy="`--gpus all`",
    )
    return options, following, container, told


def variables_told(words: Sequence[Word]) -> dict[str, ShellVariable]:
    """What a container is told by `-e NAME=value`."""
    return {
        each.text.partition("=")[0]: ShellVariable((Word((each.text.partition("=")[2],), each.at),), each.at, True)
        for each in values_of(words, ("-e", "--env"))
        if each.text is not None and "=" in each.text
    }


def _base(word: Word) -> str:
    text = word.usual
    if text is None:
        # `$CONDA_PREFIX/bin/torchrun`
        last = word.parts[-1]
        text = last if isinstance(last, str) and "/" in last else ""
    return text.rpartition("/")[2] if not text.endswith(".py") else text


def _is_python(name: str) -> bool:
    return name == "python" or (name.startswith("python") and name[6:].replace(".", "").isdecimal())


def runs_on_each(starters: Sequence[Starter]) -> bool:
    """Each process of what they start expands its own words."""
    return any(each.name in ("srun", "mpirun") for each in starters)


def _told(words: Sequence[Word], command: ShellCommand) -> Environment:
    """With the variables that `mpirun -x NAME=value` sets."""
    found = dict(command.environment)
    for each in values_of(words, ("-x",)):
        name, equals, value = (each.text or "").partition("=")
        if equals:
            found[name] = ShellVariable((Word((value,), each.at),), each.at, True)
    return found


def _shared_memory(options: StartOptions) -> str | None:
    for name in ("shm-size", "ipc"):
        option = options.get(name)
        if option is not None:
            return option.text if option.text else None
    volumes = [
        option.value.shown for name, option in options.items() if name in ("volume", "mount", "tmpfs") and option.value
    ]
    return "mounted" if any("/dev/shm" in each for each in volumes) else ""


def _span(first: Location, last: Location) -> Location:
    return replace(first, end_line=last.end_line, end_column=last.end_column)
