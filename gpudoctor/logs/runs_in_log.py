"""Several runs in one file: people append to a log, and a job starts again after it has failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpudoctor.logs.error_texts import meaning_of
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.log_facts import LogFact, LoggedCrash, Notice, ProcessExit, RunBegin, Timeout

_ENDS = (LoggedCrash, Notice, ProcessExit, Timeout)
_GOES_ON = 12
"""Lines after an error, which only another run has printed where one process writes to the file."""


def runs_of(facts: Iterable[LogFact]) -> list[list[LogFact]]:
    """What belongs to each run, in their order: one begins where something starts after something has failed.

    Files are taken apart: the first run of each, the second of each.
    """
    runs: list[list[LogFact]] = [[]]
    # A traceback is known at its end, when another run may have begun.
    of_files: dict[str, list[LogFact]] = {}
    for fact in sorted(facts, key=lambda each: each.at.order):
        of_files.setdefault(fact.at.path, []).append(fact)
    for of_file in of_files.values():
        for number, run in enumerate(_of_one_process(of_file) or _after_marks(of_file)):
            if number == len(runs):
                runs.append([])
            runs[number] += run
    return [sorted(run, key=lambda each: each.at.order) for run in runs]


def _after_marks(facts: Sequence[LogFact]) -> list[list[LogFact]]:
    """Parted where a launcher begins after something has failed, which is not one of another node of the same job."""
    runs: list[list[LogFact]] = [[]]
    failed = False
    for fact in facts:
        if not isinstance(fact, RunBegin):
            failed = failed or isinstance(fact, _ENDS)
            runs[-1].append(fact)
        elif failed:
            failed = False
            runs.append([])
    joined = runs[:1]
    for run in runs[1:]:
        if _of_another_node(joined[-1], run):
            joined[-1] += run
        else:
            joined.append(run)
    return joined


def _of_another_node(run: Sequence[LogFact], after: Sequence[LogFact]) -> bool:
    """Other ranks on other hosts: two launchers of one job write to the file, and the second was late."""
    (ranks, hosts), (later_ranks, later_hosts) = _who(run), _who(after)
    apart = ranks.isdisjoint(later_ranks) and hosts.isdisjoint(later_hosts)
    return bool(ranks and hosts and later_ranks and later_hosts) and apart


def _who(facts: Sequence[LogFact]) -> tuple[set[int], set[str]]:
    told = [each.by for each in facts if isinstance(each, ProcessExit)]
    return {by.rank for by in told if by.rank is not None}, {by.host for by in told if by.host}


def _of_one_process(facts: Sequence[LogFact]) -> list[list[LogFact]]:
    """Parted after each error of its own, where one process without a rank has written all; else nothing."""
    if not all(isinstance(each, LoggedCrash) and not (each.by.is_known or each.by.tag) for each in facts):
        return []
    runs: list[list[LogFact]] = [[]]
    for fact in facts:
        before = runs[-1][-1] if runs[-1] else None
        # Who lost another, or waited for it, is of the same run.
        ended = all(isinstance(each, LoggedCrash) and _ended_by(each) for each in (before, fact))
        if isinstance(before, LoggedCrash) and ended and fact.at.line > _last_line(before) + _GOES_ON:
            runs.append([])
        runs[-1].append(fact)
    return runs if len(runs) > 1 else []


def _ended_by(crash: LoggedCrash) -> bool:
    meaning = meaning_of(f"{crash.type}: {crash.text}", crash.calls)
    whole = bool(crash.type and crash.frames) and not (crash.ignored or crash.headless or crash.mixed)
    return whole and (meaning is None or meaning.role is FailureRole.OWN)


def _last_line(crash: LoggedCrash) -> int:
    """Each call has a line of its source, and perhaps one of marks below it."""
    earlier = _last_line(crash.raised_first) - crash.raised_first.at.line + 4 if crash.raised_first is not None else 0
    return crash.at.line + earlier + 3 * len(crash.frames) + crash.text.count("\n") + 1
