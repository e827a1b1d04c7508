"""One rank is slower than the others in nearly every step, and all of them wait for it.

## What goes wrong

`DistributedDataParallel` averages the gradients in each `backward()`, and that takes all ranks (the processes, one for
each GPU). So every step takes as long as that of the slowest rank, and the GPUs of the others idle for the rest of it,
although they show 100 % utilisation while they wait. One rank on a slow disk, with longer samples, on a GPU that is
throttled, or with a log to write, slows all of them down. The code does not show it: `gpudoctor run` measures it.

## Fix

The message says where the rank spends the time that the others wait for: data, transfer, compute or saving. Its
batches: look at its disk, its workers, and the length of its samples. Its copies to the GPU: pin the batches, and look
at the link. Its forward: look at the size of its batches and at its GPU (`gpudoctor probe`). Elsewhere: do what only
this rank does less often, or after the training.

## Silent when

Seen in a run only; lint never reports it. In a run: it is not always the same rank; it costs less than 15 % of a step;
the others do not wait in `backward()`, so that nothing shows that they wait for this rank; several optimizers step in
turn; fewer than eight steps were made after the first ones.

## Sources

https://docs.pytorch.org/docs/stable/notes/ddp.html.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from gpudoctor.diagnostic import Severity
from gpudoctor.rule import Findings, Recording, Rule

if TYPE_CHECKING:
    from gpudoctor.api.pack import Location
    from gpudoctor.run.recording import Process, Step

WARM_UP = 2
"""The first steps build buckets and choose algorithms."""
ENOUGH = 8
ALWAYS = 0.8
"""In so many of the steps it has to be the same rank."""
WORTH, NOTICEABLE = 0.15, 0.004
"""The share of a step, and the seconds, from which on it is worth telling."""

PARTS = {
    "wait": ("data", "waits for its batches", "Look at its disk, its workers, and how long its samples are."),
    "copy": (
        "transfer",
        "copies its batches to its GPU",
        "Look at the link of its GPU with `gpudoctor probe`, at the CPUs that it runs on, and pin the batches.",
    ),
    "forward": (
        "compute",
        "is in its forward",
        "Look at the size of its batches, and at its GPU with `gpudoctor probe`.",
    ),
    "optimizer": ("compute", "is in its optimizer", "Look at its GPU with `gpudoctor probe`."),
    "save": (
        "what it saves",
        "is in `torch.save`",
        "Save less often, on each rank its part, or in the background (`torch.distributed.checkpoint.async_save`).",
    ),
    "": (
        "the program",
        "is between the calls of a step",
        "Do what only this rank does less often, or after the training.",
    ),
}
"""Of the parts of a step: what is slow, what the rank does there, and what to look at."""


class Lag(NamedTuple):
    """How far a rank is behind the others in a step, in seconds, and where it spends that."""

    rank: Process
    seconds: float
    step: float
    part: str


class RankLagsBehind(Rule):
    code = "GPU809"
    severity = Severity.PERF

    def in_run(self, recording: Recording) -> Findings:
        lag = _lag(recording.ranks) if self.could_show(recording) else None
        place = _place(lag) if lag is not None else None
        if lag is None or place is None:
            return
        slow, where, remedy = PARTS[lag.part]
        yield self.found(
            place,
            f"Rank {lag.rank.rank} makes the other ranks wait for {1000 * lag.seconds:.0f} ms of each step, which is "
            f"{min(lag.seconds / lag.step, 1):.0%} of it. What is slow is {slow}: it {where} for so much longer.",
            remedy=remedy,
        )

    def could_show(self, recording: Recording) -> bool:
        ranks = recording.ranks
        return recording.distributed and all(len(each.steps) >= WARM_UP + ENOUGH for each in ranks)


def _lag(ranks: Sequence[Process]) -> Lag | None:
    count = min(len(each.steps) for each in ranks)
    rows = [each.steps[WARM_UP:count] for each in ranks]
    # Two optimizers in turn: what lies between two steps is not the same thing each time.
    if len({step.optimizer for row in rows for step in row}) != 1:
        return None
    slowest = [max(range(len(ranks)), key=lambda rank: _busy(rows[rank][at])) for at in range(len(rows[0]))]
    rank = statistics.mode(slowest)
    if slowest.count(rank) < ALWAYS * len(slowest):
        return None
    step = statistics.median(each.took for each in rows[rank])
    behind = _behind(rows, rank, _busy)
    waits = -_behind(rows, rank, lambda each: each.spans.get("backward", 0.0))
    # The others have to be seen waiting, or their GPUs have other work meanwhile.
    if behind < max(WORTH * step, NOTICEABLE) or waits < behind / 2:
        return None
    parts = {name: _behind(rows, rank, lambda each, name=name: _spent(each, name)) for name in PARTS}  # type: ignore[misc]
    return Lag(ranks[rank], behind, step, max(parts, key=parts.__getitem__))


def _busy(step: Step) -> float:
    """What the rank does by itself: a backward waits for the others."""
    return step.took - step.spans.get("backward", 0.0)


def _spent(step: Step, part: str) -> float:
    if part:
        return step.spans.get(part, 0.0)
    return _busy(step) - sum(step.spans.get(name, 0.0) for name in PARTS if name)


def _behind(rows: Sequence[Sequence[Step]], rank: int, of: Callable[[Step], float]) -> float:
    """By how much this rank exceeds the middle one of the others, in a middle step."""
    middle = [statistics.median(map(of, row)) for row in rows]
    return middle[rank] - statistics.median(each for at, each in enumerate(middle) if at != rank)


def _place(lag: Lag) -> Location | None:
    """The loader where it waits for batches, else where the others wait."""
    rank = lag.rank
    made = next((each.made for each in rank.training_passes if each.made is not None), None)
    backward = rank.backward or next((each.place for each in rank.optimizers), None)
    return (made if lag.part == "wait" else None) or backward or made
