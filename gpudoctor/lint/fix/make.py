"""From the repair that a rule hands on to a fix: edits of text, or none where it cannot be written well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Edit, Fix, Location, Safety
from gpudoctor.lint.fix.edits import clash
from gpudoctor.lint.fix.steps import anchor, changes_of, place_of
from gpudoctor.lint.fix.syntax import NoFix, Syntax
from gpudoctor.lint.fix.trying import Trials
from gpudoctor.lint.fix.writing import Sight, Writer
from gpudoctor.lint.repair.repair import Assign, Counter, Either, Holds, Part, Repair, Substitute
from gpudoctor.lint.source.file import SourceFile

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
                for part in _parts(step):
                    if isinstance(part, Counter):
                        yield syntax.place(syntax.block(part.loop).body[0])

    def without_names(self, repair: Repair, safety: Safety) -> Fix | None:
        """A fix where the repair can be written whatever the names in sight hold; it may look better with them."""
        if _hangs_on_names(repair):
            return None
        return self._fix(repair, Sight(), safety)

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


def asks_names(repair: Repair) -> bool:
    """Some way to write it is open only where it is known what the names in sight hold."""
    asks = any(isinstance(step, Substitute) or _names_in(step) for step in repair.steps)
    return asks or (repair.otherwise is not None and asks_names(repair.otherwise))


def _hangs_on_names(repair: Repair) -> bool:
    """A name that is chosen decides whether the step can be done at all."""
    return any(isinstance(step, Substitute) or (isinstance(step, Assign) and _names_in(step)) for step in repair.steps)


def _names_in(step: object) -> bool:
    return any(isinstance(part, (Holds, Counter)) for part in _parts(step))


def _parts(step: object) -> Iterator[Part]:
    """The parts of all code that a step writes."""
    for inner in getattr(step, "arguments", ()):
        yield from _parts(inner)
    codes = [value for name in ("to", "header", "decorator") if (value := getattr(step, name, None)) is not None]
    for code in (*codes, *getattr(step, "lines", ())):
        yield from _parts_of(code)


def _parts_of(code: Iterable[Part]) -> Iterator[Part]:
    for part in code:
        yield part
        for choice in part.choices if isinstance(part, Either) else ():
            yield from _parts_of(choice)
