"""What a run shows of single numbers that the ranks add up, and of what the program reads then."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.record import dataclass
from gpudoctor.rule import Recording

if TYPE_CHECKING:
    from collections.abc import Iterator

    from gpudoctor.api.pack import Location
    from gpudoctor.run.recording import Process
    from gpudoctor.run.recording.call_counts import Result, Sum, TensorRead


@dataclass(frozen=True)
class SummedNumber:
    """A number that a rank has read, and that comes from a sum over the ranks in some way."""

    rank: Process
    sum: Sum
    read: TensorRead
    result: Result


def added_up(recording: Recording) -> tuple[Location, ...]:
    """The lines at which the ranks have added up single numbers."""
    return tuple(sorted({each.place for rank in recording.ranks for each in rank.sums if each.place is not None}))


def answers(recording: Recording, line: Location) -> list[SummedNumber]:
    """What all ranks have read of the sums of this line."""
    return list(_answers(recording, line))


def _answers(recording: Recording, line: Location) -> Iterator[SummedNumber]:
    for rank in recording.ranks:
        sums = {each.number: each for each in rank.sums if each.place == line}
        for read in rank.reads:
            for result in read.results:
                if result.sum in sums:
                    yield SummedNumber(rank, sums[result.sum], read, result)


def of_one_round(found: list[SummedNumber], many: int) -> list[SummedNumber]:
    """One answer of each rank, read at one line after one step; empty where not all of so many ranks have one."""
    for first in found:
        same = {each.rank.pid: each for each in found if _alike(each, first)}
        if len(same) == many:
            return list(same.values())
    return []


def _alike(one: SummedNumber, other: SummedNumber) -> bool:
    return one.read.place == other.read.place and one.result.step == other.result.step


def told(found: list[SummedNumber]) -> str:
    """`0.8076 on rank 0, 0.3976 on rank 1`."""
    return ", ".join(f"{each.result.value:.4g} on rank {each.rank.rank}" for each in found[:_MOST])


_MOST = 4
