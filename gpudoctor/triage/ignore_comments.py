"""Comments in the files that silence what is found: the files as they would be, each checked to be the same program."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Sequence

from gpudoctor.diagnostic import Finding
from gpudoctor.lint.fix_loop import FileChange
from gpudoctor.lint.results.merge import UNKNOWN, UNREADABLE, UNUSED
from gpudoctor.lint.source.atomic_write import NotWritten, edited
from gpudoctor.lint.source.file import SourceFile, parse_text, read_source
from gpudoctor.lint.suppression.directives import Suppressions
from gpudoctor.lint.suppression.insert import comments_for
from gpudoctor.record import replace

_ABOUT_FILES = (UNREADABLE, UNUSED, UNKNOWN)
"""What is wrong with a file or with its comments is not cured by one more comment."""


def by_file(findings: Iterable[Finding]) -> dict[str, list[Finding]]:
    """The findings that a comment can silence, by the shown paths of their files."""
    found: dict[str, list[Finding]] = {}
    for finding in findings:
        if finding.code not in _ABOUT_FILES:
            found.setdefault(finding.location.path, []).append(finding)
    return found


def silenced(shown: str, findings: Sequence[Finding], given: bytes | None = None) -> FileChange:
    """The file with comments that silence these findings of it; NotWritten where that cannot be.

    `given` are bytes that count instead of what is written there.
    """
    source = read_source(shown) if given is None else parse_text(given, os.path.realpath(shown), shown)
    if not isinstance(source, SourceFile):
        raise NotWritten(f"{shown}: it cannot be read any more")
    before = given if given is not None else _bytes_in(source.path)
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


def _bytes_in(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


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
