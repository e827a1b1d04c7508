"""A report from the JSON that an earlier probe wrote, with a word on the first place where it is no such thing."""

from __future__ import annotations

from gpudoctor.errors import UsageError
from gpudoctor.plain import PlainError, from_plain
from gpudoctor.probe.report_json import read_document
from gpudoctor.probe.results import ProbeReport


def read_report(path: str) -> ProbeReport:
    """The report in this file.

    Raises UsageError, which names the file and what is wrong, where it is no output of a probe.
    """
    try:
        return from_plain(ProbeReport, read_document(path))
    except PlainError as wrong:
        raise UsageError(f"{path}: is not the output of `gpudoctor probe --output-format json`: {wrong}") from None
