"""Sources of cells that are changed in the text of their notebook, of which all else stays as it is.

Jupyter writes a source as a list of lines, others as one text; with more, less or no white space; with letters beyond
ASCII as they are, or as escapes. What is written anew is written as the rest is, and lines that stay are not.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping

from gpudoctor.lint.source.notebooks.cells import CodeCell
from gpudoctor.lint.source.notebooks.ipynb import Cursor, code_cells

_ESCAPED_LETTER = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[01])[0-9a-fA-F]{4}")
_PIECE = re.compile(r"\\u[0-9a-fA-F]{4}|\\.|[^\\]+")
_SOURCE_LINE = re.compile(r"[^\n]*\n|[^\n]+")

Write = Callable[[str], str]
"""Writes a line as it stands between quotes."""


def with_sources(text: str, sources: Mapping[int, str]) -> str:
    """The text of a notebook in which cells, by their number, have other sources."""
    # A notebook in plain English says nothing about escapes: then letters are written as they are, as Jupyter does.
    plain = text.isascii() and bool(_ESCAPED_LETTER.search(text))
    parts, done = [], 0
    for cell in code_cells(text):
        if cell.number in sources:
            parts += [text[done : cell.start], _written(text, cell, sources[cell.number], plain)]
            done = cell.end
    return "".join([*parts, text[done:]])


def _written(text: str, cell: CodeCell, source: str, plain: bool) -> str:
    known: dict[str, str] = {}

    def write(line: str) -> str:
        return known.get(line) or json.dumps(line, ensure_ascii=plain)[1:-1]

    # Equal lines of a cell are written alike, so that one spelling of each is enough to keep.
    value = text[cell.start : cell.end]
    if value.startswith("["):
        # As much white space as the notebook has elsewhere.
        gap = "" if text[cell.start - 1] == ":" else " "
        return _list(value, _SOURCE_LINE.findall(source), write, known, gap)
    for line in _lines_of(value[1:-1]):
        known[json.loads(f'"{line}"')] = line
    return f'"{"".join(map(write, _SOURCE_LINE.findall(source)))}"'


def _list(value: str, lines: list[str], write: Write, known: dict[str, str], gap: str) -> str:
    """A list of lines, with the white space that the list has."""
    cursor = Cursor(value)
    spans: list[tuple[int, int]] = []
    for start in cursor.items():
        known[cursor.value()] = value[start + 1 : cursor.at - 1]
        spans.append((start, cursor.at))
    # Without an element there is no layout to go by.
    if not lines or not spans:
        return "[]" if not lines else f"[{f',{gap}'.join(json.dumps(line) for line in lines)}]"
    before, after = value[1 : spans[0][0]], value[spans[-1][1] : -1]
    between = value[spans[0][1] : spans[1][0]] if len(spans) > 1 else f",{before or gap}"
    return "".join(["[", before, between.join(f'"{write(line)}"' for line in lines), after, "]"])


def _lines_of(raw: str) -> list[str]:
    """What stands between quotes, cut behind each escape that ends a line."""
    lines, line = [], ""
    for piece in _PIECE.findall(raw):
        line += piece
        if piece == r"\n":
            lines.append(line)
            line = ""
    return [*lines, line] if line else lines
