"""`gpudoctor lint --baseline FILE` and `--since REV`: what is left out of the report, and the words about it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpudoctor.cli.output import refuse_bad_target, say
from gpudoctor.cli.settings import Settings
from gpudoctor.errors import UsageError
from gpudoctor.lint.request import Outcome
from gpudoctor.triage import Triage
from gpudoctor.triage.baseline import record_findings


def chooser(settings: Settings) -> Callable[[Outcome], Outcome]:
    """What leaves findings out of the report. What it takes is asked before the work, and fails there."""
    baseline = settings.baseline
    if baseline:
        refuse_bad_target(baseline, "--baseline")
    records = bool(baseline) and (settings.update_baseline or not os.path.exists(baseline))
    with _as_options():
        triage = Triage(settings.request, "" if records else baseline, settings.since)

    def choose(outcome: Outcome) -> Outcome:
        with _as_options():
            if records:
                outcome = _recorded(outcome, settings)
            chosen = triage.chosen(outcome)
        if baseline and not records:
            _tell(chosen, settings)
        return chosen

    return choose


def _recorded(outcome: Outcome, settings: Settings) -> Outcome:
    chosen, number = record_findings(outcome, settings.baseline, settings.request)
    failed = outcome.failures or outcome.problems
    _say(
        settings,
        "not written, because not everything could be looked at"
        if failed
        else f"{_count(number)} recorded, hidden from now on",
    )
    return chosen


def _tell(outcome: Outcome, settings: Settings) -> None:
    if outcome.known:
        _say(settings, f"{_count(len(outcome.known))} known, not shown")
    if outcome.gone:
        _say(settings, f"{_count(outcome.gone)} gone; `--update-baseline` forgets them")


def _count(number: int) -> str:
    return f"{number} finding{'s'[: number != 1]}"


def _say(settings: Settings, text: str) -> None:
    if not settings.quiet:
        say(f"gpudoctor: {settings.baseline}: {text}")


@contextmanager
def _as_options() -> Iterator[None]:
    """Errors name what was asked for by its option."""
    try:
        yield
    except UsageError as error:
        raise UsageError(f"--{error}") from error
