"""Commands in YAML files of runners: Taskfiles, workflows of GitHub and GitLab, stages of DVC, tasks of SkyPilot."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from gpudoctor.lint.launchfiles.documents import Document, documents
from gpudoctor.lint.launchfiles.launchers import launches_in
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText, filled_in
from gpudoctor.lint.launchfiles.services import environment_of
from gpudoctor.lint.launchfiles.shell import read_script
from gpudoctor.lint.launchfiles.shell_words import ShellVariable, bound_to, show_gpus
from gpudoctor.lint.launchfiles.start import Container
from gpudoctor.lint.launchfiles.variable_files import text_named, variables_named
from gpudoctor.record import dataclass, field

if TYPE_CHECKING:
    from gpudoctor.lint.launchfiles.shell import Scripts
    from gpudoctor.lint.launchfiles.start import ProgramStart

_PARAMETERS = "params.yaml"
"""From where DVC takes values, where nothing else is said."""
_HOSTED = ("ubuntu-", "windows-", "macos-", "${{")
"""Machines of GitHub's own, which have no GPU, and those of a matrix, which mostly are."""
_TEMPLATE = re.compile(r"\{\{-?\s*\.(\w+)\s*(?:\|\s*default\s+[\"']?([^\"'}]*?)[\"']?\s*)?-?\}\}|\{\{.*?\}\}")
_EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
_INTERPOLATION = re.compile(r"\$\{([\w.-]+)\}")


@dataclass(frozen=True)
class _TaskScript:
    """A script that a runner gives the shell, with what it fills in before."""

    lines: tuple[Document, ...]
    places: re.Pattern[str]
    value: Callable[[re.Match[str]], str]
    environment: dict[str, ShellVariable] = field(default_factory=dict)
    folder: Document | None = None
    container: Container | None = None

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
        yield from launches_in(script, text, {}, self.container)


def of_runner(root: Document, others: Scripts | None) -> Iterator[ProgramStart]:
    """What the commands of such a file start; nothing where it is none."""
    keys = {key for key, _ in root.items()}
    jobs: Iterable[_TaskScript] = ()
    if {"version", "tasks"} <= keys:
        jobs = _of_taskfile(root, others)
    elif {"jobs", "on"} <= keys:
        jobs = _of_workflow(root)
    elif any(job["script"] is not None for _, job in root.items()):
        jobs = _of_pipeline(root)
    elif "stages" in keys:
        jobs = _of_stages(root, others)
    elif "run" in keys and keys & {"resources", "num_nodes", "setup", "workdir", "file_mounts"}:
        jobs = _of_sky(root)
    for job in jobs:
        yield from job.starts()


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


def _of_workflow(root: Document) -> Iterator[_TaskScript]:
    def value(found: re.Match[str]) -> str:
        return f"${{{re.sub(r'[^A-Za-z0-9]+', '_', found[1].removeprefix('env.')).strip('_')}}}"

    for _, job in _mapping(root["jobs"]):
        machine, steps = job["runs-on"], job["steps"]
        if machine is not None and (machine.text or "").startswith(_HOSTED):
            continue
        for step in steps.members() if steps is not None else ():
            run = tuple(_texts(step["run"]))
            environment = _environment(root["env"], job["env"], step["env"])
            if run:
                yield _TaskScript(run, _EXPRESSION, value, environment, step["working-directory"])


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


def _of_sky(root: Document) -> Iterator[_TaskScript]:
    """Each node of the task runs the script."""
    environment, nodes = _environment(root["envs"]), root["num_nodes"]
    count = int(nodes.text) if nodes is not None and nodes.text and nodes.text.isdecimal() else 1
    at = nodes.at if nodes is not None else root.at
    environment["SKYPILOT_NUM_NODES"] = bound_to(str(count), at)
    asked = root.at_path("resources", "accelerators")
    gpus = _accelerators(asked) if asked is not None else None
    if asked is not None and gpus is not None:
        show_gpus(environment, gpus, asked.at)
        environment["SKYPILOT_NUM_GPUS_PER_NODE"] = bound_to(str(gpus), asked.at)
    container = Container("the task", root.at, "host", copies=count, copies_at=at) if count > 1 else None
    yield _TaskScript(tuple(_texts(root["run"])), _NOTHING, str, environment, container=container)


_NOTHING = re.compile(r"(?!)")


def _accelerators(asked: Document) -> int | None:
    """`A100:8`, `{A100: 8}`, or `A100`, which is one; None where there are several to choose from."""
    pairs = [asked.text.partition(":")[::2]] if asked.text else [(key, each.text or "") for key, each in asked.items()]
    counts = {count.strip() or "1" for _, count in pairs}
    [count] = counts if len(counts) == 1 else [""]
    return int(count) if count.isdecimal() else None
