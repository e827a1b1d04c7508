"""Findings get the fixes that their rules have a repair for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Location, Safety
from gpudoctor.lint.fix.make import FileOf, Fixes
from gpudoctor.lint.fix.trying import EnoughTried
from gpudoctor.lint.fix.writing import Sight
from gpudoctor.lint.values.repair import Repair
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.lint.program import Program, World

Execute = Callable[[frozenset[Location]], "list[Program]"]
"""Executes the programs once more, noting what names hold at these places."""


def with_fixes(
    found: Sequence[Sequence[Finding]],
    worlds: Sequence[World],
    execute: Execute | None,
    file_of: FileOf,
    safety: Mapping[str, Safety],
) -> list[list[Finding]]:
    """The findings of one entry in each of its worlds, each with its fix where there is one.

    Without `execute`, only those fixes are written that need no names; of the others it is said that they are not.
    """
    fixes = Fixes(file_of)
    repairs = [each.repair for findings in found for each in findings if isinstance(each.repair, Repair)]
    if not repairs:
        return [list(findings) for findings in found]
    programs: Sequence[Program] = ()
    if execute is not None:
        programs = execute(frozenset(place for repair in repairs for place in fixes.places(repair)))
    seen = {program.world: Sight(program.names_before, program.names_after) for program in programs}
    return [
        [_with_fix(each, fixes, seen.get(world, Sight()), safety, sure=execute is not None) for each in findings]
        for findings, world in zip(found, worlds, strict=True)
    ]


def _with_fix(finding: Finding, fixes: Fixes, sight: Sight, safety: Mapping[str, Safety], *, sure: bool) -> Finding:
    if not isinstance(finding.repair, Repair) or finding.code not in safety:
        return finding
    try:
        fix = fixes.fix(finding.repair, sight, safety[finding.code])
    except EnoughTried:
        # The next round of `--fix` comes to it.
        fix, sure = None, False
    unwritten = (finding.repair.safety or safety[finding.code]) if fix is None and not sure else None
    return replace(finding, fix=fix, unwritten=unwritten)
