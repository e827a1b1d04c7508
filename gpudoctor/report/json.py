"""The format for machines; its shape is a contract, to which keys may be added. Findings come by path, line, code."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from gpudoctor.diagnostic import by_place
from gpudoctor.report.statistics import counts

if TYPE_CHECKING:
    from gpudoctor.coverage import Coverage
    from gpudoctor.diagnostic import Edit, Finding, Fix, Location, Related
    from gpudoctor.report.report import Report
    from gpudoctor.report.text import Style

VERSION = 1


def render(report: Report, style: Style) -> Iterator[str]:
    """One document: the findings, how many files were read, what was followed of each program, what could not be done,
    and how often each rule found."""
    findings = by_place(report.findings)
    errors = (*report.problems, *report.unread, *report.partly, *report.bugs)
    document: dict[str, Any] = {
        **document_of(findings),
        "files": report.files,
        "programs": [coverage_of(each) for each in report.programs],
        "errors": [{"path": error.path, "message": error.message} for error in errors],
    }
    if report.with_statistics:
        document["statistics"] = [
            {"code": each.code, "name": each.name, "severity": each.severity.value, "count": each.count}
            for each in counts(findings)
        ]
    yield json.dumps(document, indent=2)


def coverage_of(program: Coverage) -> dict[str, Any]:
    """What was followed of a program."""
    end = program.ended_by
    return {
        "path": program.path,
        "world": program.world,
        "followed": program.followed.value,
        "training_loops": program.training_loops,
        "ended_by": {"reason": end.reason, **_place(end.at)} if end is not None else None,
        "silent_for": [
            {"rules": list(each.rules), "because": each.because, "cause": each.cause.value, **_place(each.at)}
            for each in program.silent_for
        ],
    }


def _place(at: Location | None) -> dict[str, Any]:
    if at is None:
        return {"path": None, "cell": None, "line": None}
    return {"path": at.path, "cell": _cell(at), "line": at.line}


def document_of(findings: Iterable[Finding]) -> dict[str, Any]:
    """What the documents of all commands that find something have in common."""
    return {"version": VERSION, "findings": [_finding(finding) for finding in findings]}


def _finding(finding: Finding) -> dict[str, Any]:
    at = finding.location
    return {
        "code": finding.code,
        "name": finding.name,
        "severity": finding.severity.value,
        "message": finding.message,
        "remedy": finding.remedy,
        "path": at.path,
        "cell": _cell(at),
        "line": at.line,
        "column": at.column,
        "end_line": at.end_line or at.line,
        "end_column": at.end_column or at.column,
        "fix": _fix(finding.fix),
        "related": [_related(related) for related in finding.related],
        "confidence": finding.confidence.value,
        "seen_in": finding.seen_in.value,
        "world": finding.world,
        "started_by": finding.started_by,
    }


def _fix(fix: Fix | None) -> dict[str, Any] | None:
    if fix is None:
        return None
    return {"safety": fix.safety.value, "title": fix.title, "edits": [_edit(edit) for edit in fix.edits]}


def _edit(edit: Edit) -> dict[str, Any]:
    at = edit.location
    return {
        "path": at.path,
        "cell": _cell(at),
        "line": at.line,
        "column": at.column,
        "end_line": at.end_line,
        "end_column": at.end_column,
        "text": edit.text,
    }


def _related(related: Related) -> dict[str, Any]:
    at = related.location
    return {"message": related.message, "path": at.path, "cell": _cell(at), "line": at.line}


def _cell(at: Location) -> int | None:
    """The cell of a notebook that lines and columns count in."""
    return at.cell.number if at.cell else None
