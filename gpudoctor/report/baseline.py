"""A baseline: the findings that a project knows already, in a file that outlives moved lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING

from gpudoctor.plain import PlainError, from_plain, plain
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Finding

VERSION = 1


@dataclass(frozen=True)
class Known:
    """A finding that is known: by its fingerprint; the rest tells a reader which one it is."""

    fingerprint: str
    code: str
    path: str
    message: str = ""


def known_by(findings: Iterable[Finding], prints: Iterable[str]) -> list[Known]:
    """What is to be remembered of findings, each with its fingerprint."""
    return [
        Known(known, finding.code, finding.location.path, finding.message)
        for finding, known in zip(findings, prints, strict=True)
    ]


def render(known: Iterable[Known]) -> str:
    """The text of a baseline: one line for each finding, so that two branches can be merged."""
    rows = {each.fingerprint: each for each in known}.values()
    rows_in_order = sorted(rows, key=lambda each: (each.path, each.code, each.fingerprint))
    lines = ",".join(f"\n    {json.dumps(plain(each), ensure_ascii=False)}" for each in rows_in_order)
    findings = f"[{lines}\n  ]" if lines else "[]"
    return f'{{\n  "gpudoctor-baseline": {VERSION},\n  "findings": {findings}\n}}\n'


def read(text: str) -> list[Known]:
    """The findings of a baseline; a ValueError says why a text is none."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError("this is no JSON; `--update-baseline` writes it anew") from error
    version = document.get("gpudoctor-baseline") if isinstance(document, dict) else None
    if version is None:
        raise ValueError("this is no baseline of gpudoctor; name a file of its own")
    if version != VERSION:
        raise ValueError("it is of another version; `--update-baseline` writes it anew")
    try:
        return list(from_plain(tuple[Known, ...], document.get("findings")))
    except PlainError as error:
        raise ValueError("its list of findings is damaged; `--update-baseline` writes it anew") from error
