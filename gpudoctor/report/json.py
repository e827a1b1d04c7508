"""The format for machines: records whose members are a contract, to which members may be added. Findings come by path,
line, code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from gpudoctor.coverage import Cause, Coverage, Followed
from gpudoctor.diagnostic import Confidence, Edit, Finding, Fix, Location, Related, Safety, SeenIn, Severity, by_place
from gpudoctor.page_address import read_more
from gpudoctor.plain import plain
from gpudoctor.record import dataclass
from gpudoctor.report.report import Report
from gpudoctor.report.statistics import Count, counts
from gpudoctor.report.text import Style
from gpudoctor.trials import TriedProgram

VERSION = 1


@dataclass(frozen=True)
class RelatedEntry:
    """A place that led to a finding, and what happened there. `cell` is the cell of a notebook that lines count in."""

    message: str
    path: str
    cell: int | None
    line: int


@dataclass(frozen=True)
class EditEntry:
    """Replace what stands from `line` and `column` up to the end, which is exclusive, by `text`."""

    path: str
    cell: int | None
    line: int
    column: int
    end_line: int
    end_column: int
    text: str


@dataclass(frozen=True)
class FixEntry:
    """Edits that remove a mistake; all of them belong together."""

    safety: Safety
    title: str
    edits: tuple[EditEntry, ...]


@dataclass(frozen=True)
class FindingEntry:
    """One mistake at one place. Lines and columns start at 1; `end_column` is one past the last character. In a
    notebook they count in the `cell`, which counts cells of all kinds. `world` says how the program must be launched
    for it, and `started_by` which launch file does so. `read_more` is the address of the rule's page, or the command
    that shows it."""

    code: str
    name: str
    severity: Severity
    message: str
    remedy: str
    path: str
    cell: int | None
    line: int
    column: int
    end_line: int
    end_column: int
    fix: FixEntry | None
    related: tuple[RelatedEntry, ...]
    confidence: Confidence
    doubt: str
    seen_in: SeenIn
    world: str
    started_by: str
    read_more: str


@dataclass(frozen=True)
class EndEntry:
    """What ended all paths through a program, and where."""

    reason: str
    path: str | None
    cell: int | None
    line: int | None


@dataclass(frozen=True)
class SilenceEntry:
    """Rules that could not judge a program, and why."""

    rules: tuple[str, ...]
    because: str
    cause: Cause
    path: str | None
    cell: int | None
    line: int | None


@dataclass(frozen=True)
class CoverageEntry:
    """What was followed of a program, in the way in which it is launched; `world` is empty for a file that starts
    nothing. `started` says which launch file starts it so, where they start it in several ways."""

    path: str
    world: str
    started: str
    followed: Followed
    training_loops: int
    ended_by: EndEntry | None
    silent_for: tuple[SilenceEntry, ...]


@dataclass(frozen=True)
class ErrorEntry:
    """What could not be done or read; `path` is empty where it is about no file."""

    path: str
    message: str


@dataclass(frozen=True)
class LintReport:
    """What `gpudoctor lint` has found. `files` counts those that were asked for; `programs` tells a clean program from
    one that was not looked at. `statistics` is there with `--statistics` only, and `tried` with `--try`."""

    optional = ("statistics", "tried")

    findings: tuple[FindingEntry, ...]
    files: int
    programs: tuple[CoverageEntry, ...]
    errors: tuple[ErrorEntry, ...]
    statistics: tuple[Count, ...]
    tried: tuple[TriedProgram, ...]


def render(report: Report, style: Style) -> Iterator[str]:
    """One document: the findings, how many files were read, what was followed of each program, what could not be done,
    how often each rule found, and what came of programs that were tried."""
    findings = by_place(report.findings)
    errors = (*report.problems, *report.unread, *report.partly, *report.bugs)
    document = {
        "version": VERSION,
        **plain(
            LintReport(
                findings=tuple(map(_finding, findings)),
                files=report.files,
                programs=tuple(map(_coverage, report.programs)),
                errors=tuple(ErrorEntry(error.path, error.message) for error in errors),
                statistics=tuple(counts(findings)),
                tried=report.tried or (),
            )
        ),
    }
    if not report.with_statistics:
        del document["statistics"]
    if report.tried is None:
        del document["tried"]
    yield json.dumps(document, indent=2)


def coverage_of(program: Coverage) -> dict[str, Any]:
    """What was followed of a program."""
    found: dict[str, Any] = plain(_coverage(program))
    return found


def document_of(findings: Iterable[Finding]) -> dict[str, Any]:
    """What the documents of all commands that find something have in common."""
    return {"version": VERSION, "findings": [plain(_finding(finding)) for finding in findings]}


def _coverage(program: Coverage) -> CoverageEntry:
    end = program.ended_by
    return CoverageEntry(
        path=program.path,
        world=program.world,
        started=program.started,
        followed=program.followed,
        training_loops=program.training_loops,
        ended_by=EndEntry(end.reason, *_place(end.at)) if end is not None else None,
        silent_for=tuple(
            SilenceEntry(tuple(each.rules), each.because, each.cause, *_place(each.at)) for each in program.silent_for
        ),
    )


def _place(at: Location | None) -> tuple[str | None, int | None, int | None]:
    return (None, None, None) if at is None else (at.path, _cell(at), at.line)


def _finding(finding: Finding) -> FindingEntry:
    at = finding.location
    return FindingEntry(
        code=finding.code,
        name=finding.name,
        severity=finding.severity,
        message=finding.message,
        remedy=finding.remedy,
        path=at.path,
        cell=_cell(at),
        line=at.line,
        column=at.column,
        end_line=at.end_line or at.line,
        end_column=at.end_column or at.column,
        fix=_fix(finding.fix) if finding.fix is not None else None,
        related=tuple(map(_related, finding.related)),
        confidence=finding.confidence,
        doubt=finding.doubt,
        seen_in=finding.seen_in,
        world=finding.world,
        started_by=finding.started_by,
        read_more=read_more(finding.code, finding.name),
    )


def _fix(fix: Fix) -> FixEntry:
    return FixEntry(fix.safety, fix.title, tuple(map(_edit, fix.edits)))


def _edit(edit: Edit) -> EditEntry:
    at = edit.location
    return EditEntry(at.path, _cell(at), at.line, at.column, at.end_line, at.end_column, edit.text)


def _related(related: Related) -> RelatedEntry:
    at = related.location
    return RelatedEntry(related.message, at.path, _cell(at), at.line)


def _cell(at: Location) -> int | None:
    """The cell of a notebook that lines and columns count in."""
    return at.cell.number if at.cell else None
