"""JUnit's XML, which most CI services show as a list of tests: each finding is one that failed, by file."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from xml.sax.saxutils import escape, quoteattr

from gpudoctor.diagnostic import Finding, Problem, by_place
from gpudoctor.report.report import Report
from gpudoctor.report.repository_root import from_root
from gpudoctor.report.silence import note
from gpudoctor.report.story import story, whole_story
from gpudoctor.report.text import Style
from gpudoctor.visible import visible

_Case = tuple[str, ...]
"""The lines of a test."""


def render(report: Report, style: Style) -> Iterator[str]:
    """A suite for each file in which something was found, and one for the lint itself: what could not be done, and what
    was not followed. Without findings and errors it holds one test that passed."""
    findings = by_place(report.findings)
    errors, missed = report.errors, note(report.programs)
    told = len(findings) + len(errors)
    yield '<?xml version="1.0" encoding="UTF-8"?>'
    total = told + (missed is not None) + (not told)
    yield _opened("testsuites", name="gpudoctor", tests=total, failures=len(findings), errors=len(errors))
    for path, group in groupby(findings, key=lambda each: from_root(each.location.path, report.root)):
        cases = [_failed(finding, path) for finding in group]
        yield from _suite(path, cases, failures=len(cases), errors=0, skipped=0)
    own = [*(_broken(problem) for problem in errors)]
    own += [_skipped(missed)] if missed else []
    own += [] if told else [(f'    <testcase classname="gpudoctor" name="lint of {report.files} files"/>',)]
    if own:
        yield from _suite("gpudoctor", own, failures=0, errors=len(errors), skipped=int(missed is not None))
    yield "</testsuites>"


def _suite(name: str, cases: list[_Case], **counts: int) -> Iterator[str]:
    yield "  " + _opened("testsuite", name=name, tests=len(cases), **counts)
    for case in cases:
        yield from case
    yield "  </testsuite>"


def _failed(finding: Finding, path: str) -> _Case:
    text = f"{finding.location}: {whole_story(finding)}"
    return (
        # The schema of Jenkins has no `file` and no `line` here: the text begins with them.
        "    " + _opened("testcase", classname=path, name=f"{finding.code} {finding.name}"),
        f"      {_opened('failure', type=finding.severity.value, message=story(finding)[0])}{_text(text)}</failure>",
        "    </testcase>",
    )


def _broken(problem: Problem) -> _Case:
    text = str(problem) if problem.path else problem.message
    return (
        "    " + _opened("testcase", classname="gpudoctor", name=problem.path or "a bug of gpudoctor"),
        f"      {_opened('error', message=text.splitlines()[0] if text else '')}{_text(text)}</error>",
        "    </testcase>",
    )


def _skipped(missed: Problem) -> _Case:
    return (
        "    " + _opened("testcase", classname=missed.path, name="not all was followed"),
        f"      {_opened('skipped', message='. '.join(missed.message.splitlines()))[:-1]}/>",
        "    </testcase>",
    )


def _opened(tag: str, **attributes: object) -> str:
    shown = "".join(f" {name}={quoteattr(visible(str(value)))}" for name, value in attributes.items())
    return f"<{tag}{shown}>"


def _text(text: str) -> str:
    # XML has no form for control characters.
    return escape("\n".join(map(visible, text.split("\n"))))
