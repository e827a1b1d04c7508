"""What the rules say of the launch files of a request."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.lint.entries.ask_rules import Failures
from gpudoctor.lint.launchfiles.launched import Launched
from gpudoctor.lint.runtime.entry_result import EntryResult
from gpudoctor.record import replace
from gpudoctor.registry import load

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Finding
    from gpudoctor.lint.request import Request


def judged_launches(launched: Launched, examined: Sequence[EntryResult], request: Request) -> list[EntryResult]:
    """What the rules about launching say, by file."""
    facts = {os.path.realpath(each.shown): each.facts for each in examined if each.facts is not None}
    launched = replace(launched, facts=facts)
    failures = Failures()
    findings = list(_findings(launched, request, failures))
    results = []
    for file in launched.files:
        own = tuple(each for each in findings if each.location.path == file.shown)
        program = file.path.endswith((".py", ".ipynb"))
        speaks = program or any("gpudoctor" in each.text or "noqa" in each.text for each in file.comments)
        results.append(EntryResult(file.shown, findings=own, files=frozenset({file.shown}), commented=speaks))
    if failures.seen and results:
        results[0] = replace(results[0], failures=tuple(failures.seen), partly=True)
    return results


def _findings(launched: Launched, request: Request, failures: Failures) -> Iterator[Finding]:
    for card in request.rules:
        if card.of_launch:
            found: list[Finding] = []
            with failures.of(f"rule {card.code} ({card.module}) on launch files"):
                found += load(card).in_launch(launched)
            for each in found:
                # Whoever only looks is told that there is a fix.
                if each.fix is not None and not request.fixes:
                    each = replace(each, fix=replace(each.fix, edits=()))
                yield each
