"""Findings get the fixes that their rules have a repair for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Location, Safety
from gpudoctor.lint.fix.fixes import EnoughWritten, FileOf, Fixes, asks_names
from gpudoctor.lint.fix.render import Sight
from gpudoctor.lint.repair.repair import Repair
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.lint.program import LaunchWorld, Program

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
    if execute is not None and (not as_marks or any(map(asks_names, repairs))):
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
    except EnoughWritten:
        # The next round of `--fix` comes to it.
        fix, sure = None, False
    unwritten = (repair.safety or safety[finding.code]) if fix is None and not sure else None
    return replace(finding, fix=fix, unwritten=unwritten)
