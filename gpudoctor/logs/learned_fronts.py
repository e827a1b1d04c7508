"""What collectors of logs, editors and loggers write in front of lines, learned from the log itself.

There are more of them than anybody could list. But each stands also in front of a line of which the begin is known, as
that of a traceback, and what changes from line to line is its numbers.
"""

from __future__ import annotations

import re

_BEGINS = re.compile(
    r"\[rank\d+\]:|Traceback \(most recent call last\)|  File \"[^\"]+\", line \d+, in |Fatal Python error: |"
    r"Root Cause \(first observed failure\)|[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ |srun: error: |"
    r"(?:Current t|T)hread 0x[0-9a-f]+ \(|OMP: Error #\d|subprocess\.CalledProcessError: Command |"
    r"torch\.(?:\w+\.)*\w+Error: |(?<![\w.:-])[\w-][\w.-]*:\d+:\d+ \[\d+\] (?:\S+ )?NCCL |"
    r"ERROR:torch\.distributed\.|\[[EWI] ?\S*(?: \S+)? ?\w+\.cpp:\d+\] "
)
_NO_FRONT = re.compile(r"[A-Za-z_. ]+$| *traceback *: ?$|.*(?:\^C|\\n|%\|.*|\".*)$| *$")
"""Words, which may be the error's name or belong to a sentence; a row of the launcher's table; what a terminal shows of
Ctrl-C; a progress bar; what is quoted, as the call of a traceback; and blanks, which tracebacks have themselves."""
_LONGEST = 200
_MOST = 20
_NUMBER = re.compile(r"\d+")


class LearnedFronts:
    """Of one file."""

    def __init__(self) -> None:
        self._known: list[re.Pattern[str]] = []

    def taken_off(self, text: str) -> str | None:
        """The line behind what stands in front of it, None where nothing does."""
        for known in self._known:
            if found := known.match(text):
                return text[found.end() :]
        begin = _BEGINS.search(text)
        if begin is None or not 0 < begin.start() <= _LONGEST or "\n" in text:
            return None
        front = text[: begin.start()]
        if _NO_FRONT.match(front) and not (front.isspace() and begin[0].startswith("[")):
            return None
        if len(self._known) < _MOST:
            # A number is longer in a later line, with fewer blanks before it.
            of_any = _NUMBER.sub(r"\\d+", re.escape(front.lstrip(" ")))
            self._known.append(re.compile(rf" *{of_any}" if front.strip() else re.escape(front)))
        return text[begin.start() :]
