"""From lines to facts. Most lines of a log say nothing to us, and are passed over by one search."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from gpudoctor.logs.launcher_summary import SummaryReader
from gpudoctor.logs.lines import lines_of
from gpudoctor.logs.log_facts import (
    CollectiveStack,
    GroupProgress,
    LogFact,
    LoggedFrame,
    LogPlace,
    Notice,
    ProcessExit,
    Timeout,
)
from gpudoctor.logs.speakers import Said, Speaker, said, speaker_of
from gpudoctor.logs.tracebacks import BEGIN, TracebackReader
from gpudoctor.record import replace

_TELLING = re.compile(
    "|".join(
        (
            r"Traceback \(most recent",
            r"-- Process \d",
            r"Watchdog caught",
            r"watchdog got stuck",
            r"[Ll]ast enqueued",
            r"Stack trace of the failed",
            r"^#\d+ ",
            r"Root Cause",
            r"^\s+(?:time|host|rank|exitcode|traceback)\s*: ",
            r"failed \(exitcode",
            r"exits with return code",
            r"NCCL WARN",
            r"slurmstepd",
            r"srun: error",
            r"Out of memory: Killed",
            r"oom-kill",
            r"oom_kill",
            r"NVRM: Xid",
            r"Heartbeat monitor timed out",
            r"terminate called after",
            r"^\s+what\(\):",
            r"Segmentation fault",
            r"Bus error",
            r"OOMKilled",
            r"lagging/dead/mismatched",
            r"joined but didn't finish",
            r"but didn't join",
            r"CANCELLED AT",
            r"Detected mismatch between collectives",
            r"Duplicate GPU detected",
            r"Exited with exit code",
            r"terminated with signal",
            r"failed to pass monitoredBarrier",
            r"NCCL error",
            # The last line of a traceback is all that some logs keep of one.
            r"^[^\s=]*(?:Error|Exception): ",
        )
    )
)
_WORDS = tuple(
    word.encode()
    for word in (
        "Traceback",
        "-- Process",
        "atchdog",
        "ast enqueued",
        "Stack trace",
        "Root Cause",
        "exitcode",
        "return code",
        "NCCL",
        "slurm",
        "srun",
        "Out of memory",
        "oom",
        "OOM",
        "Xid",
        "Heartbeat",
        "terminate",
        "what():",
        "fault",
        "Bus error",
        "didn't",
        "CANCELLED",
        "mismatch",
        "Duplicate",
        "Exited",
        "monitoredBarrier",
        "Error: ",
        "Exception: ",
    )
)
"""In each line that `_TELLING` finds is one of these: looked for in whole stretches of a file."""
_CPP_RANK = re.compile(r"\[(?:PG (?:ID )?\S+(?: PG GUID [^\]]*?)?(?:\s?\([^)]*\))? )?Rank (?P<rank>\d+)\]")
_TIMEOUT = re.compile(
    r"Watchdog caught collective operation timeout: WorkNCCL\((?:SeqNum=(?P<number>\d+), )?OpType=(?P<operation>\w+)"
    r"(?:, NumelIn=(?P<elements>\d+))?.*?Timeout\(ms\)=(?P<allowed>\d+)"
)
_PROGRESS = re.compile(
    r"\[PG (?:ID )?(?P<group>\S+?)(?: PG GUID [^\]]*?)?(?:\s?\([^)]*\))? Rank (?P<rank>\d+)\].*?"
    r"(?:(?:work|NCCL work|work sequence id): (?P<failed>\d+)\b.*?)?"
    r"last enqueued (?:NCCL )?work: (?P<enqueued>-?\d+), last completed (?:NCCL )?work: (?P<completed>-?\d+)",
    re.IGNORECASE,
)
_STACK_FRAME = re.compile(r"#\d+ (?P<function>\S+) from (?P<path>.+):(?P<line>\d+)$")
_FAILED = re.compile(
    r"(?:failed \(exitcode: (?P<code>-?\d+)\) local_rank: (?P<local>\d+)|"
    r"exits with return code = (?P<killed>-?\d+)|"
    r"task (?P<task>\d+): (?:Exited with exit code (?P<exit>\d+)|"
    r"(?P<why>Out Of Memory|Killed|Segmentation fault|Bus error|Aborted)))"
)
_FOLLOWING = 400
"""Lines after the begin of a traceback that are looked at."""
_SIGNALS = {"Out Of Memory": 9, "Killed": 9, "Segmentation fault": 11, "Bus error": 7, "Aborted": 6}


class LogReader:
    """Reads one file."""

    def __init__(self, path: str, order: int = 0) -> None:
        self._path = path
        self._file = speaker_of(path)
        self._order = order
        self._tracebacks = TracebackReader()
        self._summary = SummaryReader()
        self._stack: tuple[Speaker, LogPlace, list[LoggedFrame]] | None = None
        self.lines = 0

    def facts(self) -> Iterator[LogFact]:
        """All that it says, in its order."""
        following = 0
        for line in lines_of(self._path, _WORDS):
            self.lines = line.number
            self._order += 1
            tells = _TELLING.search(line.text) is not None
            if not following and not tells and self._stack is None:
                continue
            # A traceback is some lines long, and several processes may write at once.
            following = _FOLLOWING if BEGIN in line.text else max(0, following - 1)
            spoken = said(line.text, self._file)
            at = LogPlace(line.path, line.number, self._order, spoken.at)
            yield from self._summary.feed(spoken.text, at)
            if self._summary.by is not None:
                spoken = Said(self._summary.by, self._summary.indented(spoken.text))
            if tells or self._tracebacks.follows(spoken.by):
                yield from self._tracebacks.feed(spoken.by, spoken.text, at)
            yield from self._other(spoken, at)
        yield from self._tracebacks.end()
        yield from self._stack_closed()
        yield from self._summary.closed()

    def _other(self, spoken: Said, at: LogPlace) -> Iterator[LogFact]:
        text = spoken.text
        if self._stack is not None:
            if found := _STACK_FRAME.match(text.strip()):
                self._stack[2].append(LoggedFrame(found["path"], int(found["line"]), found["function"]))
                return
            yield from self._stack_closed()
        if (ranked := _CPP_RANK.search(text)) is not None:
            spoken = replace(spoken, by=replace(spoken.by, rank=int(ranked["rank"])))
        for read in _READERS:
            if (fact := read(spoken, at)) is not None:
                yield fact
                return
        if "Stack trace of the failed collective:" in text:
            self._stack = (spoken.by, at, [])
        elif _NOTICE.search(text) or _ERROR_LINE.match(text):
            yield Notice(spoken.by, at, text.strip())

    def _stack_closed(self) -> Iterator[LogFact]:
        if self._stack is not None and self._stack[2]:
            yield CollectiveStack(self._stack[0], self._stack[1], tuple(self._stack[2]))
        self._stack = None


_ERROR_LINE = re.compile(r"[\w.]*(?:Error|Exception): ")
_NOTICE = re.compile(
    r"NCCL WARN|Xid|oom[-_]kill|Out of memory: Killed|OOMKilled|watchdog got stuck|Heartbeat monitor timed out|"
    r"DUE TO TIME LIMIT|CANCELLED AT|what\(\):|Segmentation fault|Bus error|joined but didn't finish|"
    r"but didn't join|lagging/dead/mismatched|Detected mismatch between collectives|Duplicate GPU detected|"
    r"terminated with signal|failed to pass monitoredBarrier|Out Of Memory|NCCL error"
)


def _timeout(spoken: Said, at: LogPlace) -> Timeout | None:
    found = _TIMEOUT.search(spoken.text)
    if found is None or "terminated with exception" in spoken.text or "what():" in spoken.text:
        # Said again by whoever ends the process for it.
        return None
    number, elements = found["number"], found["elements"]
    return Timeout(
        spoken.by,
        at,
        found["operation"].lstrip("_").removesuffix("_BASE").lower(),
        int(number) if number else None,
        int(elements) if elements else None,
        int(found["allowed"]) / 1000,
    )


def _progress(spoken: Said, at: LogPlace) -> GroupProgress | None:
    found = _PROGRESS.search(spoken.text)
    if found is None:
        return None
    by = replace(spoken.by, rank=int(found["rank"]))
    failed = int(found["failed"]) if found["failed"] else None
    return GroupProgress(by, at, found["group"], failed, int(found["enqueued"]), int(found["completed"]))


def _exit(spoken: Said, at: LogPlace) -> ProcessExit | None:
    found = _FAILED.search(spoken.text)
    if found is None:
        return None
    if found["local"]:
        # The launcher says it, whoever's line it runs into.
        return ProcessExit(Speaker(local_rank=int(found["local"])), at, int(found["code"]), max(0, -int(found["code"])))
    if found["killed"]:
        return ProcessExit(spoken.by, at, int(found["killed"]), max(0, -int(found["killed"])))
    by = replace(spoken.by, rank=int(found["task"]))
    if found["why"]:
        return ProcessExit(by, at, -_SIGNALS[found["why"]], _SIGNALS[found["why"]])
    code = int(found["exit"])
    return ProcessExit(by, at, code, code - 128 if code > 128 else 0)


_READERS: tuple[Callable[[Said, LogPlace], LogFact | None], ...] = (_timeout, _progress, _exit)
