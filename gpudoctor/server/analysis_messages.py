"""What the server asks the process that analyses, and what that answers: plain records, pickled."""

from __future__ import annotations

import pickle
import struct
from typing import Any

from gpudoctor.record import dataclass, field

HEADER = struct.Struct(">Q")
"""Before each message: how many bytes it has."""


@dataclass(frozen=True)
class EditorSettings:
    """What the editor sets; what it leaves out is for the configuration file."""

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    launch: str = ""
    baseline: str = ""


@dataclass(frozen=True)
class AnalysisJob:
    """What is to be done with these texts, which are given by paths without links.

    `kind` is the name of a method of `AnalysisWork`. `paths` are the files, or folders, that it is about, `rows` the
    first and the last line, from 0, of a file or of its `cell`. `encoding` is what the editor counts columns in.
    """

    kind: str
    paths: tuple[str, ...] = ()
    texts: dict[str, bytes] = field(default_factory=dict)
    settings: EditorSettings = EditorSettings()
    encoding: str = "utf-16"
    root: str = ""
    rows: tuple[int, int] = (0, 0)
    cell: int = 0


@dataclass(frozen=True)
class EditorSpan:
    """A stretch of a file, or of a cell of a notebook where `cell` is not 0. Lines and columns count from 0, in units
    of the editor."""

    path: str
    cell: int
    line: int
    character: int
    end_line: int
    end_character: int


@dataclass(frozen=True)
class Told:
    """A finding, in words: `fixable` says that a fix of it may be offered."""

    code: str
    name: str
    severity: str
    message: str
    span: EditorSpan
    related: tuple[tuple[str, EditorSpan], ...] = ()
    fixable: bool = False


@dataclass(frozen=True)
class ProgramSeen:
    """A program that was followed, and the ways in which it is launched."""

    path: str
    worlds: tuple[str, ...]


@dataclass(frozen=True)
class Checked:
    """What was found in texts, or folders. `problems` are for the user: settings that cannot be read."""

    found: tuple[Told, ...] = ()
    programs: tuple[ProgramSeen, ...] = ()
    problems: tuple[str, ...] = ()
    failures: tuple[str, ...] = ()


@dataclass(frozen=True)
class Offer:
    """A change that the user may choose: `safe` where it keeps what the program means, `silences` where it only adds a
    comment. `at` is where the finding stands."""

    code: str
    title: str
    safe: bool
    silences: bool
    at: EditorSpan
    edits: tuple[tuple[EditorSpan, str], ...]


@dataclass(frozen=True)
class Interrupted:
    """The analysis was ended before its end."""


def packed(message: object) -> bytes:
    """A message with its header."""
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return HEADER.pack(len(data)) + data


def unpacked(data: bytes) -> Any:
    """A message without its header."""
    return pickle.loads(data)
