"""Source files: the text and the syntax tree of each, or why it cannot be read; and those that were read."""

from __future__ import annotations

import ast
import errno
import os
import stat
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location
from gpudoctor.lint.source.encoding import UndecodableError, decode
from gpudoctor.lint.source.file_queries import CONTENT, digest_of, most_bytes, note
from gpudoctor.lint.source.launch_names import launch_kind
from gpudoctor.lint.source.process_state import fresh_stack, no_warnings
from gpudoctor.lint.source.size_limits import UNPARSABLE, too_much
from gpudoctor.record import dataclass, field, replace

if TYPE_CHECKING:
    # Nobody reads what a field is, and most files are no notebooks.
    from gpudoctor.lint.source.notebooks.cells import Cells  # noqa: TC004

NOTEBOOK = ".ipynb"


@dataclass(frozen=True, eq=False)
class SourceFile:
    """A file that Python can read. Two are equal only when they are the same object.

    `path` is absolute and free of links; `shown` is what the user reads: relative to the working directory with
    forward slashes, absolute where the file lies elsewhere. Lines of `text` end with `\\n`, whatever the file has.
    """

    path: str
    shown: str
    text: str
    tree: ast.Module
    digest: str = ""
    """Of its bytes, as they were when it was read."""
    cells: Cells | None = None
    """Those of a notebook, of which `text` is the program that they are together."""
    flaws: tuple[Unreadable, ...] = ()
    """Cells that cannot be read, and are no part of the program."""
    launches: bool = False
    """It is no program but starts some: a shell script, a Dockerfile. Its tree is empty."""
    seen: dict[object, object] = field(default_factory=dict)
    """What was seen in it, by who looked (`classify.once_a_file`)."""

    def forget_tree(self) -> None:
        """Free the tree, which takes twenty times the memory of the text. It is made anew where it is asked for."""
        self.__dict__.pop("tree", None)

    @property
    def is_parsed(self) -> bool:
        """The tree is there."""
        return "tree" in self.__dict__

    def checked(self) -> SourceFile | Unreadable:
        """The file, parsed; or why it cannot be, where it was read late."""
        try:
            self.__dict__["tree"] = self.tree
        except UNPARSABLE as error:
            return replace(_unparsable(error, self.text, self.path, self.shown), digest=self.digest)
        return self

    def __getattr__(self, name: str) -> ast.Module:
        if name != "tree":
            raise AttributeError(name)
        tree = self.__dict__["tree"] = _parse(self.text, self.shown)
        return tree

    @cached_property
    def lines(self) -> list[str]:
        """The lines as the parser counts them; `str.splitlines` would also cut at form feeds."""
        return self.text.split("\n")

    @cached_property
    def _plain(self) -> bool:
        return self.text.isascii()

    def location(self, node: ast.stmt | ast.expr | ast.arg | ast.keyword | ast.alias | ast.excepthandler) -> Location:
        """Where a node stands, in characters from 1; the parser counts bytes of UTF-8 from 0."""
        end_line, end_offset = node.end_lineno or node.lineno, node.end_col_offset or node.col_offset
        # In ASCII bytes are characters; the encoding below costs more than the finding.
        if self._plain:
            return Location(self.shown, node.lineno, node.col_offset + 1, end_line, end_offset + 1)
        return Location(
            self.shown,
            node.lineno,
            self._column(node.lineno, node.col_offset),
            end_line,
            self._column(end_line, end_offset),
        )

    def beginning(self, node: ast.stmt | ast.expr) -> tuple[int, int]:
        """The line and column at which a node begins, in characters from 1."""
        at = node.col_offset + 1 if self._plain else self._column(node.lineno, node.col_offset)
        return node.lineno, at

    def stretch(self, start: int, end: int) -> Location:
        """The place of a stretch of the text, from its offsets."""
        (line, column), (end_line, end_column) = (
            (self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)) for offset in (start, end)
        )
        return Location(self.shown, line, column, end_line, end_column)

    @property
    def commands(self) -> str:
        """The text of a launch file; what a notebook has the shell do, on the lines of its program."""
        if self.cells is None:
            return self.text
        # Imported late, as below.
        from gpudoctor.lint.source.notebooks.shell_lines import shell_of

        return shell_of(self.cells)

    def placed(self, at: Location) -> Location:
        """A place in the text, as users find it: in a notebook, in its cell."""
        return at if self.cells is None else self.cells.place(at)

    def line_of(self, at: Location) -> int:
        """The line of the text at which a place begins that users found."""
        return at.line if self.cells is None else self.cells.line_of(at)

    def lines_around(self, at: Location) -> Sequence[str]:
        """The lines that users see around a place that they found: those of the file, or of a notebook's cell."""
        return self.lines if self.cells is None else self.cells.lines(at)

    def _column(self, line: int, offset: int) -> int:
        if line > len(self.lines):
            return offset + 1
        if line not in self._continuing:
            text = self.lines[line - 1]
            data = b"" if text.isascii() else text.encode("utf-8", "replace")
            self._continuing[line] = [at for at, byte in enumerate(data) if byte & 0xC0 == 0x80]
        continuing = self._continuing[line]
        if not continuing:
            return offset + 1
        # Imported late: most lines are plain.
        from bisect import bisect_left

        return offset - bisect_left(continuing, offset) + 1

    @cached_property
    def _continuing(self) -> dict[int, list[int]]:
        """By line, at which of its bytes no character begins: a long line is asked for once for each node on it."""
        return {}

    def __repr__(self) -> str:
        return f"SourceFile({self.shown})"


@dataclass(frozen=True)
class Unreadable:
    """A file that cannot be read, and the place and reason.

    `needs_python` is the version that could read it. `by_limit` says that the file may be fine and is too large for us,
    `opened` that it could at least be looked into, `in_cell` that it is only a cell of a notebook.
    """

    path: str
    shown: str
    line: int
    column: int
    message: str
    needs_python: str = ""
    by_limit: bool = False
    opened: bool = True
    in_cell: bool = False
    refused: str = ""
    """The text that the parser did not take, where a newer one may; `first` lines stand before it."""
    first: int = 0
    digest: str = ""
    """Of its bytes; empty where they could not be read."""

    @property
    def is_newer(self) -> bool:
        """A newer Python than this one reads it."""
        return bool(self.needs_python) and tuple(map(int, self.needs_python.split("."))) > sys.version_info[:2]

    @property
    def location(self) -> Location:
        return Location(self.shown, self.line, self.column)

    @property
    def remedy(self) -> str:
        """What to do about it."""
        if self.in_cell:
            return "write there what Python expects, or make it a raw cell; only the other cells were checked"
        if self.path.endswith(NOTEBOOK) and self.opened and not self.by_limit:
            return "save it as a notebook again, or leave it out with `--exclude`; nothing in it was checked"
        if not self.opened:
            return "make it a file that you may read, or leave it out with `--exclude`; nothing in it was checked"
        if self.by_limit:
            return "leave the file out with `--exclude`; nothing in it was checked"
        if not self.needs_python:
            return "write there what Python expects, or leave the file out with `--exclude`; nothing in it was checked"
        if self.is_newer:
            return f"install gpudoctor with Python {self.needs_python} or newer, so that it can read this file"
        return "bring the file to the Python that PyTorch needs today (3.10 or newer); nothing in it was checked"


class Sources:
    """Files that were read, so that the entries of one command share them. Not for several threads."""

    def __init__(self, edited: Mapping[str, bytes] | None = None) -> None:
        self.edited: Mapping[str, bytes] = edited or {}
        """The bytes of files that count instead of what is written there."""
        self._read: dict[str, SourceFile | Unreadable] = {}
        self._shown: dict[str, SourceFile | Unreadable] = {}
        self.size = 0
        """Characters that were parsed."""

    def read(self, path: str, *, late: bool = False) -> SourceFile | Unreadable:
        """The file at a path without links; where it is `late`, whether it can be parsed is asked later."""
        found = self._read.get(path)
        if found is None:
            edited = self.edited.get(path)
            found = read_source(path, late=True) if edited is None else parse_text(edited, path, shown_path(path))
        if not late and isinstance(found, SourceFile) and not found.is_parsed:
            found = found.checked()
            self.size += len(found.text) if isinstance(found, SourceFile) else 0
        self._read[path] = self._shown[found.shown] = found
        note(CONTENT, path, found.digest)
        return found

    def known(self, path: str) -> SourceFile | Unreadable | None:
        """The file, where it was read already."""
        return self.read(path) if path in self.edited else self._read.get(path)

    def shown(self, shown: str) -> SourceFile | Unreadable:
        """The file that users know as `shown`, which need not be a path: a name may hold what cannot be printed."""
        return self._shown.get(shown) or self.read(os.path.realpath(shown))


def read_source(path: str, *, late: bool = False) -> SourceFile | Unreadable:
    """Read and parse a file. Never blocks, never raises for what a file is or holds, never executes it.

    Where it is `late`, it is parsed when its tree is asked for, before which `checked` says whether it can be.
    """
    resolved, shown = os.path.realpath(path), shown_path(path)
    try:
        data = _read(resolved)
    except (OSError, ValueError) as error:
        return Unreadable(resolved, shown, 1, 1, _why_unread(error, path), opened=False)
    if isinstance(data, str):
        return Unreadable(resolved, shown, 1, 1, data, opened=False)
    source = _decoded(data, resolved, shown)
    return source if late or isinstance(source, Unreadable) else source.checked()


def parse_text(data: bytes, path: str, shown: str) -> SourceFile | Unreadable:
    """Parse what was read already, such as standard input."""
    source = _decoded(data, path, shown)
    return source if isinstance(source, Unreadable) else source.checked()


def _decoded(data: bytes, path: str, shown: str) -> SourceFile | Unreadable:
    digest = digest_of(data)
    most = most_bytes(path)
    if len(data) > most:
        message = f"the file is larger than {most // 1024**2} MiB; so much text is data, not a program"
        return Unreadable(path, shown, 1, 1, message, by_limit=True)
    try:
        text = decode(data)
    except UndecodableError as error:
        return Unreadable(path, shown, error.line, error.column, error.message, digest=digest)
    if path.endswith(NOTEBOOK):
        return _notebook(text, path, shown, digest)
    if reason := too_much(text):
        return Unreadable(path, shown, 1, 1, reason, by_limit=True, digest=digest)
    if launch_kind(path, data):
        return SourceFile(path, shown, text, _NOT_YET, digest, launches=True)
    if text.startswith(_OF_DATABRICKS):
        # Imported late, as above.
        from gpudoctor.lint.source.notebooks.magics import without_magics

        text = without_magics(text.split("\n"))
    source = SourceFile(path, shown, text, _NOT_YET, digest)
    source.forget_tree()
    return source


def _notebook(text: str, path: str, shown: str, digest: str) -> SourceFile | Unreadable:
    # Imported late: most projects have no notebooks.
    from gpudoctor.lint.source.notebooks.ipynb import NotANotebook
    from gpudoctor.lint.source.notebooks.joined_cells import cells_of

    try:
        cells = cells_of(text)
    except NotANotebook as error:
        return Unreadable(path, shown, error.line, error.column, error.message, by_limit=error.by_limit, digest=digest)
    source = SourceFile(path, shown, cells.text, _NOT_YET, digest, cells, tuple(_flaws(cells, path, shown)))
    source.forget_tree()
    return source


def _flaws(cells: Cells, path: str, shown: str) -> Iterator[Unreadable]:
    """The cells that cannot be read; of those that take another Python only the first, for they are mostly all."""
    from gpudoctor.lint.source.notebooks.magics import without_magics

    told: set[str] = set()
    for flaw in cells.flaws:
        found = _unparsable(flaw.error, without_magics(flaw.lines), path, shown)
        if not found.needs_python or found.needs_python not in told:
            told.add(found.needs_python)
            yield replace(found, line=found.line + flaw.first - 1, first=flaw.first - 1, in_cell=True)


_NOT_YET = ast.Module([], [])
_OF_DATABRICKS = "# Databricks notebook source"
"""So begins a notebook that is kept as Python, in which shell lines and magics stand as they are."""


def _unparsable(error: BaseException, text: str, path: str, shown: str) -> Unreadable:
    if isinstance(error, SyntaxError):
        # Imported late: most projects have no file that does not parse.
        from gpudoctor.lint.source.syntax_errors import explain

        problem = explain(error, text)
        found = Unreadable(path, shown, problem.line, problem.column, problem.message, problem.needs_python)
        # What is known to be something else need not be asked about.
        return replace(found, refused=text) if found.is_newer or problem.message == error.msg else found
    if isinstance(error, (RecursionError, MemoryError, SystemError)):
        return Unreadable(path, shown, 1, 1, "the expressions are nested too deeply for Python's parser")
    return Unreadable(path, shown, 1, 1, f"Python's parser rejects it: {error}")


def shown_path(path: str) -> str:
    """The path as the user reads it: relative to the working directory with forward slashes, else absolute."""
    here = os.getcwd()
    for way in (os.path.abspath, os.path.realpath):
        candidate = way(path)
        inside = candidate.removeprefix(here.rstrip(os.sep) + os.sep)
        if inside != candidate:
            return _printable(inside.replace(os.sep, "/"))
    return _printable(os.path.abspath(path))


def _printable(text: str) -> str:
    # File names need not be valid text, for which Python stands surrogates in, and can hold what steers a terminal.
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else each.encode("unicode_escape").decode("ascii") for each in text)


def _read(path: str) -> bytes | str:
    """The bytes up to just over the limit, or why none are taken."""
    most = most_bytes(path)
    # Opening a pipe or a device could wait for ever, so look first.
    if reason := _not_regular(os.stat(path).st_mode):
        return reason
    descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(descriptor, "rb") as stream:
        # Asked again of what was opened: the path may name something else by now.
        if reason := _not_regular(os.fstat(descriptor).st_mode):
            return reason
        return stream.read(most + 1)


def _not_regular(mode: int) -> str:
    if stat.S_ISREG(mode):
        return ""
    if stat.S_ISDIR(mode):
        return "this is a folder, not a file"
    return "this is a pipe, a socket or a device, not a file"


def _why_unread(error: OSError | ValueError, path: str) -> str:
    if isinstance(error, FileNotFoundError) and os.path.islink(path):
        return "it is a link to a file that is not there"
    if isinstance(error, OSError) and error.errno == errno.ELOOP:
        return "its symbolic links lead in a circle"
    reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return f"{reason[:1].lower()}{reason[1:]}"


def _parse(text: str, shown: str) -> ast.Module:
    try:
        return _parsed(text, shown)
    except (RecursionError, MemoryError):
        # The parser counts our own open calls, too: a file that is imported late is not nested any deeper for it.
        with fresh_stack():
            return _parsed(text, shown)


def _parsed(text: str, shown: str) -> ast.Module:
    with no_warnings():
        return ast.parse(text, filename=shown)
