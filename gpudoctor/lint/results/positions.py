"""Places in notebooks, which users know by cell and line: the last thing that happens to a finding."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Edit, Finding, Fix, Location, Problem, Related
from gpudoctor.lint.source.file import NOTEBOOK, SourceFile, Unreadable
from gpudoctor.record import dataclass, replace

if TYPE_CHECKING:
    # Nobody reads what a field is, and most projects have no notebooks.
    from gpudoctor.coverage import Coverage
    from gpudoctor.lint.discovery.written_files import Origin  # noqa: TC004

SourceOf = Callable[[str], SourceFile | None]


@dataclass(frozen=True)
class Places:
    """Where places of programs are for users. `source_of` gives the files that were read, `origins` tell of files that
    a notebook writes."""

    source_of: SourceOf
    origins: Mapping[str, Origin]

    def of(self, at: Location) -> Location:
        """The place in its cell, where it is in a notebook."""
        # Asked first: in paths of such files the notebook stands for a folder.
        if at.path in self.origins:
            return self.origins[at.path].place(at)
        source = self.source_of(at.path) if at.path.endswith(NOTEBOOK) else None
        return at if source is None else source.placed(at)

    def placed(self, finding: Finding) -> Finding:
        """The finding with all its places so."""
        locations = [finding.location, *(each.location for each in finding.related)]
        locations += [each.location for each in finding.fix.edits] if finding.fix else []
        # Most findings are in scripts, where nothing changes.
        if not any(each.path.endswith(NOTEBOOK) or each.path in self.origins for each in locations):
            return finding
        return replace(
            finding,
            location=self.of(finding.location),
            related=tuple(Related(each.message, self.of(each.location)) for each in finding.related),
            fix=finding.fix and self._fix(finding.fix),
        )

    def covered(self, program: Coverage) -> Coverage:
        """What was followed of a program, with all its places so."""
        end = program.ended_by
        return replace(
            program,
            path=self.of(Location(program.path, 1)).path,
            ended_by=end and replace(end, at=end.at and self.of(end.at)),
            silent_for=tuple(replace(each, at=each.at and self.of(each.at)) for each in program.silent_for),
            idle=(),
        )

    def _fix(self, fix: Fix) -> Fix:
        return replace(fix, edits=tuple(Edit(self.of(each.location), each.text) for each in fix.edits))

    def unread(self, file: Unreadable) -> Problem:
        """What could not be read, for those who did not ask for the rule that says so."""
        at = self.of(file.location)
        return Problem(at.text, f"line {at.line}: {file.message}" if at.cell else file.message)

    def lines(self, at: Location) -> Sequence[str] | None:
        """The lines around a place, as the user sees them; None where the file could not be read."""
        source = self.source_of(at.path)
        return None if source is None else source.lines_around(at)
