"""Who failed first, how the others followed, and how sure that is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from gpudoctor.logs.error_texts import LEFT_BEHIND, SIGKILL, ErrorText, FailureRole, meaning_of
from gpudoctor.logs.log_facts import (
    CollectiveStack,
    LogFact,
    LoggedCrash,
    LoggedFrame,
    LogPlace,
    Notice,
    ProcessExit,
    Timeout,
)
from gpudoctor.logs.missing_ranks import MissingRanks, missing_from
from gpudoctor.logs.speakers import Speaker
from gpudoctor.record import dataclass, replace

_LAUNCHERS = ("ChildFailedError", "CalledProcessError", "ProcessRaisedException", "ProcessExitedException")
"""Exceptions by which a launcher says that a process failed."""
_LONGEST = 300
_RANK_IN_TEXT = re.compile(r"(?:\[Rank |\b(?:on|for) rank:? )(\d+)")
"""Errors in which a process says its own rank."""
_ENDS_OF_ERRORS = ("exit code 1", "killed by SIGABRT")
"""How a process ends after an exception of Python, or of C++."""
_KILLED = {
    4: "SIGILL",
    6: "SIGABRT",
    7: "SIGBUS",
    9: "SIGKILL",
    11: "SIGSEGV",
    15: "SIGTERM",
}


@dataclass(frozen=True)
class LoggedFailure:
    """How one process failed: the line that says so, where its own code was, and what the text means.

    `exit`: only a launcher says that it ended. `root`: the launcher saw it end before the others, at `time`.
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

    @property
    def summary(self) -> str:
        """Its first line that says something."""
        line = next((line.strip() for line in self.text.splitlines() if line.strip(" :")), "")
        return line if len(line) <= _LONGEST else f"{line[:_LONGEST]} ..."


@dataclass(frozen=True)
class FollowingRanks:
    """Processes that failed in one way, after another had."""

    ranks: tuple[int, ...]
    processes: int
    failure: LoggedFailure


@dataclass(frozen=True)
class LogDiagnosis:
    """What a log says of a failed job.

    `first` is the failure to look at, `alike` how many processes failed in just this way, `because` why it is taken
    for the first. `missing` are ranks that others waited for. `sure` is false where another order is possible.
    """

    first: LoggedFailure | None
    alike: tuple[int, ...]
    because: str
    sure: bool
    missing: MissingRanks | None
    following: tuple[FollowingRanks, ...]
    lines: int
    """The last line of the logs that said something."""
    files: int


def diagnose(facts: Iterable[LogFact], files: int) -> LogDiagnosis:
    """Put the facts of all logs of one job in order."""
    known = list(facts)
    failures = _joined(list(_failures(known)))
    own = [each for each in failures if each.role is FailureRole.OWN]
    roots = [each for each in failures if each.root]
    missing = missing_from(known)
    first: LoggedFailure | None
    if own:
        first, because, sure = _first_of(own, roots, failures, files)
    else:
        first, because, sure = _first_waiting(failures, missing)
    alike = _alike(first, failures)
    others = [each for each in failures if each is not first and not _same(each, first)]
    last = max((fact.at.order for fact in known), default=0)
    return LogDiagnosis(first, alike, because, sure, missing if not own else None, _grouped(others), last, files)


def _failures(facts: Sequence[LogFact]) -> Iterator[LoggedFailure]:
    stacks = [fact for fact in facts if isinstance(fact, CollectiveStack)]
    for fact in facts:
        if isinstance(fact, LoggedCrash):
            if not fact.type.endswith(_LAUNCHERS):
                yield _crash(fact)
        elif isinstance(fact, Timeout):
            yield _timeout(fact, stacks)
        elif isinstance(fact, ProcessExit):
            yield _exit(fact)
        elif isinstance(fact, Notice):
            meaning = meaning_of(fact.text)
            if meaning is not None:
                yield LoggedFailure(fact.by, fact.at, fact.text, meaning.role, meaning)


def _crash(crash: LoggedCrash) -> LoggedFailure:
    # Of a chain, the error that is understood says most: others were raised while it was handled.
    chain = [crash]
    while (earlier := chain[-1].raised_first) is not None:
        chain.append(earlier)
    told = next((each for each in chain if meaning_of(f"{each.type}: {each.text}")), crash)
    text = f"{told.type}: {told.text}" if told.text else told.type
    meaning = meaning_of(text)
    role = meaning.role if meaning else FailureRole.OWN
    place = next((each.place for each in (told, *chain) if each.place), None)
    by = crash.by
    if not by.is_known and (ranked := _RANK_IN_TEXT.search(text)):
        by = replace(by, rank=int(ranked[1]))
    return LoggedFailure(by, crash.at, text, role, meaning, place)


def _timeout(fact: Timeout, stacks: Sequence[CollectiveStack]) -> LoggedFailure:
    number = "" if fact.number is None else f" number {fact.number}"
    text = f"NCCL's watchdog: {fact.operation}{number} did not end within {fact.seconds:.0f} s"
    stack = next((each for each in stacks if each.by.rank == fact.by.rank), None)
    place = next((frame for frame in stack.frames if frame.own), None) if stack else None
    return LoggedFailure(fact.by, fact.at, text, FailureRole.WAIT, meaning_of("collective operation timeout"), place)


def _exit(fact: ProcessExit) -> LoggedFailure:
    if not fact.signal:
        return _ended(fact, f"exit code {fact.code}", FailureRole.OWN, None)
    name = _KILLED.get(fact.signal, f"signal {fact.signal}")
    text = f"killed by {name}"
    if fact.signal == 9:
        return _ended(fact, text, FailureRole.OWN, SIGKILL)
    if fact.signal in (2, 15):
        return _ended(fact, text, FailureRole.STOPPED, meaning_of("SIGTERM"))
    return _ended(fact, text, FailureRole.OWN, meaning_of(name))


def _ended(fact: ProcessExit, text: str, role: FailureRole, meaning: ErrorText | None) -> LoggedFailure:
    return LoggedFailure(fact.by, fact.at, text, role, meaning, time=fact.time, root=fact.root, exit=True)


def _joined(failures: Sequence[LoggedFailure]) -> list[LoggedFailure]:
    """One failure a process: what a process said itself counts, and its exit code only where it said nothing."""
    told = _once([each for each in failures if not each.exit])
    exits = _once([each for each in failures if each.exit])
    named = {each.by.local_rank for each in exits if each.by.rank is not None}
    left: list[LoggedFailure] = []
    for each in exits:
        if each.by.rank is None and (each.by.local_rank in named or told):
            # The launcher says it once more, with the rank.
            continue
        own = [index for index, one in enumerate(told) if _may_be(one.by, each.by)]
        if not own and each.text in _ENDS_OF_ERRORS:
            # Which process has said it is not in the log, but whose error it must be.
            own = [index for index, one in enumerate(told) if not one.by.is_known and not one.by.tag]
            own = own if len(own) == 1 else []
        for index in own:
            one = told[index]
            by = each.by if one.by.rank is None else one.by
            told[index] = replace(one, by=by, root=each.root, time=each.time)
        if not own:
            left.append(each)
    return sorted([*told, *left], key=lambda each: each.at.order)


def _once(failures: Sequence[LoggedFailure]) -> list[LoggedFailure]:
    """Without what a process said twice: an error as C++ prints it, and once more as Python does."""
    kept: list[LoggedFailure] = []
    for each in failures:
        twins = [one for one in kept if one.by == each.by and _echoes(one, each)]
        if not twins:
            kept.append(each)
        elif each.place is not None and twins[0].place is None:
            kept[kept.index(twins[0])] = replace(each, at=twins[0].at)
    return kept


def _echoes(one: LoggedFailure, other: LoggedFailure) -> bool:
    if one.exit or other.exit:
        return one.exit == other.exit
    if one.place and other.place and one.place != other.place:
        return False
    return one.meaning is other.meaning if one.meaning else one.summary == other.summary


def _may_be(speaker: Speaker, named: Speaker) -> bool:
    if speaker.rank is not None:
        return speaker.rank == named.rank
    return speaker.local_rank is not None and speaker.local_rank == named.local_rank


def _who(by: Speaker) -> tuple[str, object]:
    if by.rank is not None:
        return "rank", by.rank
    return ("local", by.local_rank) if by.local_rank is not None else ("tag", (by.host, by.tag))


def _first_of(
    own: Sequence[LoggedFailure], roots: Sequence[LoggedFailure], failures: Sequence[LoggedFailure], files: int
) -> tuple[LoggedFailure, str, bool]:
    named = [each for each in own if each.root]
    by_time = all(each.at.at for each in own)
    earliest = min(own, key=lambda each: (each.at.at if by_time else "", each.at.order))
    said_more = [each for each in own if not each.exit]
    if named:
        first = min(named, key=lambda each: (each.time, each.exit, each.at.order))
        if first.exit and said_more and not any(_same_process(first, each) for each in said_more):
            # An exit code without an error; another process has told its own.
            told = min(said_more, key=lambda each: each.at.order)
            return told, "it is the only process whose own error is in the log", False
        return first, "the launcher saw it end first", True
    if said_more:
        earliest = min(said_more, key=lambda each: (each.at.at if by_time else "", each.at.order))
    alone = all(_same(each, earliest) for each in own)
    if alone:
        others = any(each.role in (FailureRole.PEER, FailureRole.WAIT, FailureRole.STOPPED) for each in failures)
        because = "the others ended because of it" if others else "it is the only error in the log"
        return earliest, because, True
    if by_time:
        return earliest, "its time is the earliest", True
    if files == 1:
        return earliest, "it stands first in the log", len({_who(each.by) for each in own}) == 1
    return earliest, "several processes failed, and the logs have no times", False


def _same_process(one: LoggedFailure, other: LoggedFailure) -> bool:
    return _who(one.by) == _who(other.by) or not other.by.is_known


def _first_waiting(
    failures: Sequence[LoggedFailure], missing: MissingRanks | None
) -> tuple[LoggedFailure | None, str, bool]:
    waits = [each for each in failures if each.role is FailureRole.WAIT]
    if waits:
        placed = next((each for each in waits if each.place), waits[0])
        because = missing.because if missing else "no process of this log failed by itself"
        return placed, because, missing.sure if missing else False
    gone = [each for each in failures if each.role is FailureRole.PEER]
    if gone:
        if any(each.root for each in gone):
            # A launcher tells each process that fails.
            return _left_behind(gone), "the launcher saw no other process fail", True
        return gone[0], "the process that ended first is not in this log", False
    stopped = [each for each in failures if each.role is FailureRole.STOPPED]
    return (stopped[0], "nothing failed before", True) if stopped else (None, "", True)


def _left_behind(gone: Sequence[LoggedFailure]) -> LoggedFailure:
    """The others came to the end of their program without an error, and this rank still wanted them."""
    first = next(each for each in gone if each.root)
    return replace(first, role=FailureRole.WAIT, meaning=LEFT_BEHIND)


def _same(one: LoggedFailure, other: LoggedFailure | None) -> bool:
    """The same error at the same line, in another process."""
    if other is None:
        return False
    if one.place and other.place and one.place.line == other.place.line and one.place.path == other.place.path:
        return _kind(one) == _kind(other)
    return one.place is other.place is None and one.role is other.role and _kind(one) == _kind(other)


def _kind(each: LoggedFailure) -> str:
    # Numbers, of a pid, a GPU or bytes, differ between processes that fail alike.
    return re.sub(r"\d+", "0", each.summary)


def _alike(first: LoggedFailure | None, failures: Sequence[LoggedFailure]) -> tuple[int, ...]:
    ranks = {each.by.rank for each in failures if _same(each, first) and each.by.rank is not None}
    return tuple(sorted(ranks))


def _grouped(failures: Sequence[LoggedFailure]) -> tuple[FollowingRanks, ...]:
    groups: dict[tuple[object, object], list[LoggedFailure]] = {}
    for each in failures:
        key = (id(each.meaning), each.place) if each.meaning else (_kind(each), each.place)
        groups.setdefault(key, []).append(each)
    return tuple(
        FollowingRanks(
            tuple(sorted({each.by.rank for each in group if each.by.rank is not None})),
            len({_who(each.by) for each in group}),
            group[0],
        )
        for group in groups.values()
    )
