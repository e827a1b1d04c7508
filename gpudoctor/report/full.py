"""The format for people: where, what happens, the code, the places that led there, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpudoctor.report.frame import Lines, frame
from gpudoctor.report.story import story
from gpudoctor.report.text import Style, wrap
from gpudoctor.visible import visible

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Finding, Location, Related

_INDENT = "  "


def render(findings: Iterable[Finding], lines: Lines, style: Style) -> Iterator[str]:
    """The findings one after the other, with an empty line behind each."""
    for finding in findings:
        yield from _finding(finding, lines, style)
        yield ""


def _finding(finding: Finding, lines: Lines, style: Style) -> Iterator[str]:
    severity = finding.severity.value
    yield f"{style.paint(str(finding.location), 'bold')}: {style.paint(severity, severity)}: {_label(finding, style)}"
    yield from wrap("\n".join(story(finding)), style.width, _INDENT)
    yield from _framed(frame(finding.location, lines, style, severity))
    for related in finding.related:
        yield from _related(related, finding, lines, style)
    if finding.remedy:
        yield ""
        title, *rest = wrap(visible(finding.remedy), style.width, _INDENT + " " * len("help: "), _INDENT + "help: ")
        # Coloured last: escape sequences take no room, and the wrapping would count them.
        yield title.replace("help:", style.paint("help:", "help"), 1)
        yield from rest


def _label(finding: Finding, style: Style) -> str:
    return f"{style.paint(finding.code, 'bold')} {finding.name}"


def _framed(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == 0:
            yield ""
        yield line


def _related(related: Related, finding: Finding, lines: Lines, style: Style) -> Iterator[str]:
    place = related.location
    where = _where(place, finding.location)
    yield ""
    yield from wrap(f"{where}: {visible(related.message)}", style.width, _INDENT)
    yield from frame(place, lines, style)


def _where(place: Location, seen_from: Location) -> str:
    """As short as it can be told."""
    if place.path != seen_from.path:
        return place.start
    return (
        f"line {place.line}"
        if place.text == seen_from.text
        else f"cell {place.cell and place.cell.number}, line {place.line}"
    )
