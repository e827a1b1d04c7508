"""One line a finding, for editors, logs and `grep`."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.report.full import painted_head
from gpudoctor.report.report import Report
from gpudoctor.report.text import Style, harmless
from gpudoctor.visible import visible


def render(report: Report, style: Style) -> Iterator[str]:
    """`path:line:column: severity: code name: message`, which begins as compilers do, and as the full report does."""
    for finding in report.findings:
        yield harmless(f"{painted_head(finding, style)}: {visible(finding.message)}")
