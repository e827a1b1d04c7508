"""All logs of one job to what they say."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudoctor.logs.diagnosis import LogDiagnosis, diagnose
from gpudoctor.logs.flight_recorder import facts_of_dump, is_dump
from gpudoctor.logs.lines import files_in
from gpudoctor.logs.log_facts import LogFact
from gpudoctor.logs.readers import LogReader


def read_logs(named: Sequence[str]) -> LogDiagnosis:
    """Read files, folders or what comes through a pipe (`-`), all of one job.

    Raises:
        UsageError: Something cannot be read.
    """
    paths = files_in(named)
    return diagnose(_facts(paths), len(paths))


def _facts(paths: Sequence[str]) -> Iterator[LogFact]:
    order = 0
    for path in paths:
        if is_dump(path):
            order += 1
            yield from facts_of_dump(path, order)
            continue
        reader = LogReader(path, order)
        yield from reader.facts()
        order += reader.lines
