"""The report of `gpudoctor run` at the end of a log: it has asked each rank where it was while all stood still."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.logs.log_facts import LoggedFrame, LogPlace, Standstill
from gpudoctor.logs.speakers import Speaker

BEGIN = "gpudoctor run"
_FINDING = re.compile(r"(?P<path>\S.*?):(?P<line>\d+):\d+: \w+: (?P<code>[A-Z]+\d+) [a-z-]+$")
_WAITS = re.compile(r"Rank (?P<rank>\d+) wait(?:s|ed) in .*?(?: at (?P<path>\S+):(?P<line>\d+)|[.:]$|[.:] )")
_NO_RULE = "The ranks did not advance"


class RunReportReader:
    """Reads what stands behind the first line of the report: paragraphs, of which one is about ranks that wait."""

    def __init__(self) -> None:
        self._begun = False
        self._about: re.Match[str] | None = None
        self._at: LogPlace | None = None
        self._lines: list[str] = []

    @property
    def busy(self) -> bool:
        """The report has begun."""
        return self._begun

    def feed(self, text: str, at: LogPlace) -> Iterator[Standstill]:
        """One line; what is told of ranks that wait is complete with the end of its paragraph."""
        if text == BEGIN:
            self._begun = True
        elif not self._begun:
            return
        elif found := _FINDING.match(text):
            self._about, self._lines = found, []
        elif text.startswith("  ") and text.strip():
            self._at = self._at if self._lines else at
            self._lines.append(text.strip())
        elif self._lines:
            yield from self._closed()

    def _closed(self) -> Iterator[Standstill]:
        told, about = " ".join(self._lines), self._about
        self._lines, self._about = [], None
        found = _WAITS.match(told)
        if found is None or self._at is None or not (about or _NO_RULE in told):
            return
        named = about or found
        place = LoggedFrame(named["path"], int(named["line"]), "") if named["path"] else None
        yield Standstill(Speaker(rank=int(found["rank"])), self._at, about["code"] if about else "", told, place)
