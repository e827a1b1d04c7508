"""The page as an outline: what of a run goes into each part, and why a part is empty."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Severity
from gpudoctor.html.page_frame import environment
from gpudoctor.page_address import read_more
from gpudoctor.report.frame import excerpt
from gpudoctor.report.story import story
from gpudoctor.run.agreement import agreements, why_no_agreement
from gpudoctor.run.outcome import CLEARED, CONFIRMED, NOT_REACHED, Watched, faults, what_ran, where
from gpudoctor.run.overlap import MOST_RANKS, overlap, why_no_overlap
from gpudoctor.run.page.lanes import lanes_of
from gpudoctor.run.page.memory import memory_chart
from gpudoctor.run.page.parts import parts_chart
from gpudoctor.run.page.shared import agreement_chart, overlap_chart
from gpudoctor.run.recording import Process, Recording
from gpudoctor.run.recording_reader import shown
from gpudoctor.run.timing import ON_GPU, PARTS, samples_per_second, times_of, tokens_per_second

_MARKS = {
    "error": ("fail", "\N{MULTIPLICATION SIGN}"),
    "warning": ("warn", "!"),
    "perf": ("other", "\N{BLACK RIGHT-POINTING SMALL TRIANGLE}"),
    "info": ("other", "\N{EN DASH}"),
    CONFIRMED: ("fail", "\N{MULTIPLICATION SIGN}"),
    CLEARED: ("pass", "\N{CHECK MARK}"),
    NOT_REACHED: ("other", "\N{EN DASH}"),
}
"""The colour of a word, and the mark beside it: it must be understood without colours, too."""
_WORST_FIRST = sorted(Severity, key=lambda severity: -severity.weight)
_STATES = (CONFIRMED, CLEARED, NOT_REACHED)


def page_of(watched: Watched) -> str:
    """The report as one HTML document."""
    recording = watched.recording
    found = environment("gpudoctor.run.page")
    found.filters["finely"] = lambda share: f"{share:.1%}".replace("%", "\N{NO-BREAK SPACE}%")
    found.globals.update(
        marks=_MARKS,
        excerpt=lambda at: excerpt(at, watched.lines),
        blocks=lambda text: list(_blocks(text)),
        story=story,
        read_more=read_more,
        where=where,
        ended=_ended,
    )
    times = times_of(recording.timed_ranks)
    shared = overlap(recording)
    agreed = agreements(recording)
    page: str = found.get_template("run.html.j2").render(
        heading=_heading(recording),
        told=what_ran(recording),
        recording=recording,
        findings=sorted(watched.found, key=lambda each: _WORST_FIRST.index(each.severity)),
        counts={severity.value: sum(each.severity is severity for each in watched.found) for severity in _WORST_FIRST},
        suspicions=sorted(watched.suspicions, key=lambda each: _STATES.index(each.state)),
        linted=watched.linted,
        unexplained=watched.unexplained,
        faults=faults(recording),
        times=times,
        parts=[name for name in PARTS if any(name in each.parts for each in times)],
        parts_chart=parts_chart(times),
        on_gpu=ON_GPU if any(each.on_gpu for each in times) else "",
        samples=samples_per_second(recording.timed_ranks),
        tokens=tokens_per_second(recording.timed_ranks),
        lanes=lanes_of(recording.ranks),
        shared=shared,
        shared_chart=overlap_chart(shared) if shared else None,
        not_shared=why_no_overlap(recording),
        most_ranks=MOST_RANKS,
        agreed=agreed,
        agreed_chart=agreement_chart(agreed, _optimizers(recording)) if agreed else None,
        not_agreed=why_no_agreement(recording),
        memory=memory_chart(recording.ranks),
    )
    return page


def _heading(recording: Recording) -> str:
    every = (*recording.ranks, *recording.others)
    main = next((each.main for each in every if each.main), "")
    return shown(main) if main else "no program that uses PyTorch"


def _optimizers(recording: Recording) -> dict[int, str]:
    """What optimizers are called: by their type, and a number where there are several."""
    held = recording.ranks[0].optimizers
    many = len(held) > 1
    return {each.number: f"{each.type} {each.number + 1}" if many else each.type for each in held}


def _blocks(text: str) -> Iterator[tuple[bool, str]]:
    """The pieces of a text: whether each is code, which is indented by four blanks, and what it says."""
    code: list[str] = []
    for line in text.strip("\n").split("\n"):
        if line.startswith("    "):
            code.append(line[4:])
            continue
        if code:
            yield True, "\n".join(code)
            code = []
        yield False, line
    if code:
        yield True, "\n".join(code)


def _ended(process: Process) -> str:
    if process.crash is not None:
        return process.crash.summary
    return "came to its end" if process.over else "was ended before its end"
