"""`gpudoctor lint --add-ignores`: comments that silence all that is found now."""

from __future__ import annotations

import os
from collections.abc import Sequence

from gpudoctor.cli.lint_report import report
from gpudoctor.cli.output import say
from gpudoctor.cli.patches import write_patch
from gpudoctor.cli.settings import Settings
from gpudoctor.diagnostic import Finding
from gpudoctor.drafts import remove_drafts
from gpudoctor.errors import GpudoctorError
from gpudoctor.lint.request import Outcome
from gpudoctor.lint.source.atomic_write import write_bytes
from gpudoctor.record import replace
from gpudoctor.triage.ignore_comments import by_file, silenced


def add_ignores(outcome: Outcome, settings: Settings, arguments: Sequence[str]) -> int:
    """Write the comments, or show them; report what they cannot silence."""
    files = by_file(outcome.findings)
    done: list[Finding] = []
    if not settings.diff:
        remove_drafts({os.path.dirname(os.path.realpath(path)) for path in outcome.read})
    for shown, findings in files.items():
        try:
            change = silenced(shown, findings)
            if settings.diff:
                write_patch([change], settings.colour)
            else:
                write_bytes(change.path, change.after, change.digest)
        except GpudoctorError as error:
            say(f"gpudoctor: {error}")
            continue
        done += findings
        if not settings.quiet:
            say(_done(shown, findings, settings.diff))
    left = tuple(finding for finding in outcome.findings if finding not in done)
    ending = report(replace(outcome, findings=left), settings, arguments)
    refused = len(done) < sum(map(len, files.values()))
    return max(ending, 2) if refused else ending


def _done(shown: str, findings: Sequence[Finding], only_shown: bool) -> str:
    codes = sorted({finding.code for finding in findings})
    lines = len({finding.location.start for finding in findings})
    return (
        f"{shown}: {'would silence' if only_shown else 'silenced'} {' '.join(codes)} on {lines} line{'s'[: lines > 1]}"
    )
