"""The cells of a notebook as one program."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.source.notebooks.cells import Cells, CodeCell, Flaw, Gap, WrittenFile, lines_of
from gpudoctor.lint.source.notebooks.ipynb import NotANotebook, code_cells
from gpudoctor.lint.source.notebooks.magics import IN_BLOCK, Plain, plain
from gpudoctor.lint.source.size_limits import UNPARSABLE, too_much


def cells_of(notebook: str) -> Cells:
    """The cells of a notebook; raises `NotANotebook` where the text is none."""
    cells = tuple(code_cells(notebook))
    # Before anything is parsed.
    if reason := too_much("\n".join(cell.source for cell in cells)):
        raise NotANotebook(reason.replace("the file has", "its cells have"), by_limit=True)
    parts: list[str] = []
    first: list[int] = []
    replaced: set[int] = set()
    flaws: list[Flaw] = []
    gaps: dict[str, int] = {}
    written: list[WrittenFile] = []
    line = 1
    for cell in cells:
        lines = lines_of(cell.source)
        try:
            found = plain("\n".join(lines))
        # The others still run, and so does the notebook up to this cell.
        except UNPARSABLE as error:
            found = Plain("\n" * (len(lines) - 1))
            flaws.append(Flaw(line + 1, tuple(lines), error))
            gaps.setdefault("a cell cannot be read", line + 1)
        # As many lines as there are in the cell, or no place would lead back to its own.
        parts += [IN_BLOCK if found.indented else "", found.text]
        first.append(line + 1)
        replaced.update(number + line for number in found.replaced)
        if found.gap:
            gaps.setdefault(found.gap, line + 1)
        written += [_written(found, cell, lines)] if found.writes else []
        line += 1 + len(lines)
    text = "".join(f"{part}\n" for part in parts)
    # Each reason once, however many cells give it.
    told = tuple(Gap(why, at) for why, at in gaps.items())
    return Cells(cells, text, tuple(first), frozenset(replaced), tuple(flaws), told, tuple(written))


def _written(found: Plain, cell: CodeCell, lines: list[str]) -> WrittenFile:
    text = "".join(f"{line}\n" for line in lines[found.above :])
    return WrittenFile(found.writes, text, Cells((cell,), text, (1 - found.above,), frozenset(), (), ()))


def changed_cells(before: str, after: str) -> Iterator[tuple[int, str, str]]:
    """Of two states of a notebook the cells that differ: their number and their sources."""
    for old, new in zip(code_cells(before), code_cells(after), strict=True):
        if old.source != new.source:
            yield old.number, old.source, new.source
