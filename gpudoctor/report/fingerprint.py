"""What a service knows a finding by from one run to the next, so that an old one is not shown as new."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from hashlib import sha256

from gpudoctor.diagnostic import Finding
from gpudoctor.report.report import Lines
from gpudoctor.report.repository_root import from_root

_DEFINITION = re.compile(r"\s*(?:async\s+)?(?:def|class)\s+(\w+)")


def fingerprints(findings: Sequence[Finding], lines: Lines, root: str = "") -> list[str]:
    """One for each finding, no two alike.

    It is made of the rule, the file, the definitions around the line and its text, so it outlives lines that are added
    above, other names of ranks in the message, and a change of indentation.
    """
    seen: Counter[tuple[str, ...]] = Counter()
    found = []
    for finding in findings:
        key = _key(finding, lines(finding.location), root)
        # Twins are told apart by their order: services drop the second of two that look alike.
        seen[key] += 1
        found.append(sha256("\0".join((*key, str(seen[key]))).encode("utf-8", "replace")).hexdigest()[:32])
    return found


def _key(finding: Finding, source: Sequence[str], root: str) -> tuple[str, ...]:
    line = finding.location.line
    text = source[line - 1] if 1 <= line <= len(source) else ""
    return finding.code, from_root(finding.location.path, root), ".".join(_around(source, line)), " ".join(text.split())


def _around(source: Sequence[str], line: int) -> Iterator[str]:
    """The names of the functions and classes around a line, innermost first, by their indentation.

    The text is enough: a line of a long string may mislead it, but in the same way each time.
    """
    inside = _indentation(source[line - 1]) if 1 <= line <= len(source) else 0
    for text in reversed(source[: line - 1]):
        if inside == 0:
            return
        if not text.strip() or _indentation(text) >= inside:
            continue
        inside = _indentation(text)
        if definition := _DEFINITION.match(text):
            yield definition[1]


def _indentation(text: str) -> int:
    return len(text) - len(text.lstrip())
