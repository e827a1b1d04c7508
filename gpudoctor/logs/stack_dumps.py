"""Where processes stood, as faulthandler and py-spy print it: when Python is killed, after a time, or when asked."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpudoctor.logs.log_facts import TOOLS, LogFact, LoggedCrash, LoggedFrame, LogPlace, StackDump
from gpudoctor.logs.speakers import Speaker
from gpudoctor.record import replace

_FATAL = re.compile(r"Fatal Python error: (?P<why>.+)")
_PROCESS = re.compile(r"Process (?P<pid>\d+): |Timeout \([\d:.]+\)!")
"""The first line of py-spy, and of faulthandler's `dump_traceback_later`."""
_THREAD = re.compile(
    r"(?P<current>Current t|T)hread 0x[0-9a-f]+ (?:\[(?P<named>[^\]]*)\] )?\(most recent call first\):|"
    r"(?:Thread|Stack) (?:0x)?[0-9a-fA-F]+ \((?:active|idle)[^)]*\)(?:: \"(?P<name>[^\"]*)\")?"
)
_FRAME = re.compile(
    r'  File "(?P<file>[^"]+)", line (?P<at>\d+) in (?P<within>.+)|'
    r"    (?P<function>[\w.<>]+) \((?P<path>[^()]+):(?P<line>\d+)\)"
)


class _OpenStack:
    def __init__(self, by: Speaker, at: LogPlace, thread: str, current: bool) -> None:
        self.by = by
        self.at = at
        self.thread = thread
        self.current = current
        self.frames: list[LoggedFrame] = []


class StackDumpReader:
    """Follows the dumps of all speakers of one file."""

    def __init__(self) -> None:
        self._open: dict[Speaker, _OpenStack] = {}
        self._fatal: dict[Speaker, tuple[LogPlace, str]] = {}
        self._threads: dict[Speaker, list[_OpenStack]] = {}
        self._tag = ""
        self._begun = 0

    @property
    def busy(self) -> bool:
        """A stack is open, or will come."""
        return bool(self._open or self._fatal)

    def feed(self, by: Speaker, text: str, at: LogPlace) -> Iterator[LogFact]:
        """One line; what is complete with it."""
        if found := _FATAL.search(text):
            self._fatal[by] = (at, found["why"].rstrip())
            self._threads[by] = []
        elif found := _PROCESS.match(text):
            self._begun += 1
            self._tag = f"process {found['pid']}" if found["pid"] else f"dump {self._begun}"
        elif found := _THREAD.search(text):
            yield from self._closed(by)
            who = by if by.is_known or by.tag or not self._tag else replace(by, tag=self._tag)
            thread = found["name"] or found["named"] or ""
            self._open[by] = _OpenStack(who, at, thread, (found["current"] or "").startswith("C"))
        elif by in self._open:
            if found := _FRAME.match(text):
                self._open[by].frames.append(_frame(found))
            else:
                yield from self._closed(by)

    def end(self) -> Iterator[LogFact]:
        """What was open when the file ended."""
        for by in list(self._open):
            yield from self._closed(by)
        for by, (at, why) in self._fatal.items():
            # Of a log that ends before, the only thread that it has is the one.
            frames = self._threads[by][0].frames if len(self._threads[by]) == 1 else []
            yield LoggedCrash(by, at, "Fatal Python error", why, tuple(reversed(frames)))
        self._fatal.clear()

    def _closed(self, by: Speaker) -> Iterator[LogFact]:
        stack = self._open.pop(by, None)
        if stack is None or not stack.frames:
            return
        fatal = self._fatal.get(by)
        if fatal is None:
            yield StackDump(stack.by, stack.at, stack.thread, tuple(stack.frames))
        elif stack.current or stack.frames[-1].function == "<module>":
            # The thread in which it happened, or, where none is told, the one in which the program runs.
            del self._fatal[by]
            yield LoggedCrash(by, fatal[0], "Fatal Python error", fatal[1], tuple(reversed(stack.frames)))
        else:
            self._threads[by].append(stack)


def _frame(found: re.Match[str]) -> LoggedFrame:
    if found["file"]:
        return LoggedFrame(found["file"], int(found["at"]), found["within"].strip())
    # py-spy shows files from the folder of packages on, or from that of the program.
    path = found["path"]
    path = f"site-packages/{path}" if path.partition("/")[0] in TOOLS else path
    return LoggedFrame(path, int(found["line"]), found["function"])
