"""Commands that runners of tasks get as text: tables of `pyproject.toml`, `pixi.toml` and `mise.toml`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpudoctor.lint.launchfiles.command_lists import command_of
from gpudoctor.lint.launchfiles.launchers import launches_in
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText
from gpudoctor.lint.launchfiles.shell import Script, read_script
from gpudoctor.lint.launchfiles.shell_words import ShellVariable, Word
from gpudoctor.lint.launchfiles.start import ProgramStart
from gpudoctor.lint.source.setting_files import document_in

_TABLES = ("tasks", "scripts")
_HOLDS = ("cmd", "shell", "run", "sequence", "chain", "composite")
_FOLDER = ("cwd", "dir", "working_dir")
_MOST = 500
"""Tasks of one file."""


def read_tasks(shown: str, text: str) -> Iterator[ProgramStart]:
    """The programs that the tasks of a TOML file start."""
    places = _TextPlaces(shown, text)
    found = list(_tasks(_root(text)))
    for key, value, around in found[:_MOST]:
        task = value if isinstance(value, dict) else {}
        folder = next((said for name in _FOLDER if isinstance(said := task.get(name), str)), "")
        variables: dict[str, ShellVariable] = {}
        for environment in (around, task.get("env")):
            variables |= places.variables(environment) if isinstance(environment, dict) else {}
        for command in _commands(value):
            if isinstance(command, str):
                placed = PlacedText(shown, places.pieces(key, command))
                yield from launches_in(read_script(placed, dict(variables), folder=folder), placed, {})
            else:
                words = [(each, places.pieces(key, each)) for each in command]
                placed, made = command_of(shown, words, variables, folder)
                yield from launches_in(Script((made,), (), ()), placed, {})


def console_scripts(text: str) -> Mapping[str, str]:
    """The commands that a project installs, with the module whose function each calls."""
    root = _root(text)
    tool = root.get("tool")
    poetry = tool.get("poetry") if isinstance(tool, dict) else None
    found: dict[str, str] = {}
    for holder in (root.get("project"), poetry):
        scripts = holder.get("scripts") if isinstance(holder, dict) else None
        for name, value in scripts.items() if isinstance(scripts, dict) else ():
            module, colon, _ = value.partition(":") if isinstance(value, str) else ("", "", "")
            if colon:
                found[name] = module.strip()
    return found


def _root(text: str) -> Mapping[str, object]:
    found = document_in(text, "tasks.toml")
    return found if isinstance(found, dict) else {}


def _tasks(root: Mapping[str, object]) -> Iterator[tuple[str, object, object]]:
    """Each task, with its name and the variables around it. What `project` and Poetry call scripts are functions."""
    tool = root.get("tool")
    pending = [tool, *(root.get(key) for key in ("feature", "target"))]
    if isinstance(tasks := root.get("tasks"), dict):
        yield from ((name, task, root.get("env")) for name, task in tasks.items())
    while pending:
        table = pending.pop()
        for key, value in table.items() if isinstance(table, dict) else ():
            if key in _TABLES and isinstance(value, dict):
                shared = value.get("_")
                around = shared.get("env") if isinstance(shared, dict) else None
                around = around or (table.get("env-vars") if isinstance(table, dict) else None)
                yield from ((name, task, around) for name, task in value.items() if name != "_")
            elif key != "poetry":
                pending.append(value)


def _commands(value: object) -> Iterator[str | list[str]]:
    """The commands of a task: texts, and lists of words."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for each in value:
            yield from _commands(each)
    elif isinstance(value, dict):
        for key in _HOLDS:
            held = value.get(key)
            if key == "cmd" and isinstance(held, list) and all(isinstance(each, str) for each in held):
                yield held
            elif held is not None:
                yield from _commands(held)


class _TextPlaces:
    """Where the texts of a file stand, which its parser does not say."""

    def __init__(self, shown: str, text: str) -> None:
        self._shown = shown
        self._lines = text.split("\n")

    def pieces(self, key: str, value: str) -> list[Piece]:
        """A text, line by line, each as it is found behind its key."""
        named = re.compile(rf"\s*\"?{re.escape(key)}\"?\s*[=.]")
        start = next((at for at, line in enumerate(self._lines) if named.match(line)), None)
        at = start if start is not None else self._header(key)
        found: list[Piece] = []
        for part in value.splitlines(keepends=True) or [""]:
            bare = part.rstrip("\n")
            line = next((n for n in range(at, len(self._lines)) if bare and bare in self._lines[n]), at)
            column = max(self._lines[line].find(bare), 0)
            found.append(Piece(part, line + 1, column + 1))
            at = line
        return found

    def _header(self, key: str) -> int:
        return next((at for at, line in enumerate(self._lines) if line.strip().rstrip("]").endswith(f".{key}")), 0)

    def variables(self, environment: Mapping[str, object]) -> dict[str, ShellVariable]:
        found: dict[str, ShellVariable] = {}
        for name, value in environment.items():
            if isinstance(value, str):
                placed = PlacedText(self._shown, self.pieces(name, value))
                at = placed.location(0, len(placed.text))
                found[name] = ShellVariable((Word((value,), at),), at, True)
        return found
