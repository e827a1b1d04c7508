"""The table that torch's launcher prints of the processes that failed, the first one at its end."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.logs.log_facts import LogPlace, ProcessExit
from gpudoctor.logs.speakers import Speaker
from gpudoctor.logs.tracebacks import BEGIN

_MEMBER = re.compile(r"(?:\s+|(?=[\w ]{10}: ))(?P<name>time|host|rank|exitcode|error_file|traceback)\s*: (?P<value>.*)")
"""Names are as wide as the longest one, which tells them where somebody has taken the blanks away."""
_RANK = re.compile(r"(?P<rank>\d+)(?: \(local_rank: (?P<local>\d+)\))?")
_CUT_OFF = re.compile(r"\s*rank\s+: \d+ \(local_rank: \d+\)\s*$")
_CODE = re.compile(r"-?\d+")
_INDENT = "  "


class SummaryReader:
    """Follows the tables of one file.

    Where the program is decorated with `@record`, a table holds the traceback of each process, indented: `by` is whose
    it is while its lines come.
    """

    def __init__(self) -> None:
        self._told: dict[str, str] = {}
        self._at: LogPlace | None = None
        self._root = False
        self.by: Speaker | None = None

    def feed(self, text: str, at: LogPlace) -> Iterator[ProcessExit]:
        """One line; the process that is complete with it."""
        found = _MEMBER.match(text)
        if found is not None and found["name"] == "time":
            yield from self.closed()
            self._at = at
        elif found is not None and self._at is None and _CUT_OFF.match(text):
            # What stood before is not in the log.
            self._at = at
        if found is not None and self._at is not None:
            self._told[found["name"]] = found["value"].strip()
            if BEGIN in found["value"]:
                self.by = self._speaker()
        elif self.by is not None and not text.startswith(_INDENT):
            self.by = None
        if "Root Cause (first observed failure)" in text:
            yield from self.closed()
            self._root = True

    def indented(self, text: str) -> str:
        """A line of a traceback as the process would have printed it."""
        member = _MEMBER.match(text)
        return member["value"] if member else text.removeprefix(_INDENT)

    def closed(self) -> Iterator[ProcessExit]:
        """The process whose members have been read."""
        by, found, at = self._speaker(), _CODE.match(self._told.get("exitcode", "")), self._at
        time = self._told.get("time", "")
        self._told, self._at, self.by = {}, None, None
        if by is not None and at is not None:
            root, self._root = self._root, False
            code = int(found[0]) if found else None
            yield ProcessExit(by, at, code, max(0, -(code or 0)), time, root)

    def _speaker(self) -> Speaker | None:
        rank = _RANK.match(self._told.get("rank", ""))
        if rank is None:
            return None
        local = int(rank["local"]) if rank["local"] else None
        return Speaker(int(rank["rank"]), local, self._told.get("host", ""))
