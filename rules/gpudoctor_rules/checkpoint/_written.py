"""What a run shows of files that several ranks write."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location
from gpudoctor.lint.events.files import OF_ONE_NODE
from gpudoctor.record import dataclass
from gpudoctor.rule import Recording

if TYPE_CHECKING:
    from gpudoctor.run.recording import Process, Written

BY_LOCAL_RANK = "GPU602"


@dataclass(frozen=True)
class Twice:
    """One file that several ranks wrote after the same step: the first process of each node where `by_node`."""

    path: str
    step: int
    ranks: tuple[int, ...]
    at: Location
    by_node: bool
    added: bool = False
    """They added to what was there."""


def written_by_several(recording: Recording) -> Iterator[Twice]:
    """The first such file of each line that saves."""
    # Whom a framework lets write its own files is not for the program to say.
    saves = [(rank, save) for rank in recording.ranks for save in rank.saves if save.own]
    return _by_several(recording, saves)


def opened_by_several(recording: Recording, code: str) -> Iterator[Twice]:
    """The first such file of each line that opens one and that lint finds to write the same on all ranks: what is
    written then is not seen."""
    opens = [(rank, opened) for rank in recording.ranks for opened in rank.opens]
    suspected = [each for each in opens if each[1].place is not None and recording.suspects(code, each[1].place)]
    return _by_several(recording, suspected)


def _by_several(recording: Recording, written: list[tuple[Process, Written]]) -> Iterator[Twice]:
    writers: dict[tuple[str, int], list[tuple[Process, Written]]] = {}
    for rank, each in written:
        writers.setdefault((each.path, each.step), []).append((rank, each))
    told = set()
    for (path, step), saves in writers.items():
        by = list({rank.rank or 0: rank for rank, _ in saves}.values())
        first = saves[0][1]
        at = first.place
        if len(by) > 1 and at is not None and at not in told and not _on_own_disks(path, by):
            told.add(at)
            ranks = tuple(sorted(rank.rank or 0 for rank in by))
            yield Twice(path, step, ranks, at, _one_of_each_node(by, recording), first.mode.startswith("a"))


def _on_own_disks(path: str, by: list[Process]) -> bool:
    return path.startswith(OF_ONE_NODE) and len({rank.host for rank in by}) == len(by)


def _one_of_each_node(by: list[Process], recording: Recording) -> bool:
    if any(rank.local_rank != 0 for rank in by) or len({rank.node for rank in by}) < len(by):
        return False
    # With one process on each node, that is every rank, and only the code tells why.
    return BY_LOCAL_RANK in recording.suspected or any(rank.local_rank for rank in recording.ranks)
