"""What a watched run has shown, beside what lint suspected: as a report for people, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.page_address import read_more, rule_address
from gpudoctor.plain import plain
from gpudoctor.registry import Registry, load
from gpudoctor.report import full
from gpudoctor.report.frame import frame
from gpudoctor.report.json import document_of
from gpudoctor.report.text import Style, wrap
from gpudoctor.run.going_on import gone_on, in_words
from gpudoctor.run.hang_verdict import verdict_of
from gpudoctor.run.outcome import (
    CLEARED,
    CONFIRMED,
    NOT_REACHED,
    Suspicion,
    Watched,
    faults,
    first_crash,
    hangs_untold,
    shown_by_the_end,
    what_ran,
    where,
)
from gpudoctor.run.report_schema import report_of
from gpudoctor.run.timing import ON_GPU, PARTS, RankTime, samples_per_second, times_of, tokens_per_second
from gpudoctor.run.untried import untried

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Finding, Location
    from gpudoctor.lint.request import Outcome
    from gpudoctor.run.recording import Recording, Waiting

_MOST_ROWS = 16


def compared(recording: Recording, found: tuple[Finding, ...], linted: Outcome | None, registry: Registry) -> Watched:
    """Hold what lint suspects against what the rules have seen in the run."""
    seen = {finding.code for finding in found}
    suspected = linted.findings if linted else ()
    shown = shown_by_the_end(suspected, lambda code: _errors(code, registry), recording)
    suspicions = [
        Suspicion(each, CONFIRMED if each in shown else _state(each, seen, recording, registry)) for each in suspected
    ]
    failed = first_crash(recording) is not None or any(each.fatal for each in recording.ranks)
    untold = failed and not any(_errors(code, registry) for code in seen)
    lines = linted.lines if linted else _lines
    return Watched(recording, found, tuple(suspicions), lines, linted is not None, error_untold=untold)


def _errors(code: str, registry: Registry) -> Sequence[str]:
    card = registry.by_code.get(code)
    return load(card).errors if card is not None else ()


def _state(finding: Finding, seen: set[str], recording: Recording, registry: Registry) -> str:
    if finding.code in seen:
        return CONFIRMED
    if recording.virtual and finding.severity is Severity.PERF:
        return NOT_REACHED
    card = registry.by_code.get(finding.code)
    # Silence of a rule that could not have seen it says nothing.
    could = card is not None and card.shows_in_run and load(card).could_show(recording)
    return CLEARED if could else NOT_REACHED


def _lines(at: Location) -> Sequence[str]:
    try:
        with open(at.path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return ()


def report(watched: Watched, style: Style) -> Iterator[str]:
    """The lines of the report: what was seen, what became of lint's suspicions, and where the time went."""
    yield ""
    yield style.paint("gpudoctor run", "bold")
    yield from wrap(what_ran(watched.recording), style.width, "  ")
    yield ""
    yield from full.told(watched.found, watched.lines, style)
    if watched.found:
        worst = max(watched.found, key=lambda finding: finding.severity.weight)
        yield f"  Read more: {read_more(worst.code, worst.name)}"
        yield ""
    # What no GPU was there for is told beside findings, too: beyond it nothing was judged.
    untold = (
        all(each.severity is Severity.PERF for each in watched.found)
        or untried(watched.recording)
        or hangs_untold(watched)
        or watched.error_untold
    )
    if untold and (unknown := watched.unexplained):
        yield from wrap(unknown, style.width, "  ")
        yield ""
    for each in gone_on(watched.recording):
        yield from wrap(in_words(each), style.width, "  ")
        yield ""
    yield from _suspicions(watched, style)
    times = times_of(watched.recording.timed_ranks)
    if times:
        yield from _table(times, watched.recording, style)
    if ours := faults(watched.recording):
        yield ""
        yield from wrap(ours, style.width, "  ")


def standstill(waiting: Sequence[Waiting], style: Style) -> Iterator[str]:
    """What is printed at once when the ranks do not advance."""
    yield ""
    yield f"{style.paint('gpudoctor', 'bold')}: {style.paint('the ranks do not advance', 'error')}"
    if (verdict := verdict_of(waiting)) is not None:
        yield from wrap(verdict.text, style.width, "  ")
    yield from standing(waiting, style)


def standing(waiting: Sequence[Waiting], style: Style) -> Iterator[str]:
    """Where each rank is, with the lines around."""
    for each in waiting:
        yield from wrap(where(each), style.width, "  ")
        if each.place is not None:
            yield from frame(each.place, _lines, style)


def _suspicions(watched: Watched, style: Style) -> Iterator[str]:
    for state, look in ((CONFIRMED, "error"), (CLEARED, "help"), (NOT_REACHED, "dim")):
        for each in watched.suspicions:
            if each.state == state:
                at = each.finding.location
                code = style.linked(each.finding.code, rule_address(each.finding.code, each.finding.name))
                label = f"{code} {each.finding.name}"
                yield f"  {style.paint(f'{state:<11}', look)} {label} suspected at {at.path}:{at.line}"
    if watched.suspicions:
        yield ""
    elif not watched.found and not watched.recording.status and not watched.unexplained:
        read = " and lint suspects none" if watched.linted else ""
        yield from wrap(f"No mistake was seen{read}.", style.width, "  ")
        yield ""


def _table(times: Sequence[RankTime], recording: Recording, style: Style) -> Iterator[str]:
    # Without a forward one wonders; the others are not there on this kind of machine.
    parts = [name for name in PARTS if name == "forward" or any(name in each.parts for each in times)]
    heads = "".join(f"{name:>{len(name) + 2}}" for name in parts)
    yield style.paint(f"  {'rank':>4} {'steps':>6} {'ms/step':>8}{heads}", "dim")
    # A screen, not a log: JSON has all of them.
    for each in times[:_MOST_ROWS]:
        shares = "".join(f"{_share(each.parts.get(name), each.step):>{len(name) + 2}}" for name in parts)
        yield f"  {each.rank:>4} {each.steps:>6} {each.step * 1e3:>8.2f}{shares}"
    if len(times) > _MOST_ROWS:
        yield f"  and {len(times) - _MOST_ROWS} more ranks"
    samples, tokens = samples_per_second(recording.timed_ranks), tokens_per_second(recording.timed_ranks)
    overhead = max(each.overhead for each in times)
    memory = max((each.peak or 0 for each in times), default=0)
    told = [
        *(
            [f"{samples:,.0f} samples/s{f', {tokens:,.0f} tokens/s' if tokens else ''} over all ranks"]
            if samples
            else []
        ),
        *([f"at most {memory / 2**30:.2g} GiB in a rank"] if memory else []),
        f"watching took {overhead:.1%} of the time",
    ]
    yield from wrap("; ".join(told), style.width, "  ")
    if told_by_ddp := [each.communication for each in times if each.on_gpu and each.communication is not None]:
        yield from wrap(
            f"On the GPU, communication that the backward did not hide took up to {max(told_by_ddp) * 1e3:.2f} ms of a "
            "step, as DDP clocks it.",
            style.width,
            "  ",
        )
    if any(each.on_gpu for each in times):
        yield from wrap(ON_GPU, style.width, "  ")


def _share(seconds: float | None, whole: float) -> str:
    return f"{seconds / whole:.0%}" if whole and seconds is not None else "-"


def in_one_line(watched: Watched) -> str:
    """What is left to say where nothing is wrong; with what lint suspects and the run could not show."""
    open_ones = [
        f"{each.finding.code} at {each.finding.location.path}:{each.finding.location.line}"
        for each in watched.suspicions
        if each.state == NOT_REACHED and each.finding.severity.weight >= Severity.WARNING.weight
    ]
    told = f" Not shown by this run, but suspected by lint: {', '.join(open_ones)}." if open_ones else ""
    return f"gpudoctor run: no mistake was seen; {what_ran(watched.recording)}{told}"


def document(watched: Watched) -> str:
    """The report as JSON: findings in the form of lint's, beside ranks, steps and timing."""
    return json.dumps({**document_of(watched.found), **plain(report_of(watched))}, indent=2) + "\n"
