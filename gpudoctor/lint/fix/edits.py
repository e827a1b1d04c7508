"""Edits of one text: between two states of it, whether they get along, and what comes out."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence

from gpudoctor.diagnostic import Edit

TextSpan = tuple[int, int, str]
"""From offset, to offset, the text instead."""
Opcode = tuple[str, int, int, int, int]
"""As `difflib` has it: what happens to which stretch, and what it becomes."""
_HARDLY = 2
_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_WORD = re.compile(r"\w+|\W")


def differences(before: Sequence[str], after: Sequence[str]) -> list[TextSpan]:
    """What differs between two states of a text, given in pieces: whole lines where some are new, else words."""
    text = "".join(before)
    return [_moved_down(span, text) for span in _differing(before, after, (_LINE, _WORD))]


def _differing(before: Sequence[str], after: Sequence[str], finer: Sequence[re.Pattern[str]]) -> Iterator[TextSpan]:
    # Imported late: most runs write no fixes.
    from difflib import SequenceMatcher

    starts = [0, *itertools.accumulate(map(len, before))]
    opcodes: Iterable[Opcode] = SequenceMatcher(None, before, after).get_opcodes()
    if _LINE in finer:
        opcodes = _together(tuple(opcodes))
    for kind, first, last, new_first, new_last in opcodes:
        old, new = "".join(before[first:last]), "".join(after[new_first:new_last])
        if kind == "replace" and finer:
            for start, end, text in _differing(finer[0].findall(old), finer[0].findall(new), finer[1:]):
                yield starts[first] + start, starts[first] + end, text
        elif kind != "equal":
            yield starts[first], starts[last], new


def _together(opcodes: Sequence[Opcode]) -> Iterator[Opcode]:
    """Changes of statements with hardly any between them are one, to be looked at by its lines: a statement that has
    moved past another is not the other with all that stood around it."""
    done: Opcode | None = None
    for index, (kind, first, last, new_first, new_last) in enumerate(opcodes):
        between = kind == "equal" and 0 < index < len(opcodes) - 1 and last - first <= _HARDLY
        if kind == "equal" and not between:
            if done is not None:
                yield done
            done = None
        elif done is not None:
            done = "replace", done[1], last, done[3], new_last
        elif not between:
            done = kind, first, last, new_first, new_last
    if done is not None:
        yield done


def _moved_down(span: TextSpan, text: str) -> TextSpan:
    """Of lines or words put in before equal ones, the last place where they may be: what is above is not theirs."""
    start, end, new = span
    unit = _LINE if new.endswith("\n") else _WORD
    while start == end and (first := unit.match(new)) and text.startswith(first[0], start):
        start = end = start + len(first[0])
        new = new[len(first[0]) :] + first[0]
    return start, end, new


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
