"""`gpudoctor lint --add-ignores`: comments that silence all that is found now."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.cli.lint_report import report
from gpudoctor.cli.output import say
from gpudoctor.cli.patches import write_patch
from gpudoctor.drafts import remove_drafts
from gpudoctor.errors import GpudoctorError
from gpudoctor.lint.fix_loop import FileChange
from gpudoctor.lint.results.merge import UNKNOWN, UNREADABLE, UNUSED
from gpudoctor.lint.source.atomic_write import NotWritten, edited, write_bytes
from gpudoctor.lint.source.file import SourceFile, parse_text, read_source
from gpudoctor.lint.suppression.directives import Suppressions
from gpudoctor.lint.suppression.insert import comments_for
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.cli.settings import Settings
    from gpudoctor.diagnostic import Finding
    from gpudoctor.lint.request import Outcome

ABOUT_FILES = (UNREADABLE, UNUSED, UNKNOWN)
"""What is wrong with a file or with its comments is not cured by one more comment."""


def add_ignores(outcome: Outcome, settings: Settings, arguments: Sequence[str]) -> int:
    """Write the comments, or show them; report what they cannot silence."""
    by_file: dict[str, list[Finding]] = {}
    for finding in outcome.findings:
        if finding.code not in ABOUT_FILES:
            by_file.setdefault(finding.location.path, []).append(finding)
    silenced: list[Finding] = []
    if not settings.diff:
        remove_drafts({os.path.dirname(os.path.realpath(path)) for path in outcome.read})
    for shown, findings in by_file.items():
        try:
            change = _change(shown, findings)
            if settings.diff:
                write_patch([change], settings.colour)
            else:
                write_bytes(change.path, change.after, change.digest)
        except GpudoctorError as error:
            say(f"gpudoctor: {error}")
            continue
        silenced += findings
        if not settings.quiet:
            say(_done(shown, findings, settings.diff))
    left = tuple(finding for finding in outcome.findings if finding not in silenced)
    ending = report(replace(outcome, findings=left), settings, arguments)
    refused = len(silenced) < sum(map(len, by_file.values()))
    return max(ending, 2) if refused else ending


def _done(shown: str, findings: Sequence[Finding], only_shown: bool) -> str:
    codes = sorted({finding.code for finding in findings})
    lines = len({finding.location.start for finding in findings})
    return (
        f"{shown}: {'would silence' if only_shown else 'silenced'} {' '.join(codes)} on {lines} line{'s'[: lines > 1]}"
    )


def _change(shown: str, findings: Sequence[Finding]) -> FileChange:
    source = read_source(shown)
    if not isinstance(source, SourceFile):
        raise NotWritten(f"{shown}: it cannot be read any more")
    with open(source.path, "rb") as file:
        before = file.read()
    edits = [
        replace(edit, location=part.placed(edit.location))
        for part, own in _parts(source, findings)
        for edit in comments_for(part, [(part.line_of(finding.location), finding.code) for finding in own])
    ]
    after = edited(before, edits)
    changed = parse_text(after, source.path, shown)
    if not isinstance(changed, SourceFile):
        raise NotWritten(f"{shown}: a comment has no place there, so nothing was written")
    for (part, own), (new, _) in zip(_parts(source, findings), _parts(changed, findings), strict=True):
        _refuse_unless_silent(part, new, own)
    return FileChange(source.path, shown, before, after, source.digest)


def _parts(source: SourceFile, findings: Sequence[Finding]) -> Iterator[tuple[SourceFile, list[Finding]]]:
    """The programs of a file, each with what was found in it: a notebook's own, and those that its cells write."""
    left = list(findings)
    for written in source.cells.written if source.cells is not None else ():
        own = [
            each for each in left if each.location.cell and each.location.cell.number == written.cells.cells[0].number
        ]
        program = parse_text(written.text.encode("utf-8", "replace"), written.name, source.shown)
        if own and isinstance(program, SourceFile):
            left = [each for each in left if each not in own]
            yield replace(program, cells=written.cells), own
    yield source, left


def _refuse_unless_silent(source: SourceFile, changed: SourceFile, findings: Sequence[Finding]) -> None:
    """The program must be the same, with each finding silenced."""
    if ast.dump(changed.tree) != ast.dump(source.tree):
        raise NotWritten(f"{source.shown}: a comment has no place there, so nothing was written")
    comments = Suppressions.of(changed)
    for finding in findings:
        if not comments.silences(source.line_of(finding.location), finding.code, finding.name):
            raise NotWritten(f"{finding.location.start}: no comment can silence {finding.code} here")
