"""How often each rule has found something."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Count:
    """A rule, the worst severity of what it has found, and how often it has."""

    code: str
    name: str
    severity: Severity
    count: int


def counts(findings: Iterable[Finding]) -> list[Count]:
    """The rules that have found something, the most frequent first."""
    groups: dict[str, list[Finding]] = {}
    for finding in findings:
        groups.setdefault(finding.code, []).append(finding)
    found = [Count(code, group[0].name, _worst(group), len(group)) for code, group in groups.items()]
    return sorted(found, key=lambda each: (-each.count, each.code))


def table(found: Sequence[Count]) -> Iterator[str]:
    """A line for each rule: how often, its code, its severity, its name."""
    room = len(str(found[0].count)) if found else 0
    for each in found:
        yield f"{each.count:>{room}}  {each.code}  {each.severity.value:<7}  {each.name}"


def _worst(group: Sequence[Finding]) -> Severity:
    return max((finding.severity for finding in group), key=lambda severity: severity.weight)
