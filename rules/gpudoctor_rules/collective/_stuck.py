"""Ranks that wait for others who do not come: what a hang shows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.run.recording import Recording, Waiting


@dataclass(frozen=True)
class Stuck:
    """`kind` says in what the rank waits: a `collective` of the program's own, or DDP's in a `forward` or "
    "`backward`."""

    kind: str
    at: Location
    message: str
    because: tuple[tuple[str, Location | None], ...]


def stuck(recording: Recording) -> Stuck | None:
    """The wait that ended the progress of the ranks, or None where they did not hang."""
    waits = [each for each in recording.hang if each.collective is not None and each.place is not None]
    if not waits:
        return None
    # A wait in the program's own collective is the one that some rank should not have begun, or all should have.
    first = min(waits, key=lambda each: (_ORDER[_kind(each)], each.rank))
    assert first.place is not None
    assert first.collective is not None
    others = [each for each in recording.hang if each.rank != first.rank]
    gone = sorted(each.rank for each in recording.ranks if each.rank is not None and each.rank not in _ranks(recording))
    kind = _kind(first)
    what = {"forward": "the forward of the wrapper", "backward": "the averaging of gradients"}.get(
        kind, f"`{first.collective.name}`"
    )
    return Stuck(
        kind,
        first.place,
        f"Rank {first.rank} waits in {what} for the others without end: {_elsewhere(others, gone)}.",
        tuple((f"rank {each.rank} is here", each.place) for each in others),
    )


_ORDER = {"forward": 0, "collective": 1, "backward": 2}


def _kind(waiting: Waiting) -> str:
    for frame in waiting.stack:
        if frame.own:
            break
        if frame.location.path.endswith("torch/nn/parallel/distributed.py"):
            return "forward"
        if frame.location.path.endswith("torch/autograd/graph.py"):
            return "backward"
    return "collective"


def _ranks(recording: Recording) -> set[int]:
    return {each.rank for each in recording.hang}


def _elsewhere(others: Sequence[Waiting], gone: Sequence[int]) -> str:
    told = [_where(each) for each in others]
    told += [f"rank {rank} has ended" for rank in gone]
    return " and ".join(told) or "they are elsewhere"


def _where(each: Waiting) -> str:
    line = f" at line {each.place.line}" if each.place else ""
    if each.collective is None:
        return f"rank {each.rank} is elsewhere{line}"
    return f"rank {each.rank} waits in `{each.collective.name}`{line}"
