"""What a watched run has shown, beside what lint suspected: as a report for people, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from gpudoctor.diagnostic import Finding
from gpudoctor.record import dataclass
from gpudoctor.registry import Registry, load
from gpudoctor.report import full
from gpudoctor.report.frame import Lines, frame
from gpudoctor.report.json import document_of
from gpudoctor.report.text import Style, wrap
from gpudoctor.run.recording import Recording, Waiting
from gpudoctor.run.timing import PARTS, RankTime, samples_per_second, times_of

if TYPE_CHECKING:
    from gpudoctor.lint.task import Outcome

CONFIRMED, CLEARED, NOT_REACHED = "confirmed", "cleared", "not reached"


@dataclass(frozen=True)
class Suspicion:
    """A finding of lint, and what the run says of it: confirmed, cleared, or not reached."""

    finding: Finding
    state: str


@dataclass(frozen=True)
class Watched:
    """All that is known after a run. `lines` gives the lines of a file by its shown path."""

    recording: Recording
    found: tuple[Finding, ...]
    suspicions: tuple[Suspicion, ...]
    lines: Lines
    linted: bool


def compared(recording: Recording, found: tuple[Finding, ...], linted: Outcome | None, registry: Registry) -> Watched:
    """Hold what lint suspects against what the rules have seen in the run."""
    seen = {finding.code for finding in found}
    suspicions = [
        Suspicion(finding, _state(finding, seen, recording, registry))
        for finding in (linted.findings if linted else ())
    ]
    return Watched(recording, found, tuple(suspicions), linted.lines if linted else _lines, linted is not None)


def _state(finding: Finding, seen: set[str], recording: Recording, registry: Registry) -> str:
    if finding.code in seen:
        return CONFIRMED
    card = registry.by_code.get(finding.code)
    # Silence of a rule that could not have seen it says nothing.
    could = card is not None and card.shows_in_run and load(card).could_show(recording)
    return CLEARED if could else NOT_REACHED


def _lines(path: str) -> Sequence[str]:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return ()


def report(watched: Watched, style: Style) -> Iterator[str]:
    """The lines of the report: what was seen, what became of lint's suspicions, and where the time went."""
    yield ""
    yield style.paint("gpudoctor run", "bold")
    yield from wrap(_what_ran(watched.recording), style.width, "  ")
    yield ""
    yield from full.render(watched.found, watched.lines, style)
    if not watched.found:
        yield from _unexplained(watched.recording, style)
    yield from _suspicions(watched, style)
    times = times_of(watched.recording.ranks)
    if times:
        yield from _table(times, watched.recording, style)
    yield from _faults(watched.recording, style)


def standstill(waiting: Sequence[Waiting], style: Style) -> Iterator[str]:
    """What is printed at once when the ranks do not advance."""
    yield ""
    yield f"{style.paint('gpudoctor', 'bold')}: {style.paint('the ranks do not advance', 'error')}"
    for each in waiting:
        yield from wrap(_where(each), style.width, "  ")
        if each.place is not None:
            yield from frame(each.place, _lines, style)


def _where(each: Waiting) -> str:
    where = f" at {each.place.path}:{each.place.line}" if each.place else ""
    inside = f" in `{each.function}`" if each.function not in ("", "<module>") else ""
    if each.collective is not None:
        return f"Rank {each.rank} waits in {each.collective.name} number {each.collective.number}{where}{inside}."
    return f"Rank {each.rank} is{where or ' outside of your code'}{inside}."


def _unexplained(recording: Recording, style: Style) -> Iterator[str]:
    """An error that no rule knows: where it came from, and that we have nothing to add to it."""
    first = next(recording.crashes(), None)
    if first is not None and recording.status:
        process, crash = first
        who = f"Rank {process.rank}" if process.rank is not None else "The script"
        at = f" at {crash.place.path}:{crash.place.line}" if crash.place else ""
        yield from wrap(f"{who} ended with {crash.summary}{at}. No rule knows this error.", style.width, "  ")
        yield ""


def _what_ran(recording: Recording) -> str:
    ranks = len(recording.ranks)
    if not ranks:
        return f"No process of this command trained with PyTorch: no optimizer stepped; {_ending(recording)}."
    backend = recording.ranks[0].backend
    who = f"{ranks} ranks ({backend})" if ranks > 1 or backend else "one process, without a process group"
    steps = max(len(each.steps) for each in recording.ranks)
    return f"{who} made {steps} step{'' if steps == 1 else 's'} in {recording.seconds:.1f} s; {_ending(recording)}."


def _ending(recording: Recording) -> str:
    if recording.status is None:
        return "the job was ended by gpudoctor"
    return "exit code 0" if recording.status == 0 else f"the script failed with exit code {recording.status}"


def _suspicions(watched: Watched, style: Style) -> Iterator[str]:
    for state, look in ((CONFIRMED, "error"), (CLEARED, "help"), (NOT_REACHED, "dim")):
        for each in watched.suspicions:
            if each.state == state:
                at = each.finding.location
                label = f"{each.finding.code} {each.finding.name}"
                yield f"  {style.paint(f'{state:<11}', look)} {label} suspected at {at.path}:{at.line}"
    if watched.suspicions:
        yield ""
    elif not watched.found and not watched.recording.status:
        read = " and lint suspects none" if watched.linted else ""
        yield from wrap(f"No mistake was seen{read}.", style.width, "  ")
        yield ""


def _table(times: Sequence[RankTime], recording: Recording, style: Style) -> Iterator[str]:
    names = (*PARTS, "other")
    yield style.paint(f"  {'rank':>4} {'steps':>6} {'ms/step':>9}" + "".join(f"{name:>11}" for name in names), "dim")
    # A screen, not a log: JSON has all of them.
    for each in times[:16]:
        shares = "".join(f"{_share(each.parts[name], each.step):>11}" for name in names)
        yield f"  {each.rank:>4} {each.steps:>6} {each.step * 1e3:>9.2f}{shares}"
    if len(times) > 16:
        yield f"  and {len(times) - 16} more ranks"
    rate = samples_per_second(recording.ranks)
    overhead = max(each.overhead for each in times)
    speed = f"{rate:,.0f} samples/s over all ranks; " if rate else ""
    yield f"  {speed}watching took {overhead:.1%} of the time"


def _share(seconds: float, whole: float) -> str:
    return f"{seconds / whole:.0%}" if whole else "-"


def _faults(recording: Recording, style: Style) -> Iterator[str]:
    faults = {fault for each in recording.ranks for fault in each.faults}
    if faults:
        yield ""
        yield from wrap(
            f"Not all could be seen, because of an error in gpudoctor: {'; '.join(sorted(faults))}", style.width, "  "
        )


def document(watched: Watched) -> str:
    """The report as JSON: findings in the form of lint's, beside ranks, steps and timing."""
    recording = watched.recording
    return (
        json.dumps(
            {
                **document_of(watched.found),
                "status": recording.status,
                "seconds": round(recording.seconds, 3),
                "suspicions": [
                    {"code": each.finding.code, "path": each.finding.location.path, "line": each.finding.location.line}
                    | {"state": each.state}
                    for each in watched.suspicions
                ],
                "ranks": [_rank(each) for each in recording.ranks],
                "steps": {str(each.rank): [round(step.took, 6) for step in each.steps] for each in recording.ranks},
                "timing": [_timing(each) for each in times_of(recording.ranks)],
                "hang": [_hang(each) for each in recording.hang],
            },
            indent=2,
        )
        + "\n"
    )


def _rank(process: Any) -> dict[str, Any]:
    return {
        "rank": process.rank,
        "world_size": process.world,
        "local_rank": process.local_rank,
        "host": process.host,
        "pid": process.pid,
        "backend": process.backend,
        "torch": process.torch,
        "steps": len(process.steps),
        "device": next((each.device for each in process.optimizers), ""),
        "gpu": next((each.gpu for each in process.optimizers), ""),
        "crash": {"type": process.crash.type, "text": process.crash.text} if process.crash else None,
        "faults": list(process.faults),
    }


def _timing(each: RankTime) -> dict[str, Any]:
    return {
        "rank": each.rank,
        "step_seconds": round(each.step, 6),
        **{f"{name}_seconds": round(seconds, 6) for name, seconds in each.parts.items()},
        "memory_bytes": each.memory,
        "overhead": round(each.overhead, 4),
    }


def _hang(each: Waiting) -> dict[str, Any]:
    return {
        "rank": each.rank,
        "path": each.place.path if each.place else None,
        "line": each.place.line if each.place else None,
        "collective": each.collective.name if each.collective else None,
        "number": each.collective.number if each.collective else None,
    }
