"""One failure a process: what a log says of it in several places, put together."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gpudoctor.logs.endings import CUT, OUT_OF_MEMORY, SIGKILL, VAGUE
from gpudoctor.logs.error_texts import ABORTED, AT_THE_END
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.logged_failure import LoggedFailure, may_have_local_rank
from gpudoctor.logs.speakers import TASK, Speaker
from gpudoctor.record import replace

_RENDEZVOUS = re.compile(r"elastic\.rendezvous\b.*Rendezvous\w*Error")
"""What only a launcher raises."""
_SAYS_NOTHING = ("killed by SIGKILL", "killed by SIGTERM")
"""Signals that leave a process no time to print an error."""


def merged(failures: Sequence[LoggedFailure]) -> list[LoggedFailure]:
    """One failure a process: what a process said itself counts, and its exit code only where it said nothing."""
    told = _whole(_once([each for each in failures if not each.exit]))
    told, exits = _out_of_memory(told, _once([each for each in failures if each.exit]))
    if any(each.by.local_rank is not None for each in exits) or any(_of_launcher(each) for each in told):
        # Each of SLURM's tasks is a launcher, that ends with what it has told itself.
        tasks = [each for each in exits if each.by.tag == TASK]
        exits = [each for each in exits if each not in tasks]
        told = [_of_task(each, tasks[0]) if tasks and _of_launcher(each) else each for each in told]
    named = {each.by.local_rank for each in exits if each.by.rank is not None}
    left: list[LoggedFailure] = []
    nameless = [index for index, one in enumerate(told) if not one.by.is_known and not one.by.tag]
    for each in exits:
        if each.by.rank is None and (each.by.local_rank in named or len(told) != len(nameless)):
            # The launcher says it once more, with the rank.
            continue
        own = [index for index, one in enumerate(told) if _may_be(one.by, each.by)]
        for index in own:
            told[index] = _ended_so(told[index], each)
        if not own:
            left.append(each)
    # Those that lost another, or waited for it, are not whose end the launcher saw first.
    nameless = [index for index in nameless if told[index].role is FailureRole.OWN] or nameless
    whose = len(nameless) == 1 and (len(left) == 1 or told[nameless[0]].role is FailureRole.OWN)
    speaking = [each for each in left if not each.text.startswith(_SAYS_NOTHING)]
    # SLURM tells of its tasks in no order.
    whose = whose and not (len(speaking) > 1 and all(each.by.tag == TASK for each in speaking))
    if whose and len({each.text for each in speaking}) == 1:
        # Which process has said it is not in the log, but whose error it must be: of several that end alike, it is that
        # of the first one at least. Those that a launcher has stopped had no time for it.
        end = next((each for each in speaking if each.root), speaking[0])
        left.remove(end)
        told[nameless[0]] = _ended_so(told[nameless[0]], end)
    return sorted([*told, *left], key=lambda each: each.at.order)


def _of_launcher(told: LoggedFailure) -> bool:
    return _RENDEZVOUS.search(told.text) is not None


def _of_task(launcher: LoggedFailure, first: LoggedFailure) -> LoggedFailure:
    """A launcher that does not tell which task it was is that of the one that ended first."""
    nameless = not (launcher.by.is_known or launcher.by.tag or launcher.by.host)
    return replace(launcher, by=Speaker(tag=f"{TASK} {first.by.rank}")) if nameless else launcher


def _out_of_memory(
    told: list[LoggedFailure], exits: list[LoggedFailure]
) -> tuple[list[LoggedFailure], list[LoggedFailure]]:
    """Where the kernel, or SLURM, says that memory was out, and not for whom, it was for those that were killed."""
    why = [each for each in told if each.meaning is OUT_OF_MEMORY and not each.by.is_known]
    if not why or not any(each.meaning is SIGKILL and (each.by.is_known or each.by.tag) for each in exits):
        return told, exits
    named = [
        replace(each, text=f"{each.text}: {why[0].summary}", meaning=OUT_OF_MEMORY) if each.meaning is SIGKILL else each
        for each in exits
    ]
    return [each for each in told if each not in why], named


def _ended_so(one: LoggedFailure, end: LoggedFailure) -> LoggedFailure:
    by = end.by if one.by.rank is None else one.by
    return replace(one, by=by, root=end.root, time=end.time)


def _whole(told: Sequence[LoggedFailure]) -> list[LoggedFailure]:
    """What a log tells of one failure in two places, together.

    Where a traceback has no error, it is that of the error which the same process told; what the C++ side of a process
    says with its rank is what Python says without it; and NCCL's warning is why NCCL's call failed.
    """
    kept = list(told)
    for each in [one for one in told if one.cut]:
        others = [one for one in kept if not one.cut and (one.by == each.by or not each.by.is_known)]
        others = [one for one in others if one.meaning is None or one.meaning.library != "ray" or one.by == each.by]
        if not others:
            error = next((one for one in kept if _stands_above(one, each)), None)
            if error is not None:
                by = error.by if error.by.is_known else each.by
                kept[kept.index(error)] = replace(error, by=by, place=each.place)
            if error is not None or (each.place is None and each.text == CUT and not each.by.is_known):
                kept.remove(each)
            continue
        kept.remove(each)
        mine = [one for one in others if one.by == each.by]
        alike = not each.by.is_known and all(one.waits_like(others[0]) for one in others)
        if alike or (not each.by.is_known and len(others) == 1):
            # Whoever's it is: those that wait for each other in one collective stand at one line.
            mine = others
        bare = [one for one in mine if not (one.place and one.place.own)]
        # Calls that begin below an error, above which it has its own, are of the next process.
        bare = [one for one in bare if not (one.headless and one.stands_before(each))]
        if each.text == CUT and each.place is not None and (alike or len(bare) == 1):
            for one in bare:
                kept[kept.index(one)] = replace(one, place=each.place)
    parts = [one for one in kept if one.cut or one.meaning in VAGUE]
    for each in [one for one in parts if one.by.rank is not None and one.place is not None]:
        # NCCL names the GPU, a kernel nothing, and Python the rank.
        whole = [one for one in kept if one is not each and not one.cut]
        if len(whole) == 1 and _native(whole[0]) and len(kept) == 2:
            local, host = whole[0].by.local_rank, whole[0].by.host
            if local is None or may_have_local_rank(each.by, local):
                kept.remove(each)
                by = replace(each.by, local_rank=local, host=host or each.by.host)
                kept[kept.index(whole[0])] = replace(whole[0], by=by, place=each.place)
    for each in [one for one in kept if not one.by.is_known and not one.by.tag]:
        twins = [one for one in kept if one.by.is_known and _one_error(one, each)]
        if len(twins) > 1 and each.meaning in VAGUE:
            kept.remove(each)
        if len(twins) == 1 and (twins[0].place is None or each.place in (None, twins[0].place)):
            kept.remove(each)
            place, text = each.place or twins[0].place, _telling(twins[0], each).text
            at = min(each.at, twins[0].at, key=lambda one: one.order)
            kept[kept.index(twins[0])] = replace(twins[0], place=place, text=text, at=at)
    return kept


def _stands_above(error: LoggedFailure, calls: LoggedFailure) -> bool:
    """An error without calls right before calls without an error: some loggers write it first."""
    bare = error.cut and error.text != CUT and error.place is None
    between = calls.at.line - error.at.line - error.text.count("\n") - 1
    one = error.by == calls.by or not (error.by.is_known or error.by.tag)
    return bare and calls.text == CUT and one and error.at.path == calls.at.path and between in (0, 1)


def _native(each: LoggedFailure) -> bool:
    """A line of native code that may be of any rank."""
    if each.by.rank is not None or each.place is not None or each.exit or each.meaning is None:
        return False
    return each.meaning.library in ("nccl", "cuda", "driver") and (each.tells_why or each.by.local_rank is None)


def _one_error(one: LoggedFailure, other: LoggedFailure) -> bool:
    if one.place is not None and one.place == other.place and one.kind == other.kind:
        # The program has logged it, and its launcher tells it once more.
        return True
    if one.meaning is None or other.meaning is None:
        return False
    return one.meaning is other.meaning or (one.meaning.library == "nccl" and other.meaning in VAGUE)


def _telling(one: LoggedFailure, other: LoggedFailure) -> LoggedFailure:
    """Python's text, where both mean the same."""
    return other if one.meaning is other.meaning and other.place is not None else one


def _once(failures: Sequence[LoggedFailure]) -> list[LoggedFailure]:
    """Without what a process said twice: an error as C++ prints it, and once more as Python does."""
    said: dict[Speaker, list[LoggedFailure]] = {}
    for each in sorted(failures, key=lambda one: one.at.order):
        kept = said.setdefault(each.by, [])
        twin = next((number for number, one in enumerate(kept) if _echoes(one, each)), None)
        if twin is None:
            kept.append(each)
        elif each.place is not None and kept[twin].place is None:
            kept[twin] = replace(each, at=kept[twin].at)
    return sorted((each for kept in said.values() for each in kept), key=lambda one: one.at.order)


def _echoes(one: LoggedFailure, other: LoggedFailure) -> bool:
    if one.exit or other.exit:
        return one.exit == other.exit
    if one.place and other.place and one.place != other.place:
        return False
    if one.meaning is AT_THE_END and other.meaning is ABORTED:
        return True
    return one.meaning is other.meaning if one.meaning else one.summary == other.summary


def _may_be(speaker: Speaker, named: Speaker) -> bool:
    if speaker.rank is not None:
        return speaker.rank == named.rank
    return speaker.local_rank is not None and speaker.local_rank == named.local_rank
