"""Findings get the fixes that their rules have a repair for: edits of text, or none where it cannot be written well."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from gpudoctor.diagnostic import Edit, Finding, Fix, Location, Safety
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.fix.changes import NewDecorator, NewLines, NoFix, TreeChange
from gpudoctor.lint.fix.nodes import FileNodes
from gpudoctor.lint.fix.render import Renderer, Sight
from gpudoctor.lint.fix.steps import changes_of
from gpudoctor.lint.program import Program
from gpudoctor.lint.repair.repair import Assign, Counter, Holds, Repair, RepairStep, Substitute, parts_of
from gpudoctor.lint.source.file import SourceFile
from gpudoctor.record import replace

MAX_REWRITTEN = 1_000_000
"""Characters of statements that are written anew for the fixes of one entry: about a second."""
MAX_CHARACTERS = 300_000
"""Of a file in which anything is written: the tree that libcst makes of it takes up to a kilobyte for each of them."""

FileOf = Callable[[str], SourceFile | None]
Execute = Callable[[frozenset[Location]], "list[Program]"]
"""Executes the programs once more, noting what names hold at these places."""


def with_fixes(
    found: Sequence[Sequence[Finding]],
    worlds: Sequence[LaunchWorld],
    execute: Execute | None,
    file_of: FileOf,
    safety: Mapping[str, Safety],
    *,
    as_marks: bool,
) -> list[list[Finding]]:
    """The findings of one entry in each of its worlds, each with its fix where there is one.

    Without `execute`, only those fixes are made that need no names; of the others it is said that they are not.
    `as_marks` asks which findings have a fix, and not how it looks best: names are noted where that hangs on them, and
    no edits are written.
    """
    fixes = Fixes(file_of, write=not as_marks)
    found = [list(findings) for findings in found]
    if as_marks:
        found = [[_with_plain_fix(each, fixes, safety) for each in findings] for findings in found]
    repairs = [repair for findings in found for each in findings if (repair := _unwritten(each, safety)) is not None]
    programs: Sequence[Program] = ()
    if execute is not None and (not as_marks or any(map(_asks_names, repairs))):
        programs = execute(frozenset(place for repair in repairs for place in fixes.places(repair)))
    seen = {program.world: Sight(program.names_before, program.names_after) for program in programs}
    return [
        [_with_fix(each, fixes, seen.get(world, Sight()), safety, sure=execute is not None) for each in findings]
        for findings, world in zip(found, worlds, strict=True)
    ]


def _unwritten(finding: Finding, safety: Mapping[str, Safety]) -> Repair | None:
    """The repair of a finding that has no fix yet and may get one."""
    waits = finding.fix is None and finding.code in safety
    return finding.repair if waits and isinstance(finding.repair, Repair) else None


def _with_plain_fix(finding: Finding, fixes: Fixes, safety: Mapping[str, Safety]) -> Finding:
    repair = _unwritten(finding, safety)
    if repair is None:
        return finding
    return replace(finding, fix=fixes.without_names(repair, safety[finding.code]))


def _with_fix(finding: Finding, fixes: Fixes, sight: Sight, safety: Mapping[str, Safety], *, sure: bool) -> Finding:
    repair = _unwritten(finding, safety)
    if repair is None:
        return finding
    try:
        fix = fixes.fix(repair, sight, safety[finding.code])
    except _EnoughWritten:
        # The next round of `--fix` comes to it.
        fix, sure = None, False
    unwritten = (repair.safety or safety[finding.code]) if fix is None and not sure else None
    return replace(finding, fix=fix, unwritten=unwritten)


class _EnoughWritten(Exception):
    """So much was written for fixes already that no more of them are."""


class Fixes:
    """Makes fixes for the programs that share some files. Without `write` it is only said that there is one."""

    def __init__(self, file_of: FileOf, *, write: bool) -> None:
        self._file_of = file_of
        self._write = write
        self._nodes: dict[str, FileNodes] = {}
        self._written: dict[tuple[TreeChange, ...], tuple[Edit, ...]] = {}
        """Edits by changes: mostly all worlds of a program have the same."""
        self._rewritten = 0

    def places(self, repair: Repair) -> Iterable[Location]:
        """The statements around which the names must be known before the repair can be written."""
        yield from self.places(repair.otherwise) if repair.otherwise else ()
        for step in repair.steps:
            # What cannot be found will not be written.
            with suppress(NoFix):
                nodes = self.nodes(step.at.path)
                loops = [part.loop for part in parts_of(step) if isinstance(part, Counter)]
                yield nodes.place(nodes.anchor(step))
                yield from (nodes.place(nodes.block(loop).body[0]) for loop in loops)

    def without_names(self, repair: Repair, safety: Safety) -> Fix | None:
        """A fix where the repair can be made whatever the names in sight hold; it may look better with them."""
        if _hangs_on_names(repair):
            return None
        return self.fix(replace(repair, otherwise=None), Sight(), safety)

    def fix(self, repair: Repair, sight: Sight, safety: Safety) -> Fix | None:
        """The edits of a repair, or of the one to try instead; None where it cannot be written well here."""
        way: Repair | None = repair
        while way is not None:
            edits = self._edits_of(way, sight)
            if edits is not None:
                return Fix(way.safety or safety, way.title, edits)
            way = way.otherwise
        return None

    def _edits_of(self, way: Repair, sight: Sight) -> tuple[Edit, ...] | None:
        """The edits of one way, none where nothing is written; None where it is not open here."""
        try:
            changes = tuple(dict.fromkeys(self._changes(way, sight)))
            if not changes:
                return None
            if self._write and changes not in self._written:
                self._written[changes] = tuple(self._edits(changes))
        except NoFix:
            return None
        return self._written[changes] if self._write else ()

    def _changes(self, repair: Repair, sight: Sight) -> Iterable[TreeChange]:
        for step in repair.steps:
            nodes = self.nodes(step.at.path)
            around, renderer = nodes.anchor(step), Renderer(nodes, sight, self.nodes)
            changes = changes_of(step, around, renderer)
            for change in (*renderer.changes, *changes):
                # What is only put in somewhere takes nothing away.
                if not isinstance(change, (NewLines, NewDecorator)):
                    _refuse_what_is_not_kept(nodes.source, change.at)
                yield change

    def nodes(self, path: str) -> FileNodes:
        """A file of the program by its shown path."""
        if path not in self._nodes:
            source = self._file_of(path)
            if source is None:
                raise NoFix(f"{path} was not read")
            if len(source.text) > MAX_CHARACTERS:
                raise NoFix(f"{path} is too large")
            self._nodes[path] = FileNodes(source)
        return self._nodes[path]

    def _edits(self, changes: Iterable[TreeChange]) -> Iterable[Edit]:
        # Imported late: only where an edit is written.
        from gpudoctor.lint.fix.rewrite import rewrite_of

        by_path: dict[str, list[TreeChange]] = {}
        for change in changes:
            by_path.setdefault(change.at.path, []).append(change)
        for path, own in by_path.items():
            source = self.nodes(path).source
            rewrite = rewrite_of(source.text)
            if rewrite is None:
                raise NoFix("libcst does not read the file")
            self._rewritten += rewrite.size(own)
            if self._rewritten > MAX_REWRITTEN:
                raise _EnoughWritten
            for start, end, text in rewrite.spans(own):
                at = source.stretch(start, end) if text else _taken_out(source, start, end)
                _refuse_what_is_not_kept(source, at)
                yield Edit(at, text)


def _taken_out(source: SourceFile, start: int, end: int) -> Location:
    """A stretch that goes. In a notebook the empty lines that it takes along may be those between cells: they stay."""
    at = source.stretch(start, end)
    if source.cells is None or source.cells.keeps(at):
        return at
    gone = source.text[start:end]
    return source.stretch(start + len(gone) - len(gone.lstrip("\n")), start + len(gone.rstrip("\n")))


def _refuse_what_is_not_kept(source: SourceFile, at: Location) -> None:
    if source.cells is not None and not source.cells.keeps(at):
        raise NoFix("a line of a notebook's cell that is no Python, or more than one cell")


def _asks_names(repair: Repair) -> bool:
    """Some way to write it is open only where it is known what the names in sight hold."""
    asks = any(isinstance(step, Substitute) or _names_in(step) for step in repair.steps)
    return asks or (repair.otherwise is not None and _asks_names(repair.otherwise))


def _hangs_on_names(repair: Repair) -> bool:
    """A name that is chosen decides whether the step can be done at all."""
    return any(isinstance(step, Substitute) or (isinstance(step, Assign) and _names_in(step)) for step in repair.steps)


def _names_in(step: RepairStep) -> bool:
    return any(isinstance(part, (Holds, Counter)) for part in parts_of(step))
