"""The format for people: where, what happens, the code, the places that led there, and what to write instead."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from gpudoctor.diagnostic import Finding, Location
from gpudoctor.page_address import rule_address
from gpudoctor.report.frame import excerpt, frame
from gpudoctor.report.report import Lines, Report
from gpudoctor.report.story import head, launch_of_all, story
from gpudoctor.report.text import Style, harmless, wrap
from gpudoctor.visible import visible

_INDENT = "  "


def render(report: Report, style: Style) -> Iterator[str]:
    """The findings one after the other, with an empty line behind each."""
    return map(harmless, told(report.findings, report.lines, style))


def told(findings: Iterable[Finding], lines: Lines, style: Style) -> Iterator[str]:
    """The same as a part of a longer text, which is made harmless as a whole."""
    every = list(findings)
    # Most reports are about one program, and what holds for all of it is said once.
    if launch := launch_of_all(every):
        yield from _several(every, lines, style, launch)
        return
    for path, group in groupby(every, key=lambda each: each.location.path):
        own = list(group)
        launch = launch_of_all(own)
        yield from _several(own, lines, style, f"{path}: {launch[0].lower()}{launch[1:]}" if launch else "")


def _several(findings: Sequence[Finding], lines: Lines, style: Style, launch: str) -> Iterator[str]:
    for finding in findings:
        yield from _finding(finding, lines, style, with_launch=not launch)
        yield ""
    if launch:
        yield from wrap(launch, style.width)
        yield ""


def _finding(finding: Finding, lines: Lines, style: Style, *, with_launch: bool) -> Iterator[str]:
    severity = finding.severity.value
    yield painted_head(finding, style)
    yield from wrap("\n".join(story(finding, with_launch=with_launch)), style.width, _INDENT)
    yield from _framed(frame(finding.location, lines, style, severity))
    yield from _led_there(finding, lines, style)
    if finding.remedy:
        if not finding.related:
            yield ""
        title, *rest = wrap(visible(finding.remedy), style.width, _INDENT + " " * len("help: "), _INDENT + "help: ")
        # Coloured last: escape sequences take no room, and the wrapping would count them.
        yield title.replace("help:", style.paint("help:", "help"), 1)
        yield from rest


def painted_head(finding: Finding, style: Style) -> str:
    """The line above a finding."""
    place, severity, code, *rest = head(finding)
    return " ".join(
        (
            style.paint(place[:-1], "bold") + ":",
            style.paint(severity[:-1], finding.severity.value) + ":",
            style.linked(style.paint(code, "bold"), rule_address(finding.code, finding.name)),
            *rest,
        )
    )


def _framed(lines: Iterable[str]) -> Iterator[str]:
    for number, line in enumerate(lines):
        if number == 0:
            yield ""
        yield line


def _led_there(finding: Finding, lines: Lines, style: Style) -> Iterator[str]:
    """The places, each line of code once, below what is said of it; not where it stands above already."""
    shown = {(finding.location.text, row.number) for row in excerpt(finding.location, lines)}
    told = dict.fromkeys((_at(each.location), each.message) for each in finding.related)
    related = {(_at(each.location), each.message): each for each in reversed(finding.related)}
    for number, key in enumerate(told):
        if number == 0:
            yield ""
        each = related[key]
        yield from wrap(f"{_where(each.location, finding.location)}: {visible(each.message)}", style.width, _INDENT)
        if key[0] not in shown:
            yield from frame(each.location, lines, style)
        shown.add(key[0])


def _at(place: Location) -> tuple[str, int]:
    return place.text, place.line


def _where(place: Location, seen_from: Location) -> str:
    """As short as it can be told."""
    if place.path != seen_from.path:
        return place.start
    return (
        f"line {place.line}"
        if place.text == seen_from.text
        else f"cell {place.cell and place.cell.number}, line {place.line}"
    )
