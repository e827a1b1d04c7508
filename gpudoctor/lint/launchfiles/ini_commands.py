"""Commands in files of lines `key = value` (tox, systemd, supervisord, HTCondor), or one a line (crontab, Procfile)."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.lint.launchfiles.launchers import launches_in, show_asked
from gpudoctor.lint.launchfiles.placed_text import Piece, PlacedText, filled_in
from gpudoctor.lint.launchfiles.shell import read_script
from gpudoctor.lint.launchfiles.shell_words import ShellVariable, bound_to
from gpudoctor.lint.launchfiles.start import ProgramStart
from gpudoctor.record import dataclass, field

_SUBSTITUTION = re.compile(r"(?<!\$)\{(?:env:)?(\w+)[^{}]*\}")
_SETTING = re.compile(r"^\+?(\w+)\s*\+?=\s*(.*)$")
_SECTION = re.compile(r"^\[(.+)\]")
_COMMANDS = re.compile(r"commands\w*|ExecStart\w*|command|executable", re.IGNORECASE)
_ENVIRONMENT = frozenset({"setenv", "set_env", "environment"})
_FOLDER = frozenset({"changedir", "change_dir", "workingdirectory", "directory", "initialdir"})
_PAIR = re.compile(r"([A-Za-z_]\w*)\s*=\s*(\"[^\"]*\"|'[^']*'|[^\s,;\"']+)")
_ON_A_LINE = re.compile(r"^(?:@\w+\s+|(?:[\d*/,-]+\s+){5}|[\w-]+:\s+)(?=\S)")
"""What stands before a command in a crontab, and in a Procfile."""


@dataclass
class _IniSection:
    """What one section says: its commands, each in pieces, and for all of them variables and a folder."""

    commands: list[list[Piece]] = field(default_factory=list)
    environment: dict[str, ShellVariable] = field(default_factory=dict)
    folder: str = ""

    def starts(self, shown: str) -> Iterator[ProgramStart]:
        for pieces in self.commands:
            placed = PlacedText(shown, pieces)
            yield from launches_in(read_script(placed, dict(self.environment), folder=self.folder), placed, {})


def read_ini(shown: str, text: str) -> Iterator[ProgramStart]:
    """The programs that the commands of such a file start."""
    section = _IniSection()
    key, goes_on = "", False
    for number, line in enumerate(text.split("\n"), start=1):
        found = _SETTING.match(line)
        before = _ON_A_LINE.match(line)
        if _SECTION.match(line):
            yield from section.starts(shown)
            section, key, goes_on = _IniSection(), "", False
        elif found is not None and not goes_on:
            key, goes_on = found[1].lower(), _said(section, shown, found[1].lower(), line, number, found.start(2))
        elif before is not None and not goes_on:
            goes_on = _add(section, line, number, before.end(), False)
        elif goes_on or line[:1] in (" ", "\t"):
            goes_on = _said(section, shown, key, line, number, len(line) - len(line.lstrip()), goes_on)
    yield from section.starts(shown)


def _said(
    section: _IniSection, shown: str, key: str, line: str, number: int, start: int, goes_on: bool = False
) -> bool:
    """Take over what a line says of a key; whether the next line belongs to it."""
    value = line[start:].strip()
    at = PlacedText(shown, [Piece(line, number, 1)]).location(start, len(line.rstrip()))
    if key == "arguments" and section.commands:
        # The words behind the executable of HTCondor.
        section.commands[-1][-1] = Piece(section.commands[-1][-1].text.rstrip("\n") + " ", *_place(section))
        return _add(section, line, number, start, True)
    if key == "request_gpus":
        show_asked(section.environment, f"gpus={value}", at)
    elif key in _ENVIRONMENT:
        section.environment |= {each[1]: bound_to(each[2].strip("\"'"), at) for each in _PAIR.finditer(value)}
    elif key in _FOLDER:
        section.folder = value
    elif _COMMANDS.fullmatch(key):
        return _add(section, line, number, start, goes_on)
    elif "=" not in line[:start]:
        return False
    else:
        # A variable of a crontab.
        section.environment[line.partition("=")[0].strip()] = bound_to(value.strip("\"'"), at)
    return False


def _place(section: _IniSection) -> tuple[int, int]:
    last = section.commands[-1][-1]
    return last.line, last.column


def _add(section: _IniSection, line: str, number: int, start: int, goes_on: bool) -> bool:
    # `-` before a command lets it fail, and so do the marks of systemd.
    start += len(line[start:]) - len(line[start:].lstrip(" " if goes_on else "- @+!:"))
    if not goes_on:
        section.commands.append([])
    piece = Piece(f"{line[start:]}\n", number, start + 1)
    section.commands[-1] += filled_in(piece, _SUBSTITUTION, lambda found: f"${{{found[1]}}}")
    return line.endswith("\\")
