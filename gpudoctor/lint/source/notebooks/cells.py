"""The way from the lines of a program back to the cells of the notebook that it was joined of."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from gpudoctor.diagnostic import Cell, Location
from gpudoctor.record import dataclass, replace


@dataclass(frozen=True)
class CodeCell:
    """A cell of code: its number among all cells, from 1, and its source.

    What stands for the source in the notebook's text goes from `start` to `end`, and `rows` are the lines of the text
    that hold its lines.
    """

    number: int
    source: str
    start: int
    end: int
    rows: tuple[int, ...]


@dataclass(frozen=True)
class Flaw:
    """A cell that cannot be read: its lines in the program, and why."""

    first: int
    lines: tuple[str, ...]
    error: BaseException


@dataclass(frozen=True)
class Gap:
    """Why the program is not all that happens in the notebook, and the first line of the program of which that is."""

    why: str
    line: int


@dataclass(frozen=True)
class WrittenFile:
    """A program that a cell writes to a file: the file's name, its text, and the cell that it stands in."""

    name: str
    text: str
    cells: Cells


@dataclass(frozen=True, eq=False)
class Cells:
    """A notebook's cells of code, joined to a program.

    Above each stands a line that is in no cell: what is put at the end of a cell's last line and what is put before
    the first of the next are different places. `first` are the lines of the program with which the cells begin,
    `replaced` those that are not as the user has written them. `gaps` are reasons why the program is not all that
    happens, and `written` are programs of their own.
    """

    cells: tuple[CodeCell, ...]
    text: str
    first: tuple[int, ...]
    replaced: frozenset[int]
    flaws: tuple[Flaw, ...]
    gaps: tuple[Gap, ...]
    written: tuple[WrittenFile, ...] = ()

    def place(self, at: Location) -> Location:
        """A place of the program, in its cell."""
        index = self._index(at.line)
        if index is None:
            return at
        offset, rows, number = self.offset(at.line), self.cells[index].rows, self.cells[index].number
        # The line above the first cell belongs to nobody; what is said of it is told at the cell's beginning.
        line, end_line = max(at.line - offset, 1), max(at.end_line - offset, 1) if at.end_line else 0
        # The line below a cell's last one is where something is put at its end: no line of the file holds that yet.
        row, end_row = (rows[min(max(each, 1), len(rows)) - 1] for each in (line, end_line or line))
        found = replace(at, line=line, end_line=end_line, cell=Cell(number, row, end_row))
        # What stands in the place of a magic may be longer than that is.
        return replace(found, end_column=self._end(found)) if at.end_line in self.replaced else found

    def _end(self, at: Location) -> int:
        return max(min(at.end_column, len(self.lines(at)[at.end_line - 1]) + 1), at.column)

    def offset(self, line: int) -> int:
        """How many lines of the program stand before the cell of a line."""
        index = self._index(line)
        return 0 if index is None else self.first[index] - 1

    def line_of(self, at: Location) -> int:
        """The line of the program at which a place in a cell begins."""
        index = self._numbered(at)
        return at.line if index is None else at.line + self.first[index] - 1

    def lines(self, at: Location) -> Sequence[str]:
        """The lines of a place's cell, as the user has written them."""
        index = self._numbered(at)
        return () if index is None else lines_of(self.cells[index].source)

    def keeps(self, at: Location) -> bool:
        """All that a place covers is in one cell and as the user has written it, so that it can be changed."""
        # Text that goes over a border would take away cells, and with them their outputs.
        if self._index(at.line) != self._index(at.end_line):
            return False
        # What is only put in somewhere takes nothing away.
        empty = (at.line, at.column) == (at.end_line, at.end_column)
        return empty or self.replaced.isdisjoint(range(at.line, at.end_line + (at.end_column > 1)))

    def _index(self, line: int) -> int | None:
        """The cell of a line; that of the line above a cell is the one before, at whose end it is."""
        return max(bisect_right(self.first, line) - 1, 0) if self.first else None

    def _numbered(self, at: Location) -> int | None:
        found = (index for index, cell in enumerate(self.cells) if at.cell and cell.number == at.cell.number)
        return next(found, None)


def lines_of(source: str) -> list[str]:
    """The lines of a cell as the parser counts them."""
    # Not by `splitlines`: a form feed, or the separators of Unicode, end no line of Python.
    return source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
