"""Workflow commands of GitHub Actions: one line each, which the runner turns into a note at the line of a change."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudoctor.diagnostic import Location, Problem, Severity
from gpudoctor.report.report import Report
from gpudoctor.report.repository_root import from_root
from gpudoctor.report.silence import note
from gpudoctor.report.story import whole_story
from gpudoctor.report.text import Style
from gpudoctor.visible import visible

_COMMANDS = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.PERF: "notice", Severity.INFO: "notice"}


def render(report: Report, style: Style) -> Iterator[str]:
    """A command for each finding, then for what could not be done, then the note of what was not followed."""
    # These lines are meant to be obeyed; what is in them has no line ends any more.
    return map(visible, _commands(report))


def _commands(report: Report) -> Iterator[str]:
    for finding in report.findings:
        place = _place(finding.location, report.root)
        # The runner's log shows no place, so it stands in the text as well.
        text = f"{finding.location}: {whole_story(finding)}"
        yield _command(_COMMANDS[finding.severity], text, **place, title=f"{finding.code} {finding.name}")
    for name, problems in (("error", report.errors), ("warning", report.warnings)):
        yield from (_command(name, _told(problem), title="gpudoctor") for problem in problems)
    if missed := note(report.programs):
        place = {"file": from_root(missed.path, report.root)}
        yield _command("notice", missed.message, **place, title="gpudoctor: not all was followed")


def _told(problem: Problem) -> str:
    return str(problem) if problem.path else problem.message


def _place(at: Location, root: str) -> dict[str, str]:
    line, end_line = at.rows
    place = {"file": from_root(at.path, root), "line": str(line), "endLine": str(end_line)}
    # Columns over several lines make GitHub drop the note, and those of a cell are not those of the file.
    if end_line == line and not at.cell:
        place |= {"col": str(at.column), "endColumn": str(max(at.end_column, at.column))}
    return place


def _command(name: str, message: str, **properties: str) -> str:
    shown = ",".join(f"{key}={_escaped(value, _IN_PROPERTIES)}" for key, value in properties.items())
    return f"::{name} {shown}::{_escaped(message, _EVERYWHERE)}"


# The sign of the escape comes first, or it would escape the others once more.
_EVERYWHERE: Sequence[tuple[str, str]] = (("%", "%25"), ("\r", "%0D"), ("\n", "%0A"))
# These two end a property and the list of properties.
_IN_PROPERTIES = (*_EVERYWHERE, (":", "%3A"), (",", "%2C"))


def _escaped(text: str, escapes: Sequence[tuple[str, str]]) -> str:
    for sign, escape in escapes:
        text = text.replace(sign, escape)
    return text
