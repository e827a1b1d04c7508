"""Edits of one text: whether they get along, and what comes out."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Edit


def apply(text: str, edits: Iterable[Edit]) -> str:
    """The text after all edits; places count in the text before. None of them may clash, the same one counts once."""
    starts = [0]
    for line in text.split("\n"):
        starts.append(starts[-1] + len(line) + 1)
    parts, done = [], 0
    for start, end, new in sorted({_span(edit, starts) for edit in edits}):
        parts += [text[done:start], new]
        done = end
    return "".join([*parts, text[done:]])


def clash(edits: Sequence[Edit]) -> bool:
    """Two edits change the same text, or insert different things at the same place."""
    spans = sorted({(*_points(edit), edit.text) for edit in edits})
    pairs = itertools.pairwise(spans)
    return any(second[0] < first[1] or second[0] == first[0] for first, second in pairs)


def _points(edit: Edit) -> tuple[tuple[int, int, int], tuple[int, int, int]]:
    at = edit.location
    cell = at.cell.number if at.cell else 0
    return (cell, at.line, at.column), (cell, at.end_line, at.end_column)


def _span(edit: Edit, starts: Sequence[int]) -> tuple[int, int, str]:
    (_, line, column), (_, end_line, end_column) = _points(edit)
    return starts[line - 1] + column - 1, starts[end_line - 1] + end_column - 1, edit.text
