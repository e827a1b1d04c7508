"""Makefiles: the recipes of their targets, as the shell would get them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.lint.launchfiles.launchers import launches_in
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText
from gpudoctor.lint.launchfiles.shell import ScriptComment, read_script
from gpudoctor.lint.launchfiles.shell_words import ShellCommand, ShellVariable, Word

if TYPE_CHECKING:
    from gpudoctor.lint.launchfiles.start import ProgramStart

_ASSIGNS = re.compile(r"^(?:(export|override)\s+)?([\w.-]+)\s*(\?=|:=|::=|\+=|=)\s*(.*)$")
_BEHIND_TARGET = re.compile(r"[^\s#:=][^#:=;]*:[^#:=;]*;")
"""`train: data ; torchrun ...`"""
_SIMPLE = re.compile(r"[\w./,:=@%+-]+")
_EXPANSION = re.compile(r"\$\$|\$\((\w+)\)|\$\{(\w+)\}|\$(.)|\$\([^)]*\)")


def read_makefile(shown: str, text: str) -> tuple[list[ProgramStart], list[ScriptComment], list[ShellCommand]]:
    """The programs that its targets start, its comments, and all of its commands."""
    variables: dict[str, str] = {}
    exported: dict[str, ShellVariable] = {}
    launches: list[ProgramStart] = []
    comments: list[ScriptComment] = []
    commands: list[ShellCommand] = []
    for first, lines in _logical(text):
        line = lines[0]
        behind = _BEHIND_TARGET.match(line)
        if line.startswith("\t") or behind:
            recipe = PlacedText(shown, _recipe(first, lines, variables, behind.end() if behind else 0))
            script = read_script(recipe, dict(exported))
            launches += launches_in(script, recipe, {})
            comments += script.comments
            commands += script.commands
            continue
        body = " ".join(each.rstrip("\\").strip() for each in lines)
        if body.startswith("#"):
            at = PlacedText(shown, [Piece(line, first, 1)]).location(0, len(line))
            comments.append(ScriptComment(body, at, first, first + 1, True))
        found = _ASSIGNS.match(body.partition(" #")[0].rstrip())
        if found is None:
            continue
        export, name, sign, value = found.groups()
        if sign in ("=", ":=", "::=") and "$(shell" not in value:
            variables[name] = value
        elif sign == "?=" and _SIMPLE.fullmatch(value):
            # The environment may say something else.
            variables.setdefault(name, f"$${{{name}:-{value}}}")
        else:
            variables.pop(name, None)
        if export and sign != "+=":
            at = PlacedText(shown, [Piece(line, first, 1)]).location(0, len(line))
            exported[name] = ShellVariable((Word((value,), at),), at, True)
    return launches, comments, commands


def _logical(text: str) -> Iterator[tuple[int, list[str]]]:
    """Lines that go on behind a backslash together, with the number of the first."""
    lines: list[str] = []
    first = 1
    for number, line in enumerate(text.split("\n"), start=1):
        if not lines:
            first = number
        lines.append(line)
        if not line.endswith("\\"):
            yield first, lines
            lines = []
    if lines:
        yield first, lines


def _recipe(first: int, lines: list[str], variables: dict[str, str], begin: int) -> Iterator[Piece]:
    for number, line in enumerate(lines, start=first):
        begins = begin if number == first else 0
        start = len(line) - len(line[begins:].lstrip("\t" if number > first else "\t @-+"))
        at = start
        for found in _EXPANSION.finditer(line, start):
            if found.start() > at:
                yield Piece(line[at : found.start()], number, at + 1)
            yield Piece(_expanded(found, variables), number, found.start() + 1)
            at = found.end()
        yield Piece(f"{line[at:]}\n", number, at + 1)


def _expanded(found: re.Match[str], variables: dict[str, str], depth: int = 0) -> str:
    if found[0] == "$$":
        return "$"
    name = found[1] or found[2] or ""
    value = variables.get(name)
    # For the shell it is a variable from outside.
    if value is None or depth > 4:
        return f"${{{name or '_make'}}}"
    return _EXPANSION.sub(lambda inner: _expanded(inner, variables, depth + 1), value)
