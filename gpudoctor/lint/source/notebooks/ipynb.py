"""A Jupyter notebook as the text that it is: its code cells, and where in the text the source of each stands.

`json.loads` would give the sources, and not the places that are needed to change one of them and nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

from gpudoctor.lint.source.notebooks.cells import CodeCell
from gpudoctor.lint.source.size_limits import MAX_FILE_BYTES, MAX_NOTEBOOK_PARTS

_SPACE = re.compile(r"[ \t\r\n]*")
# Of numbers none is asked for, and `int` refuses the longest.
_DECODER = json.JSONDecoder(parse_int=float)
# What notebooks call their language. Where they say nothing it is Python, but for these kernels.
_PYTHON = re.compile(r"(?i)i?x?python\d?$|pyspark|sage")
_OTHER_KERNEL = re.compile(r"(?i)(?:ir$|julia|bash|scala|spylon|almond|xcpp|deno|javascript|octave|\.net)")


class NotANotebook(Exception):
    """The text is no notebook, or `by_limit` too large a one. Says where, counted from 1, and why."""

    def __init__(self, message: str, line: int = 1, column: int = 1, *, by_limit: bool = False) -> None:
        super().__init__(message)
        self.by_limit = by_limit
        self.message = message
        self.line = line
        self.column = column


def code_cells(text: str) -> list[CodeCell]:
    """The cells of a notebook that are Python, or some magic's; none where it is of another language."""
    # What an editor has just made is an empty file.
    if not text or text.isspace():
        return []
    if sum(map(text.count, "[{:,")) > MAX_NOTEBOOK_PARTS:
        message = f"the notebook's JSON has more than {MAX_NOTEBOOK_PARTS:,} values; so much of it is data"
        raise NotANotebook(message, by_limit=True)
    try:
        return _Notebook(text).read()
    except json.JSONDecodeError as error:
        raise NotANotebook(f"the notebook's JSON is broken: {error.msg}", error.lineno, error.colno) from None
    except RecursionError:
        raise NotANotebook("the notebook's JSON is nested too deeply") from None


class Cursor:
    """Reads JSON from left to right: values as they are, and the parts of lists and objects one by one.

    Whoever is given a part reads it, so that the cursor stands behind it.
    """

    def __init__(self, text: str, at: int = 0) -> None:
        self.text = text
        self.at = at

    def value(self) -> Any:
        self.peek()
        found, self.at = _DECODER.raw_decode(self.text, self.at)
        return found

    def peek(self) -> str:
        """The next sign that is no space, where the cursor stands then."""
        space = _SPACE.match(self.text, self.at)
        self.at = space.end() if space else self.at
        return self.text[self.at : self.at + 1]

    def take(self, sign: str) -> None:
        if self.peek() != sign:
            raise json.JSONDecodeError(f"Expecting '{sign}'", self.text, self.at)
        self.at += 1

    def members(self) -> Iterator[str]:
        """The names in an object; the value of each is to be read."""
        for _ in self._parts("{", "}"):
            if self.peek() != '"':
                raise json.JSONDecodeError("Expecting property name enclosed in double quotes", self.text, self.at)
            name = self.value()
            self.take(":")
            self.peek()
            yield name

    def items(self) -> Iterator[int]:
        """Where the items of a list begin; each is to be read."""
        for _ in self._parts("[", "]"):
            self.peek()
            yield self.at

    def _parts(self, first: str, last: str) -> Iterator[None]:
        self.take(first)
        if self.peek() == last:
            self.at += 1
            return
        while True:
            yield
            if self.peek() != ",":
                break
            self.at += 1
        self.take(last)


class _Notebook:
    """Reads one notebook, of version 4 or 3."""

    def __init__(self, text: str) -> None:
        self._cursor = Cursor(text)
        self._cells: list[CodeCell] = []
        self._number = 0
        self._room = MAX_FILE_BYTES
        self._rows = _Rows(text)

    def read(self) -> list[CodeCell]:
        cursor, found, metadata = self._cursor, False, None
        if cursor.peek() != "{":
            cursor.value()
            raise NotANotebook("this is not a notebook: its JSON is not an object")
        for name in cursor.members():
            # Jupyter sorts the names, so that the language is told after the cells.
            if name in ("cells", "worksheets") and cursor.peek() == "[":
                found = True
                self._list(name)
            elif name == "metadata":
                metadata = cursor.value()
            else:
                cursor.value()
        if cursor.peek():
            raise json.JSONDecodeError("Extra data", cursor.text, cursor.at)
        if not found:
            raise NotANotebook("this is not a notebook: it has no list of `cells`")
        return self._cells if _is_python(metadata) else []

    def _list(self, name: str) -> None:
        for _ in self._cursor.items():
            if self._cursor.peek() != "{":
                self._cursor.value()
            elif name == "cells":
                self._cell()
            else:
                self._worksheet()

    def _worksheet(self) -> None:
        """Version 3 had sheets of cells, of which there was ever only one."""
        for name in self._cursor.members():
            if name == "cells" and self._cursor.peek() == "[":
                self._list(name)
            else:
                self._cursor.value()

    def _cell(self) -> None:
        cursor, told, source = self._cursor, dict[str, Any](), None
        # Cells of text count as well: editors number what they show.
        self._number += 1
        for name in cursor.members():
            # Outputs are passed over by the decoder in C: plots are most of a large notebook.
            start = cursor.at
            value = cursor.value()
            if name in ("source", "input"):  # `input` in version 3
                source = start, cursor.at, value
            elif name in ("cell_type", "metadata", "language"):
                told[name] = value
        if source is None or told.get("cell_type") != "code" or not _is_python_cell(told):
            return
        start, end, value = source
        parts = value if isinstance(value, list) else [value]
        self._room -= sum(len(part) for part in parts if isinstance(part, str))
        # Before it is copied: the text of a large notebook is there twice by now.
        if self._room < 0:
            most = MAX_FILE_BYTES // 1024**2
            raise NotANotebook(f"its cells are larger than {most} MiB; so much text is data", by_limit=True)
        if isinstance(value, str):
            self._add("", start, end, [(start, value)])
        elif isinstance(value, list) and all(isinstance(each, str) for each in value):
            places = Cursor(cursor.text, start)
            self._add("", start, end, [(at, places.value()) for at in places.items()])

    def _add(self, source: str, start: int, end: int, parts: list[tuple[int, str]]) -> None:
        rows: list[int] = []
        begins = True
        for at, part in parts:
            row = self._rows.of(at)
            # A part may go on with a line of the one before.
            rows += [row] * (part.count("\n") + begins - part.endswith("\n"))
            begins = part.endswith("\n")
            source += part
        if begins:
            rows.append(rows[-1] if rows else self._rows.of(start))
        self._cells.append(CodeCell(self._number, source, start, end, tuple(rows)))


class _Rows:
    """The lines of a text, asked for from the top to the bottom."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._row, self._at = 1, 0

    def of(self, offset: int) -> int:
        self._row += self._text.count("\n", self._at, offset)
        self._at = offset
        return self._row


def _is_python(metadata: object) -> bool:
    kernel, language = _part(metadata, "kernelspec"), _part(metadata, "language_info")
    # Version 3 kept no language; `name` of the language's own entry comes first, because a kernel can be any.
    told = _text(language, "name") or _text(kernel, "language")
    if told:
        return bool(_PYTHON.match(told))
    return not _OTHER_KERNEL.match(_text(kernel, "name"))


def _is_python_cell(told: dict[str, Any]) -> bool:
    """Editors let a cell have a language of its own."""
    metadata = told.get("metadata")
    language = _text(_part(metadata, "vscode"), "languageId") or _text(told, "language")
    kernel = _text(_part(metadata, "polyglot_notebook"), "kernelName")
    return all(not name or _PYTHON.match(name) for name in (language, kernel))


def _part(owner: object, name: str) -> object:
    return owner.get(name) if isinstance(owner, dict) else None


def _text(owner: object, name: str) -> str:
    found = _part(owner, name)
    return found if isinstance(found, str) else ""
