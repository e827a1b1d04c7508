"""A piece of source with numbers in front of its lines and a mark under what is meant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass
from gpudoctor.report.highlight import Looks, highlighted, looks_of
from gpudoctor.report.report import Lines
from gpudoctor.report.text import Style, cells, folded, unindented
from gpudoctor.visible import visible

_BEFORE, _AFTER, _MOST = 1, 1, 6
_TAB = "    "
_DOTS = "..."


@dataclass(frozen=True)
class Row:
    """A line as it is shown: its number, its text, and from where to where it is marked, where it is."""

    number: int
    text: str
    marked: tuple[int, int] | None


def excerpt(at: Location, lines: Lines, *, alone: bool = False) -> tuple[Row, ...]:
    """The line of `at`, marked, and a few lines around it, without their common margin; empty where it is not there."""
    source = lines(at)
    if not 1 <= at.line <= len(source):
        return ()
    first, last = (at.line, at.line) if alone else _around(source, at)
    # Tabs as blanks, and no character that could steer the terminal.
    shown, margin = unindented([visible(line.rstrip().replace("\t", _TAB)) for line in source[first - 1 : last]])
    return tuple(
        Row(number, line, _marked(source[number - 1], at, margin) if number == at.line else None)
        for number, line in enumerate(shown, first)
    )


def frame(at: Location, lines: Lines, style: Style, mark: str = "") -> Iterator[str]:
    """The line of `at`; where a look for the `mark` is given, with carets under it and a few lines around it."""
    rows = excerpt(at, lines, alone=not mark)
    gutter = len(str(rows[-1].number)) + 4 if rows else 0
    room = style.width - gutter - 3
    # An argument far to the right of the line that it belongs to leaves no room for itself.
    if any(row.marked is not None and len(row.text) - len(row.text.lstrip()) > room // 2 for row in rows):
        rows = excerpt(at, lines, alone=True)
    looks = looks_of([row.text for row in rows]) if style.colour else [""] * len(rows)
    for row, look in zip(rows, looks, strict=True):
        line = row.text
        lead = style.paint(f"{row.number:>{gutter}} {style.bar}", "dim")
        if row.marked is None:
            yield f"{lead} {_coloured(_cropped(line, room), line, look, style)}".rstrip()
            continue
        start, stop = row.marked if mark else (0, len(line))
        # Behind the mark comes what nobody asked about, mostly a comment: it is not worth a line of its own.
        for offset, indent, piece in folded(_cropped(line, room) if stop < room - 3 else line[:stop], room):
            yield f"{lead} {indent}{highlighted(piece.rstrip(), look[offset:], style)}".rstrip()
            lead = style.paint(f"{'':>{gutter}} {style.bar}", "dim")
            if mark and (carets := _carets(piece.rstrip(), start - offset, stop - offset)):
                yield f"{lead} {indent}{style.paint(carets, mark)}"


def _coloured(shown: str, line: str, look: Looks, style: Style) -> str:
    # The dots at the end of what was cropped are no code.
    return highlighted(shown, look if shown == line else look[: len(shown) - len(_DOTS)], style)


def _around(source: Sequence[str], at: Location) -> tuple[int, int]:
    """The first and the last line to show, neither of them empty: all of a call over several lines, if it is short."""
    first, last = max(1, at.line - _BEFORE), min(len(source), max(at.line + _AFTER, min(at.end_line, at.line + _MOST)))
    while first < at.line and not source[first - 1].strip():
        first += 1
    while last > at.line and not source[last - 1].strip():
        last -= 1
    return first, last


def _cropped(line: str, room: int) -> str:
    return line if cells(line) <= room else f"{line[: room - len(_DOTS)]}{_DOTS}"


def _marked(line: str, at: Location, margin: int) -> tuple[int, int]:
    """Where the mark begins and ends, in characters of the line as it is printed."""
    if at.end_line in (0, at.line) and at.end_column > at.column:
        end = at.end_column - 1
    else:  # to the end of the line, but not over a comment
        end = len(line.split("  #")[0].rstrip())
    # Who knows no column means the statement, not the blanks before it.
    before, through = line[: max(at.column - 1, len(line) - len(line.lstrip()))], line[: max(end, at.column)]
    return len(visible(before.replace("\t", _TAB))) - margin, len(visible(through.replace("\t", _TAB))) - margin


def _carets(piece: str, start: int, stop: int) -> str:
    """Carets under the characters from `start` to `stop`, as far as they are in this piece of a line."""
    if start > len(piece) or stop <= 0:
        return ""
    begin, end = max(0, start), min(len(piece), stop)
    return " " * cells(piece[:begin]) + "^" * max(1, cells(piece[begin:end]))
