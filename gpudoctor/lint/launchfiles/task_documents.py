"""Commands in YAML files of runners: Taskfiles, workflows, stages of DVC, and jobs of clouds and clusters.

Most say under fixed keys what they run and where: these are lines of a table (`_RUNNERS`). Some need a function.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator

from gpudoctor.lint.launchfiles.command_lists import command_of
from gpudoctor.lint.launchfiles.documents import Document, documents
from gpudoctor.lint.launchfiles.launchers import launches_in
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText, filled_in
from gpudoctor.lint.launchfiles.services import environment_of, number_of, started_in
from gpudoctor.lint.launchfiles.shell import Script, Scripts, read_script
from gpudoctor.lint.launchfiles.shell_words import ShellVariable, Word, bound_to, show_gpus
from gpudoctor.lint.launchfiles.start import Container, ProgramStart, Starter, StartOption
from gpudoctor.lint.launchfiles.variable_files import text_named, variables_named
from gpudoctor.record import dataclass, field, replace

_PARAMETERS = "params.yaml"
"""From where DVC takes values, where nothing else is said."""
_HOSTED = ("ubuntu-", "windows-", "macos-", "${{")
"""Machines of GitHub's own, which have no GPU, and those of a matrix, which mostly are."""
_TEMPLATE = re.compile(r"\{\{-?\s*\.(\w+)\s*(?:\|\s*default\s+[\"']?([^\"'}]*?)[\"']?\s*)?-?\}\}|\{\{.*?\}\}")
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_INTERPOLATION = re.compile(r"\$\{([\w.-]+)\}")
_NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True)
class _TaskScript:
    """A script that a runner gives the shell, with what it fills in before."""

    lines: tuple[Document, ...]
    places: re.Pattern[str]
    value: Callable[[re.Match[str]], str]
    environment: dict[str, ShellVariable] = field(default_factory=dict)
    folder: Document | None = None
    container: Container | None = None
    starters: tuple[Starter, ...] = ()

    def starts(self) -> Iterator[ProgramStart]:
        pieces: list[Piece] = []
        for each in self.lines:
            for piece in each.pieces:
                pieces += filled_in(piece, self.places, self.value)
            pieces.append(Piece("\n", each.at.end_line or each.at.line, each.at.end_column))
        if not pieces:
            return
        text = PlacedText(self.lines[0].shown, pieces)
        folder = (self.folder.text or "") if self.folder is not None else ""
        several = self.container is not None and (self.container.copies or 1) > 1
        script = read_script(text, dict(self.environment), folder=folder, per_node=several)
        yield from launches_in(script, text, {}, self.container, self.starters)


def of_runner(root: Document, others: Scripts | None) -> Iterator[ProgramStart]:
    """What the commands of such a file start; nothing where it is none."""
    keys = {key for key, _ in root.items()}
    jobs: Iterable[_TaskScript] = ()
    if {"version", "tasks"} <= keys and not _at(root, "tasks.*.image"):
        jobs = _of_taskfile(root, others)
    elif any(job["script"] is not None for _, job in root.items()):
        jobs = _of_pipeline(root)
    elif {"program", "method"} <= keys:
        yield from _of_sweep(root)
    elif "stages" in keys and not keys & {"pool", "trigger"}:
        jobs = _of_stages(root, others)
    else:
        runner = next((each for each in _RUNNERS if each.keys <= keys and (not each.any or each.any & keys)), None)
        if runner is not None:
            yield from runner.starts(root)
    for job in jobs:
        yield from job.starts()


@dataclass(frozen=True)
class _Runner:
    """A format whose files say under fixed keys what they run: names joined by dots, `*` for each member."""

    keys: frozenset[str]
    any: frozenset[str] = frozenset()
    """One of these has to be there, too."""
    jobs: str = ""
    """Where its jobs stand; what they are in is asked for what they leave out."""
    commands: tuple[str, ...] = ("command",)
    """What of a job runs: a script, or a list of its lines."""
    words: tuple[str, ...] = ()
    """Lists that are the words of one command."""
    environment: tuple[str, ...] = ("env",)
    folder: str = ""
    gpus: str = ""
    nodes: str = ""
    processes: str = ""
    """How many processes of the command each node starts."""
    hosted: str = ""
    """What names a machine of the service's own, which has no GPU."""
    filled: re.Pattern[str] = _NOTHING
    told: tuple[str, str] = ("", "")
    """The variables in which the command finds the number of nodes, and that of the GPUs of each."""

    def starts(self, root: Document) -> Iterator[ProgramStart]:
        for around in _at_all((root,), self.jobs):
            job = around[-1]
            machine = _said(around, self.hosted)
            if machine is not None and (machine.text or "").startswith(_HOSTED):
                continue
            environment = _environment(
                *(each.at_path(*name.split(".")) for each in around for name in self.environment)
            )
            container = self._shown(around, environment)
            folder = _said(around, self.folder)
            starters = self._starters(around, environment)
            scripts = [job] if job.text is not None else [value for name in self.commands for value in _at(job, name)]
            lines = tuple(line for value in scripts if value.text or not self.words for line in _texts(value))
            script = _TaskScript(lines, self.filled, _as_variable, environment, folder, container, starters)
            yield from script.starts()
            listed = [value for name in self.words for value in _at(job, name)]
            if listed and listed[0].text is None:
                yield from started_in(listed[0], listed[1] if len(listed) > 1 else None, environment, container, folder)

    def _starters(self, around: tuple[Document, ...], environment: dict[str, ShellVariable]) -> tuple[Starter, ...]:
        """The service itself starts the command in several processes, and tells each its rank."""
        asked, nodes = _said(around, self.processes), number_of(_said(around, self.nodes)) or 1
        each = number_of(asked)
        if asked is None or each is None:
            return ()
        for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"):
            environment.setdefault(name, bound_to(None, asked.at, name))
        counts = {"ntasks-per-node": each, "ntasks": each * nodes}
        options = {name: StartOption(name, Word((str(count),), asked.at), asked.at) for name, count in counts.items()}
        return (Starter("mpirun", Word(("distribution",), asked.at), options),)

    def _shown(self, around: tuple[Document, ...], environment: dict[str, ShellVariable]) -> Container | None:
        """The machines that a job asks for; what it is told of them goes into its environment."""
        gpus, nodes = _said(around, self.gpus), _said(around, self.nodes)
        count, machines = _accelerators(gpus) if gpus is not None else None, number_of(nodes) or 1
        at = nodes.at if nodes is not None else around[-1].at
        for name, value, place in ((self.told[0], machines, at), (self.told[1], count, gpus.at if gpus else at)):
            if name and value is not None:
                environment[name] = bound_to(str(value), place)
        if gpus is not None and count is not None:
            show_gpus(environment, count, gpus.at)
        return Container("the task", around[-1].at, "host", copies=machines, copies_at=at) if machines > 1 else None


def _at_all(around: tuple[Document, ...], name: str) -> Iterator[tuple[Document, ...]]:
    """The values at a path, each with those that it is in."""
    key, _, rest = name.partition(".")
    value = around[-1]
    if not key:
        yield around
    elif key == "*":
        for each in (*value.members(), *(one for _, one in value.items())):
            yield from _at_all((*around, each), rest)
    elif (found := value[key]) is not None:
        yield from _at_all((*around, found), rest)


def _at(value: Document, name: str) -> list[Document]:
    return [found[-1] for found in _at_all((value,), name)]


def _said(around: tuple[Document, ...], name: str) -> Document | None:
    """What the innermost of these says."""
    return next((found for each in reversed(around) for found in (_at(each, name) if name else ())), None)


def _as_variable(found: re.Match[str]) -> str:
    """For the shell, what a runner fills in is a variable from outside."""
    return f"${{{re.sub(r'[^A-Za-z0-9]+', '_', found[1].removeprefix('env.')).strip('_')}}}"


def _texts(value: Document | None) -> Iterator[Document]:
    """The commands in a value: it itself, the members of a list, and what these say of one."""
    if value is not None and value.text is not None:
        yield value
    for each in value.members() if value is not None else ():
        yield from _texts(each if each.text is not None else each["cmd"])


def _mapping(*values: Document | None) -> Iterator[tuple[str, Document]]:
    return (pair for each in values if each is not None for pair in each.items())


def _environment(*values: Document | None) -> dict[str, ShellVariable]:
    """The variables of all of these; the last one counts."""
    return {name: bound for each in values for name, bound in environment_of(each).items()}


def _of_taskfile(root: Document, others: Scripts | None) -> Iterator[_TaskScript]:
    for _, task in _mapping(root["tasks"]):
        outside = variables_named((each for at in (root, task) for each in _texts(at["dotenv"])), others)
        known = {name: each.text for name, each in _mapping(root["vars"], task["vars"]) if each.text is not None}

        def value(found: re.Match[str], known: dict[str, str] = known, depth: int = 0) -> str:
            name, default = found[1] or "_task", found[2]
            said = known.get(name)
            if default is None and said is not None and depth < _MAX_DEPTH:
                return _TEMPLATE.sub(lambda inner: value(inner, known, depth + 1), said)
            return f"${{{name}:-{default}}}" if default is not None else f"${{{name}}}"

        environment = {**outside, **_environment(root["env"], task["env"])}
        # Each command has a shell of its own.
        for key in ("cmds", "cmd"):
            for each in (*_texts(task[key]), *_texts(task if key == "cmd" else None)):
                yield _TaskScript((each,), _TEMPLATE, value, environment, task["dir"])


_MAX_DEPTH = 4
"""Variables of a Taskfile that name others are followed so deep."""


def _of_pipeline(root: Document) -> Iterator[_TaskScript]:
    """Jobs of GitLab. Those of machines of one's own say by `tags` which."""
    for _, job in _mapping(root):
        lines = [
            line for each in (job["before_script"] or root["before_script"], job["script"]) for line in _texts(each)
        ]
        if job["script"] is not None and job["tags"] is not None:
            yield _TaskScript(tuple(lines), _NOTHING, str, _environment(root["variables"], job["variables"]))


def _of_stages(root: Document, others: Scripts | None) -> Iterator[_TaskScript]:
    beside = text_named(_PARAMETERS, others, root.at)
    read = documents(beside.text, beside.path) if beside is not None else []
    known = {name: each.text or "" for document in read for name, each in document.scalars()}

    def value(found: re.Match[str]) -> str:
        return known.get(found[1]) or f"${{{re.sub(r'[^A-Za-z0-9]+', '_', found[1])}}}"

    for _, stage in _mapping(root["stages"]):
        each = stage["do"] or stage
        for line in _texts(each["cmd"]):
            yield _TaskScript((line,), _INTERPOLATION, value, folder=each["wdir"])


def _accelerators(asked: Document) -> int | None:
    """`A100:8`, `{A100: 8}`, `8`, or `A100`, which is one; None where there are several to choose from."""
    pairs = [asked.text.partition(":")[::2]] if asked.text else [(key, each.text or "") for key, each in asked.items()]
    counts = {count.strip() or "1" for _, count in pairs}
    [count] = counts if len(counts) == 1 else [""]
    if asked.text and asked.text.isdecimal():
        return int(asked.text)
    return int(count) if count.isdecimal() else None


_MACROS = {"${env}": "env", "${interpreter}": "python"}
"""What a sweep of Weights & Biases writes in the place of words."""


def _of_sweep(root: Document) -> Iterator[ProgramStart]:
    """An agent starts the program for each choice of parameters."""
    program, command = root["program"], root["command"]
    listed = command.members() if command is not None else []
    words: list[tuple[str, list[Piece]]] = []
    for each in listed if listed and program is not None else ():
        if each.text == "${program}" and program is not None:
            words.append((program.text or "", program.pieces))
        elif each.text is not None and "${args" not in each.text:
            words.append((_MACROS.get(each.text, each.text), each.pieces))
    if not listed and program is not None and program.text:
        words = [("python", program.pieces), (program.text, program.pieces)]
    if words:
        text, made = command_of(root.shown, words, {})
        yield from launches_in(Script((replace(made, looped=True),), (), ()), text, {})


_RUNNERS = (
    # GitHub
    _Runner(
        frozenset({"jobs", "on"}), jobs="jobs.*.steps.*.run", environment=("env", "container.env"),
        folder="working-directory", hosted="runs-on", filled=_EXPRESSION,
    ),
    # CircleCI
    _Runner(frozenset({"jobs", "version"}), jobs="jobs.*.steps.*.run", environment=("environment",)),
    # Pipelines of Azure, and of Buildkite
    _Runner(
        frozenset({"steps"}), jobs="steps.*", commands=("script", "bash", "command", "commands"), hosted="pool.vmImage",
    ),
    # SkyPilot
    _Runner(
        frozenset({"run"}), frozenset({"resources", "num_nodes", "setup", "workdir", "file_mounts"}),
        commands=("run",), environment=("envs",), gpus="resources.accelerators", nodes="num_nodes",
        told=("SKYPILOT_NUM_NODES", "SKYPILOT_NUM_GPUS_PER_NODE"),
    ),
    # dstack
    _Runner(
        frozenset({"type", "commands"}), commands=("commands",), gpus="resources.gpu", nodes="nodes",
        folder="working_dir", told=("DSTACK_NODES_NUM", "DSTACK_GPUS_PER_NODE"),
    ),
    # Azure ML, and MosaicML
    _Runner(
        frozenset({"command"}), frozenset({"compute", "environment", "environment_variables", "distribution"}),
        environment=("environment_variables", "env_variables"), folder="code", nodes="resources.instance_count",
        gpus="compute.gpus", processes="distribution.process_count_per_instance", filled=_EXPRESSION,
    ),
    _Runner(
        frozenset({"jobs", "type"}), jobs="jobs.*", environment=("environment_variables",), folder="code",
        nodes="resources.instance_count", processes="distribution.process_count_per_instance", filled=_EXPRESSION,
    ),
    # Vertex AI
    _Runner(
        frozenset({"workerPoolSpecs"}), jobs="workerPoolSpecs.*", commands=(),
        words=("containerSpec.command", "containerSpec.args"), environment=("containerSpec.env",),
        gpus="machineSpec.acceleratorCount", nodes="replicaCount",
    ),
    # Determined, and Anyscale
    _Runner(
        frozenset({"entrypoint"}), commands=("entrypoint",), words=("entrypoint",), gpus="resources.slots_per_trial",
        environment=("environment.environment_variables", "env_vars", "runtime_env.env_vars"), folder="working_dir",
    ),
    # Beaker
    _Runner(
        frozenset({"tasks"}), jobs="tasks.*", commands=(), words=("command", "arguments"), environment=("envVars",),
        gpus="resources.gpuCount", nodes="replicas",
    ),
    # MLflow
    _Runner(frozenset({"entry_points"}), jobs="entry_points.*", filled=re.compile(r"\{(\w+)\}")),
)  # fmt: skip
