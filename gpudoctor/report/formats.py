"""The formats by name, and how a report becomes the text of one. A new format is one file and one line here."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Protocol

    from gpudoctor.report.report import Report
    from gpudoctor.report.text import Style

    class Format(Protocol):
        """What the module of a format defines."""

        def render(self, report: Report, style: Style) -> Iterable[str]:
            """Lines, or pieces of several, written as they are: what comes from a program was made harmless."""


FORMATS = {
    "full": "gpudoctor.report.full",
    "concise": "gpudoctor.report.concise",
    "json": "gpudoctor.report.json",
    "sarif": "gpudoctor.report.sarif",
    "github": "gpudoctor.report.github",
    "gitlab": "gpudoctor.report.gitlab",
    "rdjson": "gpudoctor.report.rdjson",
    "junit": "gpudoctor.report.junit",
}
"""The modules that write them, each imported where it is asked for."""
WITH_EDITS = ("json", "sarif", "rdjson")
"""Formats for machines that carry the edits of fixes."""
_ONLY_FINDINGS = ("full", "concise")
"""They show findings and nothing else; most programs have none, and then even the import would be for nothing."""


def rendered(report: Report, name: str, style: Style) -> str:
    """The report in the format of this name, all of it."""
    if name in _ONLY_FINDINGS and not report.findings:
        return ""
    chosen: Format = import_module(FORMATS[name])
    return "".join(f"{line}\n" for line in chosen.render(report, style))
