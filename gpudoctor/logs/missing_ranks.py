"""Who was waited for: what the ranks that timed out say of the others."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from gpudoctor.logs.log_facts import GroupProgress, LogFact, LoggedCrash, Notice, ProcessExit, Timeout
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class MissingRanks:
    """Ranks that did not come to a collective. `ranks` is empty where all came, and something else stood still.

    `mismatch`: ranks called different collectives under one number.
    """

    ranks: tuple[int, ...]
    operation: str
    because: str
    sure: bool
    mismatch: bool = False


_LAGGING = re.compile(r"\[(?P<ranks>[\d, ]+)\] finished collective #\d+, but didn't join collective #(?P<number>\d+)")
_BARRIER = re.compile(r"Ranks? (?P<ranks>[\d, ]+) failed to pass monitoredBarrier|send/recv from rank (?P<rank>\d+)")
_FIRST_OF_GROUP = re.compile(
    r"\[(?P<own>\d+)\] is setting up NCCL comm\w+ and retrieving ncclUniqueId from \[(?P<rank>\d+)\]"
)
"""Numbers of the group, which are those of the job where the process has the one that it tells."""

_OF_ONE_SIZE = ("allreduce", "broadcast", "reduce", "allgather_base", "reduce_scatter_base")
"""What all ranks call with as many numbers."""
_STALLED = re.compile(r"\[(?P<kind>missing|ready)\s+ranks: (?P<ranks>\d[\d, ]*)\]")
"""Horovod, of a tensor that only some ranks have submitted."""


def missing_from(facts: Sequence[LogFact]) -> MissingRanks | None:
    """Who did not come, as far as the log tells; None where nobody waited."""
    told = _told(facts)
    timeouts = _of_one_group(facts)
    if told is not None or not timeouts:
        return told
    first = min((each.number for each in timeouts if each.number is not None), default=None)
    here = [each for each in timeouts if each.number == first]
    operation = next((each.operation for each in here if each.operation), "a collective")
    called = sorted({(each.by.rank, each.operation) for each in here if each.by.rank is not None and each.operation})
    if len({operation for _, operation in called}) > 1:
        each = "; ".join(f"rank {rank} {operation}" for rank, operation in called[:8])
        return MissingRanks(
            (), operation, f"ranks called different collectives under number {first}: {each}", True, True
        )
    sizes = {each.by.rank: each.elements for each in here if each.elements is not None and each.by.rank is not None}
    if operation in _OF_ONE_SIZE and len(set(sizes.values())) > 1:
        each = "; ".join(f"rank {rank} with {size} numbers" for rank, size in sorted(sizes.items())[:8])
        return MissingRanks((), operation, f"ranks called {operation} number {first} with unlike sizes: {each}", True)
    behind = _behind(facts, first)
    if behind:
        of = f"{operation} number {first}"
        return MissingRanks(behind, operation, f"{_ranks(behind)} never called {of}, for which the others waited", True)
    waited = {each.by.rank for each in here if each.by.rank is not None}
    spoke = {each.by.rank for each in facts if isinstance(each, (Timeout, GroupProgress)) or _gave_up(each)}
    silent = tuple(sorted(_known_ranks(facts) - waited - spoke))
    if 0 < len(silent) < len(waited):
        return MissingRanks(
            silent, operation, f"{_ranks(silent)} said nothing of {operation}, in which the others waited", False
        )
    because = "the ranks in this log waited: a rank whose log is missing, a kernel or the network hung"
    return MissingRanks((), operation, _apart(timeouts) or because, False)


def _gave_up(fact: LogFact) -> bool:
    """Its own line of the watchdog is not in the log, but what ended the process for it is."""
    return isinstance(fact, Notice) and "Watchdog caught" in fact.text


def _apart(timeouts: Sequence[Timeout]) -> str:
    """Ranks that waited under unlike numbers, else nothing. Old versions of torch do not tell the group."""
    stood: dict[int, tuple[int, str]] = {}
    for each in timeouts:
        if each.by.rank is not None and each.number is not None:
            here = each.number, each.operation
            stood[each.by.rank] = min(here, stood.get(each.by.rank, here))
    if len({number for number, _ in stood.values()}) < 2:
        return ""
    said = ", ".join(
        f"rank {rank} in {operation}{' ' if operation else ''}number {number}"
        for rank, (number, operation) in sorted(stood.items())[:8]
    )
    return f"they waited in different collectives, or for different groups of ranks: {said}"


def _of_one_group(facts: Sequence[LogFact]) -> list[Timeout]:
    """The timeouts of the group in which most ranks waited: numbers count in each group from the begin."""
    told = [fact for fact in facts if isinstance(fact, GroupProgress)]
    groups = {(each.by.rank, each.failed): each.group for each in told}
    failing = {each.failed: each.group for each in told}
    found: dict[str, list[Timeout]] = {}
    for fact in facts:
        if isinstance(fact, Timeout):
            # Where the line with the group of this rank is missing, the others tell it.
            of = groups.get((fact.by.rank, fact.number)) or failing.get(fact.number, "")
            found.setdefault(fact.group or of, []).append(fact)
    return max(found.values(), key=len, default=[])


def _told(facts: Sequence[LogFact]) -> MissingRanks | None:
    for fact in facts:
        text = fact.text if isinstance(fact, (Notice, LoggedCrash)) else ""
        if found := _LAGGING.search(text):
            ranks = _numbers(found["ranks"])
            because = f"{_ranks(ranks)} never called collective number {found['number']}, for which the others waited"
            return MissingRanks(ranks, "", because, True)
        if found := _BARRIER.search(text):
            ranks = _numbers(found["ranks"] or found["rank"])
            return MissingRanks(ranks, "barrier", f"{_ranks(ranks)} did not reach the barrier", True)
        if (found := _FIRST_OF_GROUP.search(text)) and fact.by.rank in (None, int(found["own"])):
            ranks = _numbers(found["rank"])
            because = f"{_ranks(ranks)} did not come to the first collective of the group, for which it makes the key"
            return MissingRanks(ranks, "", because, False)
        if found := _STALLED.search(text):
            came = _numbers(found["ranks"])
            ranks = _listed(facts) if found["kind"] == "missing" else tuple(sorted({*range(max(came) + 1)} - {*came}))
            if ranks:
                because = f"{_ranks(ranks)} did not submit what the others waited for"
                return MissingRanks(ranks, "", because, found["kind"] == "missing")
    return None


def _listed(facts: Iterable[LogFact]) -> tuple[int, ...]:
    """All that Horovod names as missing: in some versions of it, each has a line of its own."""
    texts = (fact.text for fact in facts if isinstance(fact, Notice))
    found = [each for each in map(_STALLED.search, texts) if each is not None and each["kind"] == "missing"]
    return tuple(sorted({rank for each in found for rank in _numbers(each["ranks"])}))


def _behind(facts: Iterable[LogFact], number: int | None) -> tuple[int, ...]:
    """Ranks that had not even queued the collective."""
    if number is None:
        return ()
    groups: dict[str, dict[int, int]] = {}
    for fact in facts:
        if isinstance(fact, GroupProgress) and fact.by.rank is not None:
            of = groups.setdefault(fact.group, {})
            of[fact.by.rank] = max(fact.enqueued, of.get(fact.by.rank, -1))
    failing = {fact.group for fact in facts if isinstance(fact, GroupProgress) and fact.failed == number}
    return tuple(sorted(r for group in failing for r, queued in groups[group].items() if 0 <= queued < number))


def _known_ranks(facts: Iterable[LogFact]) -> set[int]:
    ranks = {fact.by.rank for fact in facts if fact.by.rank is not None}
    failed = {fact.by.rank for fact in facts if isinstance(fact, ProcessExit) and fact.by.rank is not None}
    highest = max(ranks | failed, default=-1)
    return set(range(highest + 1))


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(sorted(int(number) for number in re.findall(r"\d+", text)))


def _ranks(ranks: Sequence[int]) -> str:
    return f"rank {ranks[0]}" if len(ranks) == 1 else f"ranks {', '.join(map(str, ranks))}"
