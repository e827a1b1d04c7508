"""The format of reviewdog, which comments on the changed lines of a pull request wherever it is hosted.

https://github.com/reviewdog/reviewdog/tree/master/proto/rdf
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from gpudoctor.diagnostic import Edit, Finding, Location, Severity, by_place
from gpudoctor.page_address import rule_address
from gpudoctor.report.report import Lines, Report
from gpudoctor.report.repository_root import from_root
from gpudoctor.report.silence import note
from gpudoctor.report.story import whole_story
from gpudoctor.report.text import Style

_SEVERITIES = {Severity.ERROR: "ERROR", Severity.WARNING: "WARNING", Severity.PERF: "INFO", Severity.INFO: "INFO"}


def render(report: Report, style: Style) -> Iterator[str]:
    """One `DiagnosticResult`, with what was not followed at its end; what could not be done has no place in it."""
    diagnostics = [_diagnostic(finding, report) for finding in by_place(report.findings)]
    if missed := note(report.programs):
        place = {"path": from_root(missed.path, report.root), "range": {"start": {"line": 1}}}
        diagnostics.append({"message": missed.message, "location": place, "severity": "INFO"})
    yield json.dumps({"source": {"name": "gpudoctor"}, "diagnostics": diagnostics}, indent=2)


def _diagnostic(finding: Finding, report: Report) -> dict[str, Any]:
    address = rule_address(finding.code, finding.name)
    found: dict[str, Any] = {
        "message": _told_of(finding),
        "location": {
            "path": from_root(finding.location.path, report.root),
            "range": _range(finding.location, report.lines),
        },
        "severity": _SEVERITIES[finding.severity],
        "code": {"value": finding.code, **({"url": address} if address else {})},
    }
    if edit := _only_edit(finding):
        found["suggestions"] = [{"range": _range(edit.location, report.lines), "text": edit.text}]
    return found


def _told_of(finding: Finding) -> str:
    cell = finding.location.cell
    head = f"{finding.name}: " + (f"cell {cell.number}, line {finding.location.line}: " if cell else "")
    # Where there is an address, reviewdog links the code to it.
    return head + whole_story(finding, linked=rule_address(finding.code, finding.name) != "")


def _only_edit(finding: Finding) -> Edit | None:
    """The edit that mends it alone, in its own file: a reviewer may take one suggestion and leave the next."""
    edits = finding.fix.edits if finding.fix else ()
    if len(edits) != 1 or edits[0].location.cell or edits[0].location.path != finding.location.path:
        return None
    return edits[0]


def _range(at: Location, lines: Lines) -> dict[str, Any]:
    if at.cell:
        # The lines of the file that hold it; columns would count in its JSON.
        return {"start": {"line": at.cell.row}, "end": {"line": at.cell.end_row}}
    text = lines(at)
    end_line, end_column = (at.end_line, at.end_column) if at.end_line else (at.line, at.column)
    return {"start": _position(at.line, at.column, text), "end": _position(end_line, end_column, text)}


def _position(line: int, column: int, text: Sequence[str]) -> dict[str, int]:
    """Columns count in bytes of UTF-8."""
    before = text[line - 1][: column - 1] if 1 <= line <= len(text) else ""
    return {"line": line, "column": column + len(before.encode("utf-8", "replace")) - len(before)}
