"""Several runs in one file: people append to a log, and a job starts again after it has failed."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.logs.log_facts import LogFact, LoggedCrash, Notice, ProcessExit, RunBegin, Timeout

_ENDS = (LoggedCrash, Notice, ProcessExit, Timeout)


def runs_of(facts: Iterable[LogFact]) -> list[list[LogFact]]:
    """What belongs to each run, in their order: one begins where something starts after something has failed.

    Files are taken apart: the first run of each, the second of each.
    """
    runs: list[list[LogFact]] = [[]]
    number: dict[str, int] = {}
    failed: set[str] = set()
    # A traceback is known at its end, when another run may have begun.
    for fact in sorted(facts, key=lambda each: each.at.order):
        path = fact.at.path
        if not isinstance(fact, RunBegin):
            if isinstance(fact, _ENDS):
                failed.add(path)
            runs[number.get(path, 0)].append(fact)
        elif path in failed:
            failed.remove(path)
            number[path] = number.get(path, 0) + 1
            if number[path] == len(runs):
                runs.append([])
    return runs
