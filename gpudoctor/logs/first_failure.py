"""Which of several failures came first, why it is taken for the first, and whether that is sure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpudoctor.logs.endings import CUT, LEFT_BEHIND
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.logged_failure import RAISED, LoggedFailure
from gpudoctor.logs.missing_ranks import MissingRanks
from gpudoctor.record import dataclass, replace

BECAUSE = "DUE TO "
"""What SLURM writes in front of why it has ended a job."""
_ACTOR_OF_RAY = re.compile(r"^\s*pid: (\d+)$", re.M)
"""The one that has ended, in the error of whoever had called it."""
_RANK_THAT_IS_GONE = re.compile(r"(?:waiting for send/recv from|application crash on) (rank \d+)")


@dataclass(frozen=True)
class FirstFailure:
    """The failure to look at, and why it is taken for the first; `sure` is false where another order is possible."""

    failure: LoggedFailure | None
    because: str
    sure: bool = True


def first_of(own: Sequence[LoggedFailure], failures: Sequence[LoggedFailure], files: int) -> FirstFailure:
    """The first of the processes that failed by themselves (`own`), among all failures of the logs of so many files."""
    named = [each for each in own if each.root]
    by_time = _one_clock(own)
    earliest = min(own, key=lambda each: (each.at.at if by_time else "", each.at.order))
    said_more = [each for each in own if not each.exit]
    if named:
        first = min(named, key=lambda each: (each.time, each.exit, each.at.order))
        if first.exit and said_more and not any(first.is_of_process(each) for each in said_more):
            # An exit code without an error; another process has told its own.
            told = min(said_more, key=lambda each: each.at.order)
            if told.by.rank is None or told.time:
                return FirstFailure(
                    told, "the launcher saw another end first, whose error is not in the log", sure=False
                )
            # It still ran when the launcher looked, and fails, if not in the same way, after it.
            because = "the launcher saw it end first, and its error is not in the log: this one is of rank"
            return FirstFailure(replace(told, by=first.by), f"{because} {told.by.rank}", sure=False)
        together = {each.time for each in failures if each.exit and each is not first and not each.is_like(first)}
        if first.exit and first.time in together and not first.meaning:
            return FirstFailure(first, "the launcher names it, and saw others end in the same second", sure=False)
        # An error that is not in the log may be that another process was gone.
        return FirstFailure(first, "the launcher saw it end first", not (first.exit and first.text == RAISED))
    if said_more:
        earliest = min(said_more, key=lambda each: (each.at.at if by_time else "", each.at.order))
    alone = all(each.is_like(earliest) for each in own)
    if alone:
        if any(each.text == CUT and each.by.is_known and not earliest.is_of_process(each) for each in failures):
            return FirstFailure(earliest, "it is the only error in the log that is not cut off", sure=False)
        others = any(each.role in (FailureRole.PEER, FailureRole.WAIT, FailureRole.STOPPED) for each in failures)
        many = len({each.process for each in own}) if earliest.by.rank is None else 1
        only = f"it is the only error in the log{f', of {many} processes' if many > 1 else ''}"
        because = "the others ended because of it" if others else only
        # A table of the launcher that ends before the root cause names others, too.
        return FirstFailure(earliest, because, not (earliest.cut or (earliest.exit and earliest.time)))
    if by_time:
        if any(_within_a_second_elsewhere(earliest, each) for each in own):
            return FirstFailure(
                earliest, "its time is the earliest, by less than clocks of two nodes may differ", sure=False
            )
        return FirstFailure(earliest, "its time is the earliest")
    if files == 1:
        return FirstFailure(earliest, "it stands first in the log", len({each.process for each in own}) == 1)
    return FirstFailure(earliest, "several processes failed, and the logs have no times", sure=False)


def _within_a_second_elsewhere(one: LoggedFailure, other: LoggedFailure) -> bool:
    hosts = {one.by.host, other.by.host} - {""}
    return len(hosts) > 1 and one.at.at.partition(".")[0] == other.at.at.partition(".")[0]


def _one_clock(failures: Sequence[LoggedFailure]) -> bool:
    """All have a time, and of one kind: with the year, or as torch logs it."""
    return all(each.at.at for each in failures) and len({each.at.at[4:5] for each in failures}) == 1


def first_waiting(failures: Sequence[LoggedFailure], missing: MissingRanks | None) -> FirstFailure:
    """What to look at where no process failed by itself."""
    waits = [each for each in failures if each.role is FailureRole.WAIT]
    gone = [each for each in failures if each.role is FailureRole.PEER]
    stopped = [each for each in failures if each.role is FailureRole.STOPPED]
    ended = [each for each in stopped if not each.exit]
    if waits:
        before = next((each for each in ended if each.stands_before(waits[0])), None)
        if before is not None:
            return FirstFailure(before, "the others waited after it", sure=False)
        timed = min(waits, key=lambda each: each.at.at) if _one_clock(waits) else waits[0]
        placed = next((each for each in waits if each.place), timed)
        because = missing.because if missing else "no process of this log failed by itself"
        return FirstFailure(placed, because, missing.sure if missing else False)
    if named := next((each for each in ended if each.root), None):
        return FirstFailure(named, "the launcher saw it end first")
    # The launcher goes through its processes in their order, and finds two that have ended since its last look.
    before = next((each for each in ended if gone and each.at.order < gone[0].at.order), None)
    if before is not None:
        return FirstFailure(before, "it ended before the others lost it", before.at.path == gone[0].at.path)
    if gone:
        if any(each.root for each in gone):
            # A launcher tells each process that fails.
            return FirstFailure(_left_behind(gone), "the launcher saw no other process fail")
        return FirstFailure(
            gone[0], f"the process that ended first{_named_as_gone(gone)} is not in this log", sure=False
        )
    if not stopped:
        return FirstFailure(None, "")
    return FirstFailure(next((each for each in stopped if BECAUSE in each.text), stopped[0]), "nothing failed before")


def _named_as_gone(gone: Sequence[LoggedFailure]) -> str:
    """What those that lost another process call it."""
    for each in gone:
        if rank := _RANK_THAT_IS_GONE.search(each.text):
            return f" ({rank[1]})"
        if actor := _ACTOR_OF_RAY.search(each.text):
            return f" (pid={actor[1]})"
    return ""


def _left_behind(gone: Sequence[LoggedFailure]) -> LoggedFailure:
    """The others came to the end of their program without an error, and this rank still wanted them."""
    first = next(each for each in gone if each.root)
    return replace(first, role=FailureRole.WAIT, meaning=LEFT_BEHIND)
