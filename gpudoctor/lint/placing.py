"""Places in notebooks, which users know by cell and line: the last thing that happens to a finding."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpudoctor.diagnostic import Edit, Finding, Fix, Location, Problem, Related
from gpudoctor.lint.source.file import NOTEBOOK, SourceFile, Unreadable
from gpudoctor.record import replace

SourceOf = Callable[[str], SourceFile | None]


def placed(finding: Finding, source_of: SourceOf) -> Finding:
    """The finding with its places in cells, where they are in a notebook."""
    locations = [finding.location, *(each.location for each in finding.related)]
    locations += [each.location for each in finding.fix.edits] if finding.fix else []
    if not any(each.path.endswith(NOTEBOOK) for each in locations):
        return finding

    def place(at: Location) -> Location:
        source = source_of(at.path)
        return at if source is None else source.placed(at)

    return replace(
        finding,
        location=place(finding.location),
        related=tuple(Related(each.message, place(each.location)) for each in finding.related),
        fix=finding.fix and _fix(finding.fix, place),
    )


def _fix(fix: Fix, place: Callable[[Location], Location]) -> Fix:
    return replace(fix, edits=tuple(Edit(place(each.location), each.text) for each in fix.edits))


def unread(file: Unreadable, source_of: SourceOf) -> Problem:
    """What could not be read, for those who did not ask for the rule that says so."""
    source = source_of(file.shown)
    at = file.location if source is None else source.placed(file.location)
    return Problem(at.text, f"line {at.line}: {file.message}" if at.cell else file.message)


def lines_around(at: Location, source_of: SourceOf) -> Sequence[str] | None:
    """The lines around a place, as the user sees them; None where the file could not be read."""
    source = source_of(at.path)
    return None if source is None else source.lines_around(at)
