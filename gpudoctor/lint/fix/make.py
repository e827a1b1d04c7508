"""From the repair that a rule hands on to a fix: edits of text, or none where it cannot be written well."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Edit, Fix, Location, Safety
from gpudoctor.lint.fix.edits import clash
from gpudoctor.lint.fix.steps import anchor, changes_of, place_of
from gpudoctor.lint.fix.syntax import NoFix, Syntax
from gpudoctor.lint.fix.trying import Trials
from gpudoctor.lint.fix.writing import Sight, Writer
from gpudoctor.lint.source.file import SourceFile
from gpudoctor.lint.values.repair import Counter, Either, Part, Repair

if TYPE_CHECKING:
    from gpudoctor.lint.fix.imports import Change

FileOf = Callable[[str], SourceFile | None]


class Fixes:
    """Makes fixes for the programs that share some files."""

    def __init__(self, file_of: FileOf) -> None:
        self._file_of = file_of
        self._syntax: dict[str, Syntax] = {}
        self._trials = Trials()

    def places(self, repair: Repair) -> Iterable[Location]:
        """The statements around which the names must be known before the repair can be written."""
        yield from self.places(repair.otherwise) if repair.otherwise else ()
        for step in repair.steps:
            # What cannot be found will not be written.
            with suppress(NoFix):
                syntax = self.syntax(place_of(step).path)
                yield syntax.place(anchor(step, syntax))
                for loop in _loops(step):
                    yield syntax.place(syntax.block(loop).body[0])

    def fix(self, repair: Repair, sight: Sight, safety: Safety) -> Fix | None:
        """The edits of a repair, or of the one to try instead; None where it cannot be written well here."""
        found = self._fix(repair, sight, safety)
        return self.fix(repair.otherwise, sight, safety) if found is None and repair.otherwise else found

    def _fix(self, repair: Repair, sight: Sight, safety: Safety) -> Fix | None:
        edits: list[Edit] = []
        try:
            for step in repair.steps:
                syntax = self.syntax(place_of(step).path)
                writer = Writer(syntax, sight, self.syntax)
                changes = changes_of(step, writer)
                edits += [_edit(syntax, change) for change in (*writer.changes, *changes)]
            edits = list(dict.fromkeys(edits))
            self._try_out(edits)
        except NoFix:
            return None
        return Fix(repair.safety or safety, repair.title, tuple(edits))

    def syntax(self, path: str) -> Syntax:
        """A file of the program by its shown path."""
        if path not in self._syntax:
            source = self._file_of(path)
            if source is None:
                raise NoFix(f"{path} was not read")
            self._syntax[path] = Syntax(source)
        return self._syntax[path]

    def _try_out(self, edits: list[Edit]) -> None:
        """What does not parse is no fix."""
        for path in {edit.location.path for edit in edits}:
            own = [edit for edit in edits if edit.location.path == path]
            if clash(own):
                raise NoFix("its steps are in each other's way")
            cells = self.syntax(path).source.cells
            if cells is not None and not all(cells.keeps(edit.location) for edit in own):
                raise NoFix("a line of a notebook's cell that is no Python, or more than one cell")
            if not self._trials.parses(self.syntax(path), own):
                raise NoFix("it would not parse")


def _edit(syntax: Syntax, change: Change) -> Edit:
    start, end, text = change
    return Edit(syntax.location(start, end), text)


def _loops(step: object) -> Iterable[Location]:
    for inner in getattr(step, "arguments", ()):
        yield from _loops(inner)
    codes = [value for name in ("to", "header") if (value := getattr(step, name, None)) is not None]
    for code in (*codes, *getattr(step, "lines", ())):
        yield from _loops_in(code)


def _loops_in(code: Iterable[Part]) -> Iterable[Location]:
    for part in code:
        if isinstance(part, Counter):
            yield part.loop
        elif isinstance(part, Either):
            for choice in part.choices:
                yield from _loops_in(choice)
