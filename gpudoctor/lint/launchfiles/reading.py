"""From the bytes of a launch file to what it says."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from gpudoctor.diagnostic import Location
from gpudoctor.lint.launchfiles.documents import Document, documents, yaml_comments
from gpudoctor.lint.launchfiles.launch_file import LaunchFile, SettingsFile, WrittenSetting
from gpudoctor.lint.launchfiles.launchers import Recipes
from gpudoctor.lint.launchfiles.shell import Script, Scripts
from gpudoctor.lint.launchfiles.shell_words import ShellCommand
from gpudoctor.lint.launchfiles.start import ProgramStart, StartedBy
from gpudoctor.lint.launchfiles.variable_files import text_named, variables_of
from gpudoctor.lint.source.launch_names import (
    DOCKERFILE,
    EDITOR,
    INI,
    JSON,
    JUSTFILE,
    MAKEFILE,
    PYTHON,
    QUOTED,
    SHELL,
    TASKS,
    YAML,
    launch_kind,
)
from gpudoctor.record import replace

_ACCELERATE = frozenset({"distributed_type", "num_processes", "num_machines", "compute_environment", "mixed_precision"})
_DEEPSPEED = frozenset(
    {"train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization", "gradient_accumulation_steps"}
)


def read_launch_file(
    path: str, shown: str, text: str, scripts: Scripts | None = None, console: Mapping[str, str] | None = None
) -> LaunchFile:
    """What a launch file says; nothing where it cannot be read. `scripts` gives the scripts that it sources, `console`
    the modules of commands that the project installs."""
    own = {".py": PYTHON, ".ipynb": SHELL}.get(os.path.splitext(path)[1])
    kind = own or launch_kind(path, text[:200].encode())
    try:
        file = _read(kind, path, shown, text, scripts)
    # Nested deeper than any hand would write it.
    except RecursionError:
        file = LaunchFile(path, shown, text)
    return replace(file, lines=tuple(text.split("\n")), launches=tuple(known_commands(file.launches, console or {})))


def known_commands(launches: Iterable[ProgramStart], console: Mapping[str, str]) -> Iterator[ProgramStart]:
    """The starts, without commands that are none: one that the project installs starts a module of it."""
    for each in launches:
        name = each.script.text if each.script is not None else None
        module = console.get(name or "")
        called = each.launcher is StartedBy.COMMAND
        if each.script is not None and module is not None and (called or "no-python" in each.options):
            launcher = StartedBy.PYTHON if called else each.launcher
            yield replace(each, launcher=launcher, script=replace(each.script, parts=(module,)), module=True)
        elif not called:
            yield each


def _read(kind: str, path: str, shown: str, text: str, scripts: Scripts | None) -> LaunchFile:
    file = LaunchFile(path, shown, text)
    if kind in (YAML, JSON, EDITOR):
        return _of_documents(file, kind, scripts)
    if kind == DOCKERFILE:
        from gpudoctor.lint.launchfiles.dockerfile import read_dockerfile

        image = read_dockerfile(shown, text)
        file = replace(file, comments=image.comments, copied=image.copied)
        return replace(file, launches=image.starts, entry=image.entry, whole=image.whole)
    if kind == MAKEFILE:
        from gpudoctor.lint.launchfiles.makefile import read_makefile

        return _of_recipes(file, read_makefile(shown, text, scripts))
    if kind == JUSTFILE:
        from gpudoctor.lint.launchfiles.justfile import read_justfile

        return _of_recipes(file, read_justfile(shown, text, scripts))
    if kind == PYTHON:
        from gpudoctor.lint.launchfiles.python_commands import read_python

        return replace(file, launches=tuple(read_python(shown, text)))
    if kind == QUOTED:
        from gpudoctor.lint.launchfiles.quoted_commands import read_quoted

        return replace(file, launches=tuple(read_quoted(shown, text)), comments=tuple(yaml_comments(shown, text)))
    if kind in (TASKS, INI):
        from gpudoctor.lint.launchfiles.ini_commands import read_ini
        from gpudoctor.lint.launchfiles.task_tables import read_tasks

        told = read_tasks(shown, text) if kind == TASKS else read_ini(shown, text)
        return replace(file, launches=tuple(told), comments=tuple(yaml_comments(shown, text)))
    return _of_shell(file, scripts)


def _of_recipes(file: LaunchFile, read: Recipes) -> LaunchFile:
    file = replace(file, launches=tuple(read.launches), comments=tuple(read.comments))
    return _with_commands(file, read.commands)


def _of_shell(file: LaunchFile, scripts: Scripts | None) -> LaunchFile:
    from gpudoctor.lint.launchfiles.launchers import launches_in, read_batch
    from gpudoctor.lint.launchfiles.placed_text import PlacedText

    # `--nproc_per_node={{ gpus }}` of a template, filled in before any shell reads it: a variable, as wide.
    filled = _FILLED_IN.sub(lambda found: f"${{{found[1]:_<{len(found[0]) - 3}}}}", file.text)
    text = PlacedText.whole(file.shown, filled)
    script, directives = read_batch(text, scripts)
    launches = (*launches_in(script, text, directives), *_of_heredocs(file, script))
    file = replace(file, launches=launches, comments=script.comments, is_batch=bool(directives))
    return _with_commands(file, script.commands)


_FILLED_IN = re.compile(r"\{\{[ -]*(\w+)[ -]*\}\}")
_APPLY = frozenset({"kubectl", "oc", "cat", "tee"})


def _of_heredocs(file: LaunchFile, script: Script) -> Iterator[ProgramStart]:
    """What the manifests start that a script writes, or hands to Kubernetes."""
    for command in script.commands:
        here = command.heredoc
        if here is None or (command.words[0].text or "").rpartition("/")[2] not in _APPLY:
            continue
        told = here.usual or here.shown
        if "apiVersion:" in told:
            from gpudoctor.lint.launchfiles.services import of_kubernetes

            # Each line keeps its number.
            for root in documents("\n" * (here.at.line - 1) + told, file.shown):
                yield from of_kubernetes(root)


def _with_commands(file: LaunchFile, commands: Sequence[ShellCommand]) -> LaunchFile:
    names = frozenset((each.words[0].text or "").rpartition("/")[2] for each in commands)
    file = replace(file, commands=names)
    if not names & {"docker", "docker-compose", "sudo"}:
        return file
    from gpudoctor.lint.launchfiles.images import compose_stacks, run_images

    return replace(file, built=tuple(run_images(commands)), composes=tuple(compose_stacks(commands)))


def _of_documents(file: LaunchFile, kind: str, scripts: Scripts | None) -> LaunchFile:
    from gpudoctor.lint.launchfiles.compose import with_services
    from gpudoctor.lint.launchfiles.services import of_editor, of_kubernetes
    from gpudoctor.lint.launchfiles.task_documents import of_runner

    found = documents(_filled_in(file, scripts), file.shown, is_json=kind != YAML)
    comments = tuple(yaml_comments(file.shown, file.text)) if kind == YAML else ()
    file = replace(file, comments=comments)
    for root in found:
        keys = {key for key, _ in root.items()}
        if kind == EDITOR:
            file = replace(file, launches=(*file.launches, *of_editor(file.shown, root)))
        elif "services" in keys or "include" in keys:
            file = replace(with_services(file, root, scripts), services=root)
        elif {"apiVersion", "kind"} <= keys:
            file = replace(file, launches=(*file.launches, *of_kubernetes(root, found)))
        elif len(_ACCELERATE & keys) >= 2 and "distributed_type" in keys:
            file = replace(file, settings=(*file.settings, _settings("accelerate", root)))
        elif len(_DEEPSPEED & keys) >= 2 or "zero_optimization" in keys:
            file = replace(file, settings=(*file.settings, _settings("deepspeed", root)))
        elif kind == YAML:
            file = replace(file, launches=(*file.launches, *of_runner(root, scripts)))
    return file


def _filled_in(file: LaunchFile, scripts: Scripts | None) -> str:
    """The text, with what Helm and Docker Compose fill in before anybody reads it; each line keeps its number."""
    at = Location(file.shown, 1, 1)
    if scripts is None:
        return file.text
    if os.path.basename(os.path.dirname(file.path)) == "templates" and "{{" in file.text:
        from gpudoctor.lint.launchfiles.charts import rendered

        return rendered(file.text, text_named("../values.yaml", scripts, at))
    beside = text_named(".env", scripts, at) if "services:" in file.text and "${" in file.text else None
    if beside is None:
        return file.text
    known = {name: bound.word.text for name, bound in variables_of(beside)}
    return _INTERPOLATION.sub(lambda found: known.get(found[1]) or found[0], file.text)


_INTERPOLATION = re.compile(r"(?<!\$)\$\{(\w+)(?::?-[^}]*)?\}")


def _settings(of: str, root: Document) -> SettingsFile:
    return SettingsFile(of, {key: WrittenSetting(value.text or "", value.at) for key, value in root.scalars()})


def names_of(file: LaunchFile, name: str, *, contained: bool) -> Iterator[str]:
    """What `/workspace/project/train.py` may be outside of a container, where the project has another place."""
    yield name
    if name.startswith("/") and (contained or file.path.endswith(".ipynb") or launch_kind(file.path) == DOCKERFILE):
        _, *folders = name.split("/")
        for count in range(len(folders)):
            yield "/".join(folders[count:])


_MOST_FOLDERS = 6
"""In which a script is looked for, from that of the launch file upwards: `scripts/train/qm9/large/run.sh`."""


def found_from(file: LaunchFile, name: str, folder: str | None = "") -> str | None:
    """The path that a file names, seen from where it starts something: its own folder, or one above it."""
    if os.path.isabs(name) or "$" in name:
        return None
    if folder and os.path.isabs(folder):
        # On another machine, or in a container, the project has another place.
        below = folder.strip("/").split("/")
        ways = (found_from(file, name, "/".join(below[count:])) for count in range(len(below) + 1))
        return next((path for path in ways if path is not None), None)
    here = os.path.dirname(file.path)
    for _ in range(_MOST_FOLDERS):
        path = os.path.normpath(os.path.join(here, folder or "", name))
        if os.path.isfile(path):
            return os.path.realpath(path)
        above = os.path.dirname(here)
        # A project's folder is as far as a script is meant to look.
        if above == here or os.path.isdir(os.path.join(here, ".git")):
            break
        here = above
    return None
