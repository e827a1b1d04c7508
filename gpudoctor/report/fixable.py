"""The line that says how much of what was found need not be fixed by hand."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.diagnostic import Finding, Safety
from gpudoctor.report.story import FIXABLE, PERHAPS

_OPTIONS = {Safety.SAFE: "`--fix`", Safety.UNSAFE: "`--fix --unsafe-fixes`"}


def fixable(findings: Iterable[Finding], *, unsafe: bool = False) -> str:
    """How many findings have fixes, with the marks that they bear; empty where there are none. With `unsafe`,
    `--fix` makes those that are unsafe as well."""
    every = list(findings)
    told: list[str] = []
    number_of = {
        safety: sum(each.fix is not None and each.fix.safety is safety for each in every) for safety in FIXABLE
    }
    if unsafe and all(number_of.values()):
        told.append(f"{' '.join(FIXABLE.values())} {sum(number_of.values())} fixable with {_OPTIONS[Safety.SAFE]}")
        number_of = {}
    for safety, number in number_of.items():
        if number:
            more = "more " if told else ""
            told.append(f"{FIXABLE[safety]} {number} {more}fixable with {_OPTIONS[Safety.SAFE if unsafe else safety]}")
    # Of a large program a fix is written only where it is asked for, and some once another one is made.
    number = sum(each.fix is None and each.unwritten is not None for each in every)
    if number:
        asked = not unsafe and any(each.unwritten is Safety.UNSAFE for each in every)
        more = "more" if told else "fixable"
        told.append(f"{PERHAPS} up to {number} {more}: `--diff{' --unsafe-fixes' if asked else ''}` shows which")
    return f"{', '.join(told)}." if told else ""
