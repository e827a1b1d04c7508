"""A baseline: the findings that a project knows already, in a file that outlives moved lines."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterable, Sequence

from gpudoctor.drafts import replace_file
from gpudoctor.errors import UsageError
from gpudoctor.lint.request import Outcome, Request
from gpudoctor.plain import PlainError, from_plain, plain
from gpudoctor.record import dataclass, replace
from gpudoctor.report.fingerprint import fingerprints
from gpudoctor.report.repository_root import from_root

VERSION = 1
MAX_BYTES = 16 * 1024 * 1024
"""Fifty thousand findings."""

_updating = threading.Lock()
"""Two threads that record each what it has linted lose nothing of the other's."""


@dataclass(frozen=True)
class Known:
    """A finding that is known: by its fingerprint; the rest tells a reader which one it is."""

    fingerprint: str
    code: str
    path: str
    message: str = ""


def read_baseline(path: str) -> tuple[Known, ...]:
    """What the file at `path` holds."""
    return _parsed(_text_of(path), path)


def without_known(outcome: Outcome, known: Sequence[Known], path: str, request: Request) -> Outcome:
    """The outcome without the findings that the baseline at `path` holds."""
    root = _root(path)
    prints = fingerprints(outcome.findings, outcome.lines, root)
    numbers = {each.fingerprint for each in known}
    pairs = list(zip(outcome.findings, prints, strict=True))
    gone = numbers - set(prints) - {each.fingerprint for each in _of_others(known, outcome, request, root)}
    return replace(
        outcome,
        findings=tuple(finding for finding, number in pairs if number not in numbers),
        known=tuple(finding for finding, number in pairs if number in numbers),
        gone=len(gone),
    )


def record_findings(outcome: Outcome, path: str, request: Request) -> tuple[Outcome, int]:
    """Write what was found to the baseline at `path`; the outcome, in which all is known now, and how many findings the
    file holds. What it knew of other files and rules stays. Where not everything could be looked at, nothing is written
    and nothing known."""
    if outcome.failures or outcome.problems:
        return outcome, 0
    root = _root(path)
    prints = fingerprints(outcome.findings, outcome.lines, root)
    now = [
        Known(number, finding.code, from_root(finding.location.path, root), finding.message)
        for finding, number in zip(outcome.findings, prints, strict=True)
    ]
    with _updating:
        kept = _of_others(_recorded(path), outcome, request, root) if os.path.exists(path) else []
        _write(path, [*now, *kept])
    return replace(outcome, findings=(), known=outcome.findings), len(now) + len(kept)


def _root(path: str) -> str:
    """What paths count from: the folder of the baseline, so that one may work in any other."""
    return os.path.dirname(os.path.abspath(path))


def _of_others(known: Iterable[Known], outcome: Outcome, request: Request, root: str) -> list[Known]:
    """What this lint says nothing of: files that are there and that it did not read, rules that did not run."""
    read_now = {from_root(path, root) for path in outcome.read}
    rules = {card.code for card in request.rules}
    return [
        each
        for each in known
        if (each.path not in read_now or each.code not in rules) and os.path.exists(os.path.join(root, each.path))
    ]


def _recorded(path: str) -> tuple[Known, ...]:
    """What a file holds that is to be written anew; nothing where it is damaged."""
    text = _text_of(path)
    try:
        return _parsed(text, path)
    except UsageError:
        # It was a baseline once: nothing else is ever overwritten.
        if '"gpudoctor-baseline"' in text[:200]:
            return ()
        raise


def _text_of(path: str) -> str:
    try:
        with open(path, "rb") as file:
            raw = file.read(MAX_BYTES + 1)
        text = raw.decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise UsageError(f"baseline {path}: cannot be read: {why}") from error
    if len(raw) > MAX_BYTES:
        raise UsageError(f"baseline {path}: it is larger than {MAX_BYTES // 1024**2} MiB, so it is not a baseline")
    return text


def _parsed(text: str, path: str) -> tuple[Known, ...]:
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"baseline {path}: this is not JSON; `--update-baseline` rewrites it") from error
    version = document.get("gpudoctor-baseline") if isinstance(document, dict) else None
    if version is None:
        raise UsageError(f"baseline {path}: this is not a baseline of gpudoctor; name another file")
    if version != VERSION:
        raise UsageError(f"baseline {path}: it is of another version; `--update-baseline` rewrites it")
    try:
        return from_plain(tuple[Known, ...], document.get("findings"))
    except PlainError as error:
        raise UsageError(
            f"baseline {path}: its list of findings is damaged; `--update-baseline` rewrites it"
        ) from error


def _write(path: str, known: Iterable[Known]) -> None:
    """One line for each finding, so that two branches can be merged."""
    rows = {each.fingerprint: each for each in known}.values()
    rows_in_order = sorted(rows, key=lambda each: (each.path, each.code, each.fingerprint))
    lines = ",".join(f"\n    {json.dumps(plain(each), ensure_ascii=False)}" for each in rows_in_order)
    findings = f"[{lines}\n  ]" if lines else "[]"
    data = f'{{\n  "gpudoctor-baseline": {VERSION},\n  "findings": {findings}\n}}\n'.encode()
    if len(data) > MAX_BYTES:
        number = f"{len(rows)} finding{'s'[: len(rows) != 1]}"
        raise UsageError(f"baseline {path}: {number} are more than a baseline holds; lint less")
    try:
        replace_file(os.path.realpath(path), data)
    except OSError as error:
        raise UsageError(f"baseline {path}: cannot be written: {error.strerror}") from error
