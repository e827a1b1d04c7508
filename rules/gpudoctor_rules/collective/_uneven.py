"""Ranks that have had different numbers of batches: one has come to the end of its loader, and others wait for it."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import permutations
from typing import TYPE_CHECKING

from gpudoctor.record import dataclass
from gpudoctor.run.recording import Pass, Process

if TYPE_CHECKING:
    from gpudoctor.run.recording import Recording

CODE = "GPU316"
LOST = ("Connection reset by peer", "Connection closed by peer")
"""What gloo says to a rank whose peer has ended."""


@dataclass(frozen=True)
class Uneven:
    """`short` has gone through its loader to the end, and `longer` made as many steps and had more batches."""

    short: Process
    longer: Process
    over: Pass
    going_on: Pass


def uneven(recording: Recording) -> Uneven | None:
    """The pass in which the ranks ran out of step, where they were stopped by that."""
    if not _stopped(recording):
        return None
    for short, longer in permutations(recording.ranks, 2):
        for over, going_on in _same_passes(short, longer):
            # A round without a backward is another mistake: the rank has left its others out of it.
            whole = over.ended and 0 < over.batches <= over.backwards
            if whole and _goes_on(longer, going_on, over):
                return Uneven(short, longer, over, going_on)
    return None


def _stopped(recording: Recording) -> bool:
    """The ranks wait for each other, or one was told that another is gone; nobody failed for a reason of its own."""
    crashes = [crash for _, crash in recording.crashes()]
    if any(not any(text in crash.text for text in LOST) for crash in crashes):
        return False
    return bool(recording.hang or crashes)


def _same_passes(one: Process, other: Process) -> Iterator[tuple[Pass, Pass]]:
    """Training passes that are the n-th ones of both, over the same loader."""
    by_number = {each.number: each for each in other.training_passes}
    for each in one.training_passes:
        counterpart = by_number.get(each.number)
        if counterpart is not None and counterpart.loader == each.loader:
            yield each, counterpart


def _goes_on(rank: Process, here: Pass, over: Pass) -> bool:
    if here.ended:
        return here.batches > over.batches
    # What a pass has done is written down now and then; steps are written at once.
    made = len(rank.steps) - here.first_step
    return here.number == rank.passes[-1].number and made >= over.steps
