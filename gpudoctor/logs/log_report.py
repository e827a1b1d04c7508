"""What logs say, for machines: the records of the JSON of `gpudoctor read`, whose members are added to and never
renamed."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.logs.declared_texts import rules_that_declare
from gpudoctor.logs.diagnosis import LogDiagnosis
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.logged_failure import LoggedFailure
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class LogLineEntry:
    """A line of a log."""

    path: str
    line: int


@dataclass(frozen=True)
class FailureEntry:
    """How a process failed, and the `ranks` that failed in the same way. `text` is the error, `role` what it says of
    the order of failures, `means` and `help` what it means and what to do. `code` is the rule whose mistake ends with
    it, `likely` those that often do, `perhaps` those that name the text where gpudoctor has no entry for it. `known` is
    false where `means` is only what errors of this type mean. `path` and `line` are in the program, `library` is the
    package that they called and that raised it, empty where it was the program; `log` is where the error is."""

    rank: int | None
    local_rank: int | None
    host: str
    text: str
    role: FailureRole
    means: str
    help: str
    code: str
    likely: tuple[str, ...]
    perhaps: tuple[str, ...]
    known: bool
    path: str | None
    line: int | None
    library: str
    log: LogLineEntry
    ranks: tuple[int, ...]


@dataclass(frozen=True)
class MissingEntry:
    """Ranks that the others waited for, and the collective in which they did."""

    ranks: tuple[int, ...]
    operation: str


@dataclass(frozen=True)
class LogReport:
    """What `gpudoctor read` says of a job. `first` is the failure to look at, null where there is none; `alike` are
    the ranks that failed in the same way; `because` says why it is taken for the first, and `sure` is false where
    another order is possible. `missing` are ranks that others waited for, and `following` the failures after the
    first. `findings` are those of `--code` that fit the error. Where the files hold several runs, this is the last one
    that failed, and `earlier` how those before it did; `last_run` is false where a later one did not fail."""

    first: FailureEntry | None
    alike: tuple[int, ...]
    because: str
    sure: bool
    missing: MissingEntry | None
    following: tuple[FailureEntry, ...]
    earlier: tuple[FailureEntry, ...] = ()
    last_run: bool = True


def log_report_of(diagnosis: LogDiagnosis) -> LogReport:
    """The report, without findings."""
    missing = diagnosis.missing
    return LogReport(
        first=_failure(diagnosis.first, diagnosis.alike) if diagnosis.first else None,
        alike=tuple(diagnosis.alike),
        because=diagnosis.because,
        sure=diagnosis.sure,
        missing=MissingEntry(tuple(missing.ranks), missing.operation) if missing is not None else None,
        following=tuple(_failure(each.failure, each.ranks) for each in diagnosis.following),
        earlier=tuple(_failure(each, ()) for each in diagnosis.earlier),
        last_run=diagnosis.last_run,
    )


def _failure(failure: LoggedFailure, ranks: Sequence[int]) -> FailureEntry:
    meaning, place = failure.explained, failure.place
    likely = tuple(meaning.likely) if meaning else ()
    perhaps = rules_that_declare(failure.text, likely) if failure.meaning is None else ()
    return FailureEntry(
        rank=failure.by.rank,
        local_rank=failure.by.local_rank,
        host=failure.by.host,
        text=failure.text,
        role=failure.role,
        means=meaning.means if meaning else "",
        help=meaning.do if meaning else "",
        code=meaning.code if meaning else "",
        likely=likely,
        perhaps=tuple(card.code for card in perhaps),
        known=failure.meaning is not None,
        path=place.path if place else None,
        line=place.line if place else None,
        library=failure.library,
        log=LogLineEntry(failure.at.path, failure.at.line),
        ranks=tuple(ranks),
    )
