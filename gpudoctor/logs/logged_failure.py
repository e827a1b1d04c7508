"""How one process failed, as a log tells it."""

from __future__ import annotations

import re
from datetime import datetime

from gpudoctor.logs.endings import VAGUE, meaning_of_end
from gpudoctor.logs.error_texts import meaning_by_kind
from gpudoctor.logs.error_texts.collective_prints import without_devices
from gpudoctor.logs.error_texts.error_text import ErrorText, FailureRole
from gpudoctor.logs.log_facts import LoggedFrame, LogPlace
from gpudoctor.logs.speakers import Speaker
from gpudoctor.record import dataclass

_LONGEST = 300
RAISED = "exit code 1"
"""How Python ends after an error."""
_A_LOOK = 10
"""Seconds."""


@dataclass(frozen=True)
class LoggedFailure:
    """How one process failed: the line that says so, where its own code was, and what the text means.

    `exit`: only a launcher says that it ended. `root`: the launcher saw it end before the others, at `time`. `cut`: its
    error is not in the log, or Python went on after it. `headless`: the last of its calls stand above it, and the first
    do not. `library` raised it, where it was not the program's own code.
    """

    by: Speaker
    at: LogPlace
    text: str
    role: FailureRole
    meaning: ErrorText | None = None
    place: LoggedFrame | None = None
    time: str = ""
    root: bool = False
    exit: bool = False
    cut: bool = False
    headless: bool = False
    library: str = ""

    @property
    def explained(self) -> ErrorText | None:
        """What it means, or at least what its kind says."""
        return self.meaning or meaning_of_end(self.text, exit=self.exit) or meaning_by_kind(self.text)

    @property
    def summary(self) -> str:
        """Its first line that says something."""
        text = without_devices(self.text)
        line = next((line.strip() for line in text.splitlines() if line.strip(" :")), "")
        return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."

    @property
    def kind(self) -> str:
        """What it says without its numbers: a pid, a GPU or bytes differ between processes that fail alike."""
        return re.sub(r"\d+", "0", self.summary)

    @property
    def process(self) -> tuple[str, object]:
        """What tells its process from others."""
        if self.by.rank is not None:
            return "rank", self.by.rank
        return ("local", self.by.local_rank) if self.by.local_rank is not None else ("tag", (self.by.host, self.by.tag))

    @property
    def tells_why(self) -> bool:
        """It tells what was wrong where others only say that NCCL failed."""
        return self.meaning is not None and self.meaning.library == "nccl" and self.meaning not in VAGUE

    def is_of_process(self, other: LoggedFailure) -> bool:
        """One process may have failed in both ways."""
        return self.process == other.process or not other.by.is_known

    def stands_before(self, other: LoggedFailure) -> bool:
        """In one file, so that the order says something."""
        return self.at.path == other.at.path and self.at.order < other.at.order

    def waits_like(self, other: LoggedFailure) -> bool:
        """Both waited for the same."""
        return self.role is FailureRole.WAIT and self.meaning is not None and self.meaning is other.meaning

    def is_like(self, other: LoggedFailure | None) -> bool:
        """The same error at the same line, in another process."""
        if other is None:
            return False
        if self.exit and other.exit and self.text == other.text == RAISED and self.time != other.time:
            # One that ended later may have lost the first.
            return False
        if self.place and other.place and self.place.line == other.place.line and self.place.path == other.place.path:
            return self.kind == other.kind
        if not (self.place is other.place is None and self.role is other.role and _at_once(self.time, other.time)):
            return False
        return self.kind == other.kind or self.waits_like(other)


def may_have_local_rank(by: Speaker, local: int) -> bool:
    """The rank has this local rank on nodes of some size."""
    rank = by.rank or 0
    return local in (by.local_rank, rank) or any(rank % size == local for size in range(local + 1, rank + 1))


def _at_once(one: str, other: str) -> bool:
    """As launchers write it. What is more apart than a launcher takes to look at all its processes, is not one end."""
    try:
        apart = datetime.fromisoformat(one.replace("_", "T")) - datetime.fromisoformat(other.replace("_", "T"))
    except ValueError:
        return True
    return abs(apart.total_seconds()) <= _A_LOOK
