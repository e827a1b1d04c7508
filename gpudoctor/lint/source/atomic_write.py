"""Files that are changed in place: bytes to bytes, so that what is not touched stays as it is, and all or nothing."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable

from gpudoctor.diagnostic import Edit
from gpudoctor.drafts import replace_file
from gpudoctor.errors import GpudoctorError
from gpudoctor.lint.source.encoding import encoding_of
from gpudoctor.lint.source.file_queries import digest_of

_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n|\Z)")


class NotWritten(GpudoctorError):
    """A file could not be changed, or must not be."""


def edited(data: bytes, edits: Iterable[Edit]) -> bytes:
    """A file's bytes after edits, which count in its text as it is read, or in the cells of a notebook: with its
    encoding, byte order mark and line ends. None of the edits may overlap; the same one counts once."""
    edits, encoding = list(edits), encoding_of(data)
    text = data.decode(encoding)
    changed = _with_cells_edited(text, edits) if any(edit.location.cell for edit in edits) else _edited(text, edits)
    return changed.encode(encoding)


def _with_cells_edited(notebook: str, edits: Iterable[Edit]) -> str:
    # Imported late: most projects have no notebooks.
    from gpudoctor.lint.source.notebooks.ipynb import code_cells
    from gpudoctor.lint.source.notebooks.write import with_sources

    of_cell: dict[int, list[Edit]] = {}
    for edit in edits:
        if edit.location.cell is not None:
            of_cell.setdefault(edit.location.cell.number, []).append(edit)
    sources: dict[int, str] = {}
    for cell in code_cells(notebook):
        if cell.number in of_cell:
            newline = _newline(_LINE.findall(cell.source))
            # The last line of a cell has no line end, and what is put below it stands on a line of its own.
            changed = _edited(cell.source + newline, of_cell[cell.number])
            sources[cell.number] = changed.removesuffix(newline)
    return with_sources(notebook, sources)


def _edited(text: str, edits: Iterable[Edit]) -> str:
    lines = _LINE.findall(text)
    newline = _newline(lines)
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line))
    parts, done = [], 0
    for start, end, new in sorted({_span(edit, starts, lines) for edit in edits}):
        parts += [text[done:start], new.replace("\n", newline)]
        done = end
    return "".join([*parts, text[done:]])


def _span(edit: Edit, starts: list[int], lines: list[str]) -> tuple[int, int, str]:
    at = edit.location
    return _offset(at.line, at.column, starts, lines), _offset(at.end_line, at.end_column, starts, lines), edit.text


def _offset(line: int, column: int, starts: list[int], lines: list[str]) -> int:
    # One past the last character of a line is before its line end.
    return starts[line - 1] + min(column - 1, len(lines[line - 1].rstrip("\r\n")))


def _newline(lines: list[str]) -> str:
    """The line end that most lines have."""
    ends = [line[len(line.rstrip("\r\n")) :] for line in lines]
    return max(("\n", "\r\n", "\r"), key=ends.count)


def write_bytes(path: str, data: bytes, digest: str) -> None:
    """Replace what a file holds in one step; not where it no longer holds what `digest` stands for.

    The file at the end of links is the one that is written; its owner and mode stay.
    """
    target = os.path.realpath(path)
    try:
        before = os.stat(target)
        with open(target, "rb") as file:
            if digest_of(file.read()) != digest:
                raise NotWritten(f"{path}: it was changed meanwhile, so nothing was written; run it again")
        if not stat.S_ISREG(before.st_mode) or not os.access(target, os.W_OK):
            raise NotWritten(f"{path}: it may not be written")
        replace_file(target, data, sure=True)
    except OSError as error:
        raise NotWritten(f"{path}: it cannot be written: {error.strerror}") from error
