"""The code quality report of GitLab, which shows in a merge request what it adds and what it removes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from gpudoctor.diagnostic import Severity
from gpudoctor.report.fingerprint import Lines, fingerprints
from gpudoctor.report.repository_root import from_root
from gpudoctor.report.story import story

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Finding, Problem

_SEVERITIES = {
    Severity.ERROR: "critical",
    Severity.WARNING: "major",
    Severity.PERF: "minor",
    Severity.INFO: "info",
}


def render(findings: Sequence[Finding], lines: Lines, root: str = "", note: Problem | None = None) -> str:
    """A list of issues, the last one of what was not followed; what could not be done has no place in it. `root` is
    the folder of the repository."""
    known_by = fingerprints(findings, lines, root)
    issues = [_issue(finding, known, root) for finding, known in zip(findings, known_by, strict=True)]
    issues += [_note(note, root)] if note is not None else []
    return json.dumps(issues, indent=2)


def _note(note: Problem, root: str) -> dict[str, Any]:
    path = from_root(note.path, root)
    return {
        "description": ". ".join(note.message.split("\n")),
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
            f"{finding.code} {finding.name}: {where}{' '.join(story(finding))} {finding.remedy}".split()
        ),
        "check_name": finding.code,
        "fingerprint": fingerprint,
        "severity": _SEVERITIES[finding.severity],
        "location": {"path": from_root(finding.location.path, root), "lines": {"begin": begin, "end": end}},
    }
