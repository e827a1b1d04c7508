"""One line a finding, for editors, logs and `grep`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from gpudoctor.visible import visible

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Finding
    from gpudoctor.report.text import Style


def render(findings: Iterable[Finding], style: Style) -> Iterator[str]:
    """`path:line:column: code [name] severity: message`."""
    for finding in findings:
        severity = style.paint(finding.severity.value, finding.severity.value)
        message = visible(finding.message)
        yield f"{finding.location}: {style.paint(finding.code, 'bold')} [{finding.name}] {severity}: {message}"
