"""The code quality report of GitLab, which shows in a merge request what it adds and what it removes."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

from gpudoctor.diagnostic import Finding, Problem, Severity, by_place
from gpudoctor.page_address import read_more
from gpudoctor.report.fingerprint import fingerprints
from gpudoctor.report.report import Report
from gpudoctor.report.repository_root import from_root
from gpudoctor.report.silence import note
from gpudoctor.report.story import story
from gpudoctor.report.text import Style

_SEVERITIES = {Severity.ERROR: "critical", Severity.WARNING: "major", Severity.PERF: "minor", Severity.INFO: "info"}


def render(report: Report, style: Style) -> Iterator[str]:
    """A list of issues, the last one of what was not followed; what could not be done has no place in it."""
    findings = by_place(report.findings)
    known_by = fingerprints(findings, report.lines, report.root)
    issues = [_issue(finding, known, report.root) for finding, known in zip(findings, known_by, strict=True)]
    issues += [_note(missed, report.root)] if (missed := note(report.programs)) else []
    yield json.dumps(issues, indent=2)


def _note(missed: Problem, root: str) -> dict[str, Any]:
    path = from_root(missed.path, root)
    return {
        "description": ". ".join(missed.message.split("\n")),
        "check_name": "not-followed",
        # Counts and lines change with each edit; that the program is not followed stays the same issue.
        "fingerprint": sha256(f"not-followed {path}".encode("utf-8", "surrogateescape")).hexdigest(),
        "severity": "info",
        "location": {"path": path, "lines": {"begin": 1, "end": 1}},
    }


def _issue(finding: Finding, fingerprint: str, root: str) -> dict[str, Any]:
    begin, end = finding.location.rows
    # GitLab shows the notebook's file, which says nothing of cells.
    where = f"cell {finding.location.cell.number}, line {finding.location.line}: " if finding.location.cell else ""
    return {
        # The page of the merge request shows little else than this text.
        "description": " ".join(
            f"{finding.code} {finding.name}: {where}{' '.join(story(finding))} {finding.remedy} "
            f"Read more: {read_more(finding.code, finding.name)}".split()
        ),
        "check_name": finding.code,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": from_root(finding.location.path, root), "lines": {"begin": begin, "end": end}},
    }
