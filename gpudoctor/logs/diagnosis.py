"""Who failed first, how the others followed, and how sure that is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpudoctor.logs.endings import (
    CLOSED,
    LOADER_THREAD,
    NO_SPACE,
    NOT_LISTENING,
    SHARED_MEMORY,
    UNLIKE_CALLS,
    VAGUE,
    WATCHED,
)
from gpudoctor.logs.error_texts import ABORTED, AT_THE_END
from gpudoctor.logs.error_texts.collective_prints import unlike_calls
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.failures_told import failures_of
from gpudoctor.logs.first_failure import BECAUSE, FirstFailure, first_of, first_waiting
from gpudoctor.logs.log_facts import LogFact, ProcessExit, Standstill, Timeout
from gpudoctor.logs.logged_failure import RAISED, LoggedFailure, may_have_local_rank
from gpudoctor.logs.merged_failures import merged
from gpudoctor.logs.missing_ranks import MissingRanks, missing_from
from gpudoctor.logs.runs_in_log import runs_of
from gpudoctor.logs.speakers import Speaker
from gpudoctor.logs.unlike_stacks import standing_apart
from gpudoctor.record import dataclass, replace


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
    `earlier` is how runs before this one ended, in the same files; `last_run` is false where a later one did not fail.
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
    earlier: tuple[LoggedFailure, ...] = ()
    last_run: bool = True


def diagnose(facts: Iterable[LogFact], files: int) -> LogDiagnosis:
    """Put the facts of all logs of one job in order. Of several runs, the last one that failed is told of."""
    found = [_of_one_run(run, files) for run in runs_of(facts)]
    failed = [each for each in found if each.first is not None] or found[-1:]
    earlier = tuple(each.first for each in failed[:-1] if each.first is not None)
    lines = max(each.lines for each in found)
    return replace(failed[-1], earlier=earlier, last_run=failed[-1] is found[-1], lines=lines)


def _of_one_run(known: Sequence[LogFact], files: int) -> LogDiagnosis:
    told = _without_echoes(_with_reasons(failures_of(known)))
    failures = _by_process(told, known)
    missing = missing_from(known)
    if all(each.exit or _ended_by_hand(each) for each in failures) and (apart := standing_apart(known)) is not None:
        stopped = [each for each in failures if not each.exit]
        if not stopped or len(apart[0]) > 1:
            failures, missing = apart[0] + stopped, apart[1]
    own = _causes(failures, known)
    unlike = unlike_calls(each.text for each in own) if all(each.meaning is UNLIKE_CALLS for each in own) else None
    if unlike is not None:
        first = FirstFailure(min(own, key=lambda each: (each.by.rank not in unlike.apart, each.at.order)), unlike.text)
        operation = next(iter(unlike.calls.values())).operation
        # Whether one rank calls one more, or all of them in other orders, is not told.
        missing = MissingRanks((), operation, unlike.text, True)
    elif own:
        first = first_of(own, failures, files)
        if (unheard := _unheard(known, failures)) is not None:
            saw = f"the launcher saw the process with local rank {unheard} fail first, whose error is not in the log"
            first = FirstFailure(first.failure, saw, sure=False)
    else:
        first = first_waiting(failures, missing)
    if stood := [fact for fact in known if isinstance(fact, Standstill)]:
        # It has looked at each rank itself, and ended the job for it, or seen gloo do so.
        first = FirstFailure(_standstill(stood[0]), "`gpudoctor run` watched this job")
    others = [each for each in failures if each is not first.failure and not each.is_like(first.failure)]
    return LogDiagnosis(
        first.failure,
        _alike(first.failure, failures),
        first.because,
        first.sure,
        missing if unlike or not own else None,
        _grouped(others),
        max((fact.at.order for fact in known), default=0),
        files,
    )


def _without_echoes(told: list[LoggedFailure]) -> list[LoggedFailure]:
    """Without what only says that something else has failed, where that is told."""
    # One address was taken, or refused a connection: it says no more than that none was left.
    whole = {id(each.meaning) for each in told if not each.cut}
    told = [each for each in told if not each.cut or each.meaning is None or id(each.meaning) not in whole]
    if any(each.meaning is SHARED_MEMORY for each in told):
        told = [each for each in told if each.meaning is not NO_SPACE or each.place is not None]
    # A thread that serves a loader ends after what it serves.
    told = [each for each in told if each.meaning is not LOADER_THREAD] or told
    if any(each.meaning not in (AT_THE_END, ABORTED) and not (each.exit or each.cut) for each in told):
        told = [each for each in told if each.meaning is not AT_THE_END]
    return [each for each in told if each.meaning is not CLOSED] or told


def _by_process(told: list[LoggedFailure], known: Sequence[LogFact]) -> list[LoggedFailure]:
    """One failure a process, and one more where only the launcher knows of the process that failed first."""
    failures = merged(told) or told[:1]
    if all(each.role is FailureRole.PEER for each in failures) and (local := _unheard(known, failures)) is not None:
        failures += [each for each in told if each.exit and each.by == Speaker(local_rank=local)][:1]
    # Who could not connect tries again.
    return [each for each in failures if not (each.cut and each.role is FailureRole.WAIT)] or failures


def _causes(failures: Sequence[LoggedFailure], known: Sequence[LogFact]) -> list[LoggedFailure]:
    """The failures that no other explains."""
    own = [each for each in failures if each.role is FailureRole.OWN]
    if any(not each.cut for each in own) or any(each.role is FailureRole.WAIT for each in failures):
        # An error of which the log has only a part may follow those of which it has all.
        own = [each for each in own if not each.cut]
    # A launcher ends the others at once: whoever ends after they have waited in vain is none they waited for.
    waited = [each for each in failures if each.role is FailureRole.WAIT and not each.cut]
    own = [each for each in own if not (each.text == RAISED and any(one.stands_before(each) for one in waited))]
    gone = [each for each in failures if each.role is FailureRole.PEER]
    # What stands behind the error of one that lost another is mostly that of the next one.
    own = [each for each in own if not (each.cut and any(one.stands_before(each) for one in gone))]
    if any(each.tells_why for each in own):
        own = [each for each in own if each.meaning not in VAGUE]
    if any(each.meaning not in (None, ABORTED) for each in own):
        # What native code had told before it ended the process.
        own = [each for each in own if each.meaning is not ABORTED]
    if all(each.exit and each.meaning is None for each in own) and any(_cancelled(each, own) for each in failures):
        return []
    if any(isinstance(fact, Timeout) for fact in known):
        # So ends a process whose watchdog gave up.
        own = [each for each in own if each.exit or each.meaning is not ABORTED]
    return own


def _with_reasons(told: list[LoggedFailure]) -> list[LoggedFailure]:
    """Why no address was left to listen on stands in what was said of each of them."""
    why = next((each.meaning for each in told if each.cut and "server socket has failed" in each.text), None)
    return [replace(each, meaning=why) if why and each.meaning is NOT_LISTENING else each for each in told]


def _standstill(fact: Standstill) -> LoggedFailure:
    meaning = replace(WATCHED, code=fact.code)
    return LoggedFailure(fact.by, fact.at, fact.text, FailureRole.WAIT, meaning, fact.place)


def _unheard(facts: Sequence[LogFact], failures: Sequence[LoggedFailure]) -> int | None:
    """The local rank that the launcher saw fail, where all that others say is of other processes."""
    ends = [fact for fact in facts if isinstance(fact, ProcessExit) and not fact.root and fact.signal not in (2, 15)]
    saw = {fact.by.local_rank for fact in ends if fact.by.rank is None and fact.by.local_rank is not None}
    if len(saw) != 1 or any(each.exit or each.by.rank is None for each in failures):
        return None
    (local,) = saw
    return None if any(may_have_local_rank(each.by, local) for each in failures) else local


def _cancelled(stopped: LoggedFailure, own: Sequence[LoggedFailure]) -> bool:
    """The scheduler had ended the job, and said why, before these processes ended."""
    why = stopped.role is FailureRole.STOPPED and BECAUSE in stopped.text
    return why and all(stopped.stands_before(each) for each in own)


def _ended_by_hand(failure: LoggedFailure) -> bool:
    """Whoever takes the stacks of a job that stands still ends it then."""
    return failure.role is FailureRole.STOPPED and BECAUSE not in failure.text


def _alike(first: LoggedFailure | None, failures: Sequence[LoggedFailure]) -> tuple[int, ...]:
    ranks = {each.by.rank for each in failures if each.is_like(first) and each.by.rank is not None}
    return tuple(sorted(ranks))


def _grouped(failures: Sequence[LoggedFailure]) -> tuple[FollowingRanks, ...]:
    groups: dict[tuple[object, object], list[LoggedFailure]] = {}
    for each in failures:
        key = (id(each.meaning), each.place) if each.meaning else (each.kind, each.place)
        groups.setdefault(key, []).append(each)
    return tuple(
        FollowingRanks(
            tuple(sorted({each.by.rank for each in group if each.by.rank is not None})),
            len({each.process for each in group}),
            group[0],
        )
        for group in groups.values()
    )
