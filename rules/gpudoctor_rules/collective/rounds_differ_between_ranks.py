"""SCAFFOLD: one sentence that names the offence.

## What goes wrong

SCAFFOLD: what happens when the program runs, with the exact error text of PyTorch where there is one.

## Fix

SCAFFOLD: what to write instead, and what that changes.

## Silent when

SCAFFOLD: the cases that look like this and are fine.

## Sources

SCAFFOLD: addresses or issues that show it, such as pytorch/pytorch#31771.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.rule import Rule

if TYPE_CHECKING:
    from gpudoctor.lint.program import Program


class RoundsDifferBetweenRanks(Rule):
    code = "GPU517"
    name = "rounds-differ-between-ranks"
    severity = Severity.WARNING
    since = "0.1"
    needs = ()  # SCAFFOLD: the events without which there is nothing to say, as (Wrap,)

    def in_code(self, program: Program) -> Iterator[Finding]:
        # SCAFFOLD: ask `program`, and for each mistake
        # yield self.found(at=event.location, message="what happens, on which rank", remedy="what to write instead")
        yield from ()
