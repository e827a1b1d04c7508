"""Fixes are tried out before they are offered: what does not parse afterwards is none.

Of a file, only those statements at its top level are parsed in which something is changed. A program of a thousand
lines can have a mistake in each; with the whole file parsed for each of them it took minutes.
"""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Edit
    from gpudoctor.lint.fix.syntax import Syntax

MAX_TRIED = 2_000_000
"""Characters that are parsed for the fixes of one entry: about a second."""


class EnoughTried(Exception):
    """So much was parsed for fixes already that no more of them are written."""


class Trials:
    """What was tried for one entry. Its worlds mostly have the same fixes."""

    def __init__(self) -> None:
        self._parse: dict[frozenset[Edit], bool] = {}
        self._parts: dict[str, list[int]] = {}
        self._read = 0

    def parses(self, syntax: Syntax, edits: Iterable[Edit]) -> bool:
        """The file still parses after these edits of it, none of which clash."""
        key = frozenset(edits)
        if key not in self._parse:
            self._parse[key] = all(map(self._parses, self._changed(syntax, key)))
        return self._parse[key]

    def _parses(self, text: str) -> bool:
        self._read += len(text)
        if self._read > MAX_TRIED:
            raise EnoughTried
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            return False
        return True

    def _changed(self, syntax: Syntax, edits: frozenset[Edit]) -> Iterator[str]:
        """The text of the statements that are changed, as it would be then; neighbours together."""
        name = syntax.source.shown
        if name not in self._parts:
            self._parts[name] = list(_parts(syntax))
        parts = self._parts[name]
        spans = sorted({(*_span(syntax, edit), edit.text) for edit in edits})
        while spans:
            # What is inserted where a line begins may belong to the statement before it.
            first = max(bisect_right(parts, spans[0][0] - 1) - 1, 0)
            last = min(bisect_right(parts, spans[0][1]), len(parts) - 1)
            end, inside = parts[last], 1
            while inside < len(spans) and spans[inside][0] <= end:
                last = max(last, min(bisect_right(parts, spans[inside][1]), len(parts) - 1))
                end, inside = parts[last], inside + 1
            yield _applied(syntax.text, parts[first], end, spans[:inside])
            spans = spans[inside:]


def _parts(syntax: Syntax) -> Iterator[int]:
    """Where each part of a file begins that can be parsed alone, a statement or several that share a line; at last,
    what is behind the end of the file."""
    yield 0
    done = 0
    for statement in syntax.tree.body:
        at = syntax.place(statement)
        lines = [at.line, *(syntax.place(each).line for each in getattr(statement, "decorator_list", ()))]
        if min(lines) > done and (start := syntax.offset(min(lines), 1)):
            yield start
        done = max(done, at.end_line)
    yield len(syntax.text) + 1


def _span(syntax: Syntax, edit: Edit) -> tuple[int, int]:
    at = edit.location
    return syntax.offset(at.line, at.column), syntax.offset(at.end_line, at.end_column)


def _applied(text: str, start: int, end: int, spans: Iterable[tuple[int, int, str]]) -> str:
    pieces, done = [], start
    for first, last, new in spans:
        pieces += [text[done:first], new]
        done = last
    return "".join([*pieces, text[done:end]])
