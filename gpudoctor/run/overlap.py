"""Which part of its data each rank shares with each other one, in one epoch."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.record import dataclass
from gpudoctor.run.recording import Pass, Recording

MOST_RANKS = 32
"""That are compared with each other: the first ones."""


@dataclass(frozen=True)
class Overlap:
    """For each pair of ranks, the share of what the one with less saw that the other saw, too. `unit` is `samples`, or
    `batches` where samples have no places in a data set and batches are told apart by their content."""

    epoch: int
    unit: str
    ranks: tuple[int, ...]
    shares: tuple[tuple[float, ...], ...]

    @property
    def worst(self) -> tuple[int, int, float] | None:
        """Two ranks that share most, and how much; None where there is one rank."""
        found = [
            (share, self.ranks[one], self.ranks[other])
            for one, row in enumerate(self.shares)
            for other, share in enumerate(row)
            if one < other
        ]
        share, one, other = max(found, key=lambda each: (each[0], -each[1], -each[2]), default=(0.0, 0, 0))
        return (one, other, share) if found else None


def overlap(recording: Recording) -> Overlap | None:
    """Of the epoch in which most was seen, the first of them; None where nothing can be compared."""
    ranks = recording.ranks[:MOST_RANKS]
    epochs = list(enumerate(zip(*(each.training_passes for each in ranks), strict=False)))
    if len(ranks) < 2 or not epochs:
        return None
    epoch, passes = max(epochs, key=lambda each: min(one.batches for one in each[1]))
    seen, unit = _seen(passes)
    if not all(seen):
        return None
    shares = tuple(tuple(len(one & other) / min(len(one), len(other)) for other in seen) for one in seen)
    return Overlap(epoch, unit, tuple(each.rank or 0 for each in ranks), shares)


def why_no_overlap(recording: Recording) -> str:
    """Why the data of the ranks was not compared; empty where it was."""
    if recording.others_elsewhere and not recording.distributed:
        return "this is the only rank of its node, and each node reports of its own ranks"
    if not recording.distributed:
        return "a single process shares its data with no other"
    if not all(each.training_passes for each in recording.ranks[:MOST_RANKS]):
        return "not every rank trained on batches of a `DataLoader`, so that nothing is known of its samples"
    return "" if overlap(recording) else "the content of the batches could not be read without waiting for a GPU"


def _seen(passes: Sequence[Pass]) -> tuple[list[frozenset[int | str]], str]:
    """What each rank saw: places in a data set of one size, or else batches by their content."""
    if all(each.places for each in passes) and len({each.size for each in passes}) == 1:
        return [frozenset(each.places or ()) for each in passes], "samples"
    return [frozenset(name for name in each.prints if name) for each in passes], "batches"
