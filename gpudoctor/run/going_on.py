"""Ranks that go on after they were told to end, or after another one has failed."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.record import dataclass
from gpudoctor.run.recording import Process, Recording

_SECONDS, _STEPS = 5.0, 3
"""From which on a rank is said to go on: who saves a checkpoint and ends makes no steps meanwhile."""


@dataclass(frozen=True)
class GoneOn:
    """A rank made so many `steps` for so many `seconds` after SIGTERM; where `failed` names a rank, after that one had
    failed."""

    rank: int | None
    seconds: float
    steps: int
    failed: int | None
    why: str
    """What the rank does at SIGTERM, as far as that was seen."""


def gone_on(recording: Recording) -> tuple[GoneOn, ...]:
    """All of them, in the order of ranks; pure."""
    return tuple(_of(recording))


def _of(recording: Recording) -> Iterator[GoneOn]:
    since, failed = recording.told_to_end, None
    if since is None:
        first = min(recording.crashes(), key=lambda each: each[1].at, default=None)
        if first is None or not recording.distributed:
            return
        since, failed = first[1].at, first[0].rank
    for each in recording.ranks:
        later = [step for step in each.steps if step.at > since]
        if len(later) >= _STEPS and later[-1].at - since > _SECONDS:
            count = sum(step.of for step in later)
            yield GoneOn(each.rank, round(later[-1].at - since, 1), count, failed, _why(each))


def _why(process: Process) -> str:
    if not process.on_sigterm:
        return ""
    found = process.on_sigterm[0]
    if found.ignored:
        return "it ignores SIGTERM"
    return f"what it does at SIGTERM, at {found.place.path}:{found.place.line}, does not end it" if found.place else ""


def in_words(each: GoneOn) -> str:
    """One of them as a sentence or two."""
    who = f"Rank {each.rank}" if each.rank is not None else "The process"
    after = "the job was told to end (SIGTERM)" if each.failed is None else f"rank {each.failed} had failed"
    why = f": {each.why}" if each.why else ""
    return (
        f"{who} went on for {each.seconds:.0f} s and {each.steps} steps after {after}{why}. Launchers and schedulers "
        "kill what has not ended after half a minute, in the middle of what it writes."
    )
