"""`gpudoctor lint --baseline FILE`: what is known already is not reported again."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpudoctor.cli.output import refuse_bad_target, say, write_file
from gpudoctor.errors import UsageError
from gpudoctor.record import replace
from gpudoctor.report.baseline import Known, known_by, read, render
from gpudoctor.report.fingerprint import fingerprints
from gpudoctor.report.repository_root import from_root

if TYPE_CHECKING:
    from gpudoctor.cli.settings import Settings
    from gpudoctor.lint.request import Outcome

_OPTION = "--baseline"
MAX_BYTES = 16 * 1024 * 1024
"""Fifty thousand findings."""


def refuse_bad_baseline(settings: Settings) -> None:
    """Fail before the work rather than after it."""
    refuse_bad_target(settings.baseline, _OPTION)
    if os.path.exists(settings.baseline) and not settings.update_baseline:
        _recorded(settings)


def without_known(outcome: Outcome, settings: Settings) -> Outcome:
    """The outcome without the findings that the baseline holds; the first run, or one that is to, records them."""
    # Fingerprints hold paths: from the folder of the baseline, so that one may work in any other.
    root = os.path.dirname(os.path.abspath(settings.baseline))
    prints = fingerprints(outcome.findings, outcome.lines, root)
    first = not os.path.exists(settings.baseline)
    if first or settings.update_baseline:
        if outcome.failures or outcome.problems:
            _say(settings, f"{settings.baseline}: not written, because not everything could be looked at")
            return outcome
        now = [replace(each, path=from_root(each.path, root)) for each in known_by(outcome.findings, prints)]
        kept = [] if first else _of_others(_recorded(settings, damaged=True), outcome, settings, root)
        text = render([*now, *kept])
        if len(text.encode()) > MAX_BYTES:
            raise UsageError(f"{_OPTION}: {_count(len(now) + len(kept))} are more than a baseline holds; lint less")
        write_file(settings.baseline, text, _OPTION)
        _say(settings, f"{settings.baseline}: {_count(len(now) + len(kept))} recorded, hidden from now on")
        return replace(outcome, findings=())
    known = {each.fingerprint for each in _recorded(settings)}
    new = tuple(each for each, print_ in zip(outcome.findings, prints, strict=True) if print_ not in known)
    gone = known - set(prints) - {each.fingerprint for each in _of_others(_recorded(settings), outcome, settings, root)}
    if len(new) < len(outcome.findings):
        _say(settings, f"{settings.baseline}: {_count(len(outcome.findings) - len(new))} known, not shown")
    if gone:
        _say(settings, f"{settings.baseline}: {_count(len(gone))} gone; `--update-baseline` forgets them")
    return replace(outcome, findings=new)


def _of_others(known: list[Known], outcome: Outcome, settings: Settings, root: str) -> list[Known]:
    """What this run says nothing about: files that it did not read and that are still there, rules that did not run."""
    read_now = {from_root(path, root) for path in outcome.read}
    rules = {card.code for card in settings.request.rules}
    return [
        each
        for each in known
        if (each.path not in read_now or each.code not in rules) and os.path.exists(os.path.join(root, each.path))
    ]


def _recorded(settings: Settings, damaged: bool = False) -> list[Known]:
    """What the file holds; nothing where it is `damaged` and to be written anew."""
    name = settings.baseline
    try:
        with open(name, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"{_OPTION} {name}: cannot be read: {why}") from error
    if len(raw) > MAX_BYTES:
        raise UsageError(f"{_OPTION} {name}: it is larger than {MAX_BYTES // 1024**2} MiB, so it is no baseline")
    try:
        return read(text)
    except ValueError as error:
        # It was a baseline once: nothing else is ever overwritten.
        if damaged and '"gpudoctor-baseline"' in text[:200]:
            return []
        raise UsageError(f"{_OPTION} {name}: {error}") from error


def _count(number: int) -> str:
    return f"{number} finding{'s'[: number != 1]}"


def _say(settings: Settings, text: str) -> None:
    if not settings.quiet:
        say(f"gpudoctor: {text}")
