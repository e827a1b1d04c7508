"""Which kind a hang is: a rank has ended, does not get on by itself, or is elsewhere; or all are there; or no rank
waits for another at all.

The stacks of all ranks are compared: who stands where the fewest do is named, as ByteRobust does on thousands of GPUs.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

from gpudoctor.record import dataclass
from gpudoctor.run.recording import Waiting


class HangKind(enum.Enum):
    """What keeps the ranks from advancing."""

    RANK_ENDED = "rank ended"
    INTERPRETER_STUCK = "interpreter stuck"
    RANK_MISSING = "rank missing"
    COLLECTIVES_DIFFER = "collectives differ"
    KERNEL_STUCK = "kernel stuck"
    NOBODY_SENDS = "nobody sends"
    NO_COLLECTIVE = "no collective open"


@dataclass(frozen=True)
class HangVerdict:
    """The kind, the ranks that are the cause of it (none where all wait alike), and a sentence."""

    kind: HangKind
    ranks: tuple[int, ...]
    text: str


def verdict_of(waiting: Sequence[Waiting]) -> HangVerdict | None:
    """What a hang is, from where each rank stood; None where there was none."""
    if not waiting:
        return None
    ended = tuple(each.rank for each in waiting if each.silence == "has ended")
    mute = tuple(each.rank for each in waiting if each.silence in ("does not answer", "is stopped"))
    # Who stands in such a call waits for nobody.
    if ended and not (mute and all(each.silence for each in waiting)):
        text = f"{_named(ended)} had ended, and the others wait for {_it(ended)}."
        return HangVerdict(HangKind.RANK_ENDED, ended, text)
    lost = tuple(each.rank for each in waiting if each.silence == "cannot be reached")
    if lost:
        text = f"{_named(lost)} cannot be reached: stopped, or the node or its network is down."
        return HangVerdict(HangKind.RANK_MISSING, lost, text)
    if mute:
        why = "a call keeps Python's lock, or the process was stopped"
        return HangVerdict(HangKind.INTERPRETER_STUCK, mute, f"{_named(mute)} cannot answer: {why}.")
    if not any(each.waits for each in waiting):
        return _outside(waiting)
    if all(each.receives for each in waiting):
        text = "Each rank waits for what another one sends, and none sends first: let one side send while the other"
        return HangVerdict(HangKind.NOBODY_SENDS, (), f"{text} receives.")
    elsewhere = [each for each in waiting if not each.waits and each.collective is None]
    if elsewhere:
        ranks = tuple(each.rank for each in elsewhere)
        slow = ", but computes, and may only be slow" if all(each.works for each in elsewhere) else ""
        text = f"{_named(ranks)} did not reach what the others wait in{slow}."
        return HangVerdict(HangKind.RANK_MISSING, ranks, text)
    receiving = tuple(each.rank for each in waiting if each.receives)
    if receiving and not any(each.told for each in waiting):
        text = f"{_named(receiving)} receives" if len(receiving) == 1 else f"{_named(receiving)} receive"
        return HangVerdict(HangKind.NOBODY_SENDS, receiving, f"{text}, and no rank sends: the others wait, too.")
    unlike = [each for each in waiting if each.told and each.waits]
    if unlike:
        ranks = tuple(each.rank for each in unlike)
        text = "The ranks call what does not fit together: NCCL does not compare it, and mostly waits forever."
        return HangVerdict(HangKind.COLLECTIVES_DIFFER, ranks, text)
    if len({_standing(each) for each in waiting}) > 1:
        apart = _minority(waiting)
        told = f": {_named(apart)} in another than most" if apart else ""
        return HangVerdict(HangKind.COLLECTIVES_DIFFER, apart, f"The ranks wait in different collectives{told}.")
    if any(one.crosses(other) for one, other in combinations(waiting, 2)):
        text = "The ranks wait in collectives of different groups to which they all belong, each for the others."
        return HangVerdict(HangKind.COLLECTIVES_DIFFER, (), text)
    if len({each.root for each in waiting}) > 1:
        named = ", ".join(f"rank {each.rank} `{each.root or 'none'}`" for each in waiting)
        text = f"All ranks wait in one collective, and name different ranks in it: {named}."
        return HangVerdict(HangKind.COLLECTIVES_DIFFER, (), text)
    why = "all have called it: a kernel is stuck, or the network"
    return HangVerdict(HangKind.KERNEL_STUCK, (), f"All ranks wait in one collective, and {why}.")


def _outside(waiting: Sequence[Waiting]) -> HangVerdict:
    """Ranks that stand in a loader, in a file or at a lock."""
    if len({_standing(each) for each in waiting}) == 1:
        who = "it stands" if len(waiting) == 1 else "all ranks stand"
        text = f"No collective is open, and {who} at one line: what it waits for there never arrives."
        return HangVerdict(HangKind.NO_COLLECTIVE, (), text)
    apart = _minority(waiting)
    told = f"{_named(apart)} at another line than most" if apart else "the ranks at different lines"
    return HangVerdict(HangKind.NO_COLLECTIVE, apart, f"No collective is open; {told}, and no rank computes anything.")


def _minority(waiting: Sequence[Waiting]) -> tuple[int, ...]:
    """Who stands where the fewest do; nobody, where that can be said of all."""
    places = Counter(_standing(each) for each in waiting)
    fewest = min(places.values())
    apart = tuple(each.rank for each in waiting if places[_standing(each)] == fewest)
    return apart if len(apart) < len(waiting) else ()


def _standing(each: Waiting) -> tuple[object, ...]:
    """The collective that a rank waits in; the line, where that is not known."""
    if each.collective is not None:
        return each.collective.name, each.collective.number
    return (each.place.path, each.place.line) if each.place else ()


def _named(ranks: Sequence[int]) -> str:
    if len(ranks) == 1:
        return f"Rank {ranks[0]}"
    return f"Ranks {', '.join(map(str, ranks[:-1]))} and {ranks[-1]}"


def _it(ranks: Sequence[int]) -> str:
    return "it" if len(ranks) == 1 else "them"
