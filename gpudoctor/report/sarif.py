"""SARIF 2.1.0, the log that code scanning services and editors read.

https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Any
from urllib.parse import quote

from gpudoctor import __version__
from gpudoctor.diagnostic import Edit, Finding, Fix, Location, Problem, Related, Severity, by_place
from gpudoctor.page_address import read_more, rule_address
from gpudoctor.registry import page_of
from gpudoctor.report import markdown
from gpudoctor.report.fingerprint import fingerprints
from gpudoctor.report.report import Report
from gpudoctor.report.silence import note
from gpudoctor.report.story import story
from gpudoctor.report.text import Style
from gpudoctor.rule import RuleCard

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
BASE = "%SRCROOT%"
FINGERPRINT = "gpudoctor/v1"
"""Ours alone: `primaryLocationLineHash` is computed by GitHub's upload, which warns of any other value."""

_LEVELS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.PERF: "note", Severity.INFO: "note"}
_PROBLEMS = {Severity.ERROR: "error", Severity.WARNING: "warning"}
_PLACEHOLDER = re.compile(r"\{(\d+)\}")

Json = dict[str, Any]


_ENDLESS = Style(width=1 << 20)
"""Viewers wrap by themselves."""


def render(report: Report, style: Style) -> Iterator[str]:
    """A log of one run. Of the rules it describes those that have found something: all would be most of each log."""
    findings = by_place(report.findings)
    cards = {card.code: card for card in report.rules}
    found = [cards[code] for code in sorted({finding.code for finding in findings})]
    at = {card.code: index for index, card in enumerate(found)}
    known_by = fingerprints(findings, report.lines, report.root)
    run = {
        "tool": {"driver": {"name": "gpudoctor", "version": __version__, "rules": [_rule(card) for card in found]}},
        "invocations": [_invocation(report)],
        # Without the last slash the folder would be taken for a file beside its content.
        "originalUriBaseIds": {BASE: {"uri": PurePath(report.folder).as_uri().rstrip("/") + "/"}},
        "columnKind": "unicodeCodePoints",
        "results": [_result(each, at[each.code], known) for each, known in zip(findings, known_by, strict=True)],
    }
    yield json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(card: RuleCard) -> Json:
    page = markdown.with_difference(page_of(card))
    address = rule_address(card.code, card.name)
    page = f"{page.strip()}\n\nRead more: `{read_more(card.code, card.name)}`" if not address else page
    return {
        "id": card.code,
        "name": card.name,
        # A service that shows the help needs no address, and there may be none.
        **({"helpUri": address} if address else {}),
        "shortDescription": {"text": card.summary},
        "fullDescription": {"text": card.summary},
        "help": {"text": markdown.plain(f"{card.code} {card.name}", page, _ENDLESS), "markdown": page.strip() + "\n"},
        "defaultConfiguration": {"level": _LEVELS[card.severity]},
        # GitHub filters alerts by the one and sorts them by the other.
        "properties": {"tags": [card.family], "problem.severity": _PROBLEMS.get(card.severity, "recommendation")},
    }


def _invocation(report: Report) -> Json:
    told = [("error", problem) for problem in report.errors] + [("warning", each) for each in report.warnings]
    # A note names its programs itself.
    if missed := note(report.programs):
        told.append(("note", Problem("", missed.message)))
    return {
        # Findings make the exit code 1, and are no failure of the tool.
        "executionSuccessful": report.exit_code < 2,
        "exitCode": report.exit_code,
        "toolExecutionNotifications": [_notification(level, problem) for level, problem in told],
    }


def _notification(level: str, problem: Problem) -> Json:
    notification: Json = {
        "level": level,
        "message": {"text": _plain(str(problem) if problem.path else problem.message)},
    }
    if problem.path:
        notification["locations"] = [{"physicalLocation": {"artifactLocation": _artifact(problem.path)}}]
    return notification


def _result(finding: Finding, rule: int, fingerprint: str) -> Json:
    result: Json = {
        "ruleId": finding.code,
        "ruleIndex": rule,
        "level": _LEVELS[finding.severity],
        "message": {"text": _told_of(finding)},
        "locations": [_location(finding.location)],
        "partialFingerprints": {FINGERPRINT: fingerprint},
        "properties": {"confidence": finding.confidence.value, "seenIn": finding.seen_in.value, "world": finding.world},
    }
    if finding.related:
        result["relatedLocations"] = [_related(number, each) for number, each in enumerate(finding.related, 1)]
    # The edits of a notebook count in its cells, and none of the file's own text can be said to be replaced.
    if finding.fix and not any(edit.location.cell for edit in finding.fix.edits):
        result["fixes"] = [_fix(finding.fix)]
    return result


def _told_of(finding: Finding) -> str:
    """What happens, what to do, and links to what led there: GitHub shows related places only where they are linked."""
    told = [_plain(part) for part in (*story(finding), finding.remedy) if part]
    if finding.location.cell:
        told[0] = f"Cell {finding.location.cell.number}, line {finding.location.line}: {told[0]}"
    links = [f"[{_in_link(related.message)}]({number})" for number, related in enumerate(finding.related, 1)]
    return "\n".join([*told, *(["What led there: " + "; ".join(links) + "."] if links else [])])


def _plain(text: str) -> str:
    # Viewers leave other braces alone; doubling those as well, as the standard asks, would show them doubled.
    return _PLACEHOLDER.sub(r"{{\1}}", text)


def _in_link(text: str) -> str:
    return _plain(re.sub(r"([\\\[\]])", r"\\\1", text))


def _related(number: int, related: Related) -> Json:
    return {"id": number, "message": {"text": _plain(related.message)}, **_location(related.location)}


def _fix(fix: Fix) -> Json:
    changes: dict[str, list[Json]] = {}
    for edit in fix.edits:
        changes.setdefault(edit.location.path, []).append(_replacement(edit))
    return {
        "description": {"text": _plain(fix.title)},
        "artifactChanges": [
            {"artifactLocation": _artifact(path), "replacements": replacements}
            for path, replacements in changes.items()
        ],
    }


def _replacement(edit: Edit) -> Json:
    return {"deletedRegion": _region(edit.location), "insertedContent": {"text": edit.text}}


def _location(at: Location) -> Json:
    location: Json = {"physicalLocation": {"artifactLocation": _artifact(at.path), "region": _region(at)}}
    if at.cell:
        location["logicalLocations"] = [{"name": f"cell {at.cell.number}", "kind": "module"}]
    return location


def _region(at: Location) -> Json:
    if at.cell:
        # The lines of the file that hold it; columns would count in its JSON.
        return {"startLine": at.cell.row, "endLine": at.cell.end_row}
    region = {"startLine": at.line, "startColumn": at.column}
    if at.end_line:
        region |= {"endLine": at.end_line, "endColumn": at.end_column}
    return region


def _artifact(path: str) -> Json:
    # What lies elsewhere is shown with its whole path, and has no base.
    if PurePath(path).is_absolute():
        return {"uri": PurePath(path).as_uri()}
    # Quoted, so that a colon in the first part is not taken for a scheme.
    return {"uri": quote(PurePath(path).as_posix()), "uriBaseId": BASE}
