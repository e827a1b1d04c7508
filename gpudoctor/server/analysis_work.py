"""What is done with the texts of an editor: findings, fixes, comments that silence, all fixes of a file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from difflib import SequenceMatcher
from typing import TYPE_CHECKING

from gpudoctor.api import FileChange, Finding, GpudoctorError, LintOptions, Location, NotWritten, Safety, Session
from gpudoctor.config import find_config
from gpudoctor.lint.source.encoding import decode
from gpudoctor.lint.source.file import NOTEBOOK
from gpudoctor.lint.source.notebooks.joined_cells import changed_cells
from gpudoctor.record import dataclass, field
from gpudoctor.report.story import story
from gpudoctor.server.analysis_messages import (
    AnalysisJob,
    Checked,
    EditorSettings,
    EditorSpan,
    Offer,
    ProgramSeen,
    Told,
)
from gpudoctor.triage.ignore_comments import by_file, silenced

if TYPE_CHECKING:
    from gpudoctor.api import Outcome
    from gpudoctor.config import Config

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_ENCODINGS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


@dataclass
class _Gathered:
    """What came of several lints, each with settings of its own."""

    found: list[Told] = field(default_factory=list)
    worlds: dict[str, list[str]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)

    @property
    def checked(self) -> Checked:
        """As the server is told."""
        programs = (ProgramSeen(path, tuple(worlds)) for path, worlds in self.worlds.items())
        return Checked(tuple(self.found), tuple(programs), tuple(self.problems), tuple(self.failures))


class AnalysisWork:
    """Does jobs. Each public method is a kind of them."""

    def __init__(self) -> None:
        self._sessions: dict[tuple[EditorSettings, bool, bool], Session] = {}

    def check(self, job: AnalysisJob) -> Checked:
        """What is found in texts. They are linted together, so that each is seen through the programs that use it."""
        gathered = _Gathered()
        for paths in _by_config(job.paths, gathered.problems):
            self._lint(paths, job, gathered)
        return gathered.checked

    def search(self, job: AnalysisJob) -> Checked:
        """What is found in folders. Results are kept from one start of the server to the next."""
        gathered = _Gathered()
        for folder in job.paths:
            self._lint([folder], job, gathered, on_disk=True)
        return gathered.checked

    def offers(self, job: AnalysisJob) -> tuple[Offer, ...]:
        """Changes for what is found in some lines of a file: fixes, then comments that silence it."""
        (path,) = job.paths
        try:
            outcome = self._session(job, fixes=True).lint_paths([path], texts=job.texts)
        except GpudoctorError:
            return ()
        columns = _EditorColumns(outcome, job.encoding)
        near = [each for each in outcome.findings if _is_near(each.location, job)]
        return (*_fixes(near, columns), *_comments(near, columns, job.texts.get(path)))

    def fix_all(self, job: AnalysisJob) -> tuple[tuple[EditorSpan, str], ...]:
        """The edits after which nothing is left in a file that has a safe fix."""
        (path,) = job.paths
        try:
            fixed = self._session(job).fix([path], texts=job.texts)
        except GpudoctorError:
            return ()
        return tuple(edit for each in fixed.changes if each.path == path for edit in _edits(each, job.encoding))

    def _session(self, job: AnalysisJob, *, fixes: bool = False, on_disk: bool = False) -> Session:
        if job.root and os.getcwd() != job.root:
            os.chdir(job.root)
        key = job.settings, fixes, on_disk
        if key not in self._sessions:
            self._sessions[key] = _new_session(job.settings, fixes, on_disk)
        return self._sessions[key]

    def _lint(self, paths: Sequence[str], job: AnalysisJob, gathered: _Gathered, *, on_disk: bool = False) -> None:
        try:
            outcome = self._session(job, on_disk=on_disk).lint_paths(paths, texts=job.texts)
        except GpudoctorError as error:
            gathered.problems.append(str(error))
            return
        columns = _EditorColumns(outcome, job.encoding)
        gathered.found += [_told(each, columns) for each in outcome.findings]
        for program in outcome.programs:
            if program.world:
                worlds = gathered.worlds.setdefault(os.path.realpath(program.path), [])
                worlds += [program.world] if program.world not in worlds else []
        gathered.problems += [str(each) for each in outcome.problems if each.path not in job.paths]
        gathered.failures += [str(each) for each in outcome.failures]


def _new_session(settings: EditorSettings, fixes: bool, on_disk: bool) -> Session:
    options = LintOptions(
        select=settings.select,
        extend_select=settings.extend_select,
        ignore=settings.ignore,
        exclude=settings.exclude,
        launch=settings.launch,
        baseline=settings.baseline,
        jobs=1,
        cache=on_disk,
        fixes=fixes,
    )
    return Session(options, remember=not on_disk)


def _by_config(paths: Iterable[str], problems: list[str]) -> Iterable[list[str]]:
    """Files that share a configuration file."""
    groups: dict[str, list[str]] = {}
    for path in paths:
        config = _config_of(path, problems)
        if config is not None:
            groups.setdefault(f"{config.folder}/{config.origin}", []).append(path)
    return groups.values()


def _config_of(path: str, problems: list[str]) -> Config | None:
    try:
        return find_config(path)
    except GpudoctorError as error:
        problems += [str(error)] if str(error) not in problems else []
        return None


class _EditorColumns:
    """Places as the editor counts them."""

    def __init__(self, outcome: Outcome, encoding: str) -> None:
        self._outcome = outcome
        self.encoding = encoding

    def span(self, at: Location) -> EditorSpan:
        """The place of a finding: of one that goes over several lines the first."""
        lines = self._outcome.lines(at)
        text = lines[at.line - 1] if 0 < at.line <= len(lines) else ""
        end = at.end_column if at.end_line == at.line and at.end_column else len(text) + 1
        return self._span(at, at.line, at.column, at.line, max(end, at.column))

    def exactly(self, at: Location) -> EditorSpan:
        """The place of an edit."""
        return self._span(at, at.line, at.column, at.end_line or at.line, at.end_column or at.column)

    def _span(self, at: Location, line: int, column: int, end_line: int, end_column: int) -> EditorSpan:
        lines = self._outcome.lines(at)
        start, end = (
            units(lines[row - 1] if 0 < row <= len(lines) else "", place, self.encoding)
            for row, place in ((line, column), (end_line, end_column))
        )
        cell = at.cell.number if at.cell else 0
        return EditorSpan(os.path.realpath(at.path), cell, line - 1, start, end_line - 1, end)


def units(line: str, column: int, encoding: str) -> int:
    """The units before a column, which counts characters from 1."""
    before = line[: column - 1]
    if before.isascii():
        return len(before)
    name, size = _ENCODINGS[encoding]
    return len(before.encode(name, "replace")) // size


def _told(finding: Finding, columns: _EditorColumns) -> Told:
    message = " ".join(story(finding))
    return Told(
        finding.code,
        finding.name,
        finding.severity.value,
        f"{message}\nHelp: {finding.remedy}" if finding.remedy else message,
        columns.span(finding.location),
        tuple((each.message, columns.span(each.location)) for each in finding.related),
        bool(finding.fix or finding.unwritten),
    )


def _is_near(at: Location, job: AnalysisJob) -> bool:
    first, last = job.rows
    same = os.path.realpath(at.path) == job.paths[0] and (at.cell.number if at.cell else 0) == job.cell
    return same and first <= at.line - 1 <= last


def _fixes(findings: Iterable[Finding], columns: _EditorColumns) -> Iterator[Offer]:
    for each in findings:
        if each.fix is not None and each.fix.edits:
            edits = tuple((columns.exactly(edit.location), edit.text) for edit in each.fix.edits)
            safe = each.fix.safety is Safety.SAFE
            yield Offer(each.code, each.fix.title, safe, False, columns.span(each.location), edits)


def _comments(findings: Sequence[Finding], columns: _EditorColumns, given: bytes | None) -> Iterator[Offer]:
    for shown, own in by_file(findings).items():
        for each in own:
            try:
                change = silenced(shown, [each], given)
            except NotWritten:
                continue
            title = f"Silence this finding ({each.code} {each.name})"
            edits = tuple(_edits(change, columns.encoding))
            yield Offer(each.code, title, False, True, columns.span(each.location), edits)


def _edits(change: FileChange, encoding: str) -> Iterator[tuple[EditorSpan, str]]:
    before, after = decode(change.before), decode(change.after)
    if change.path.endswith(NOTEBOOK):
        for number, old, new in changed_cells(before, after):
            yield from _between(change.path, number, old, new, encoding)
    else:
        yield from _between(change.path, 0, before, after, encoding)


def _between(path: str, cell: int, before: str, after: str, encoding: str) -> Iterator[tuple[EditorSpan, str]]:
    """The lines that differ, as edits."""
    # Not by `splitlines`: a form feed, or the separators of Unicode, end no line of an editor.
    old, new = _LINE.findall(before), _LINE.findall(after)
    last = len(old)
    for kind, start, end, new_start, new_end in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if kind == "equal":
            continue
        text = "".join(new[new_start:new_end])
        # The last line may have no end, after which there is no line to begin at.
        if end == last and old and not old[-1].endswith(("\n", "\r")):
            close = last - 1, units(old[-1], len(old[-1]) + 1, encoding)
            if start == last:
                yield EditorSpan(path, cell, *close, *close), "\n" + text
                continue
            yield EditorSpan(path, cell, start, 0, *close), text
        else:
            yield EditorSpan(path, cell, start, 0, end, 0), text
