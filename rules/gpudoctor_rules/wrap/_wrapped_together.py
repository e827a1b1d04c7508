"""What a run shows of one wrapper on all ranks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.rule import Recording

if TYPE_CHECKING:
    from gpudoctor.run.recording import Process, RecordedWrap


def wrapped_together(recording: Recording) -> Iterator[list[tuple[Process, RecordedWrap]]]:
    """The wrappers that all ranks have made at the same place, each with its rank."""
    if not recording.distributed:
        return
    for wraps in zip(*(rank.wraps for rank in recording.ranks), strict=False):
        if len({(each.place, each.wrapper) for each in wraps}) == 1:
            yield list(zip(recording.ranks, wraps, strict=True))
