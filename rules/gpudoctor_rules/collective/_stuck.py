"""Ranks that wait for others who do not come: what a hang shows, or the crash that gloo makes of one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass
from gpudoctor.rule import Findings, Recording, Rule

if TYPE_CHECKING:
    from gpudoctor.run.recording import Pass, Process, Waiting
    from gpudoctor.run.recording.call_counts import RecordedCollective
    from gpudoctor.run.recording.process_ends import Crash, StackFrame, Terminated

COLLECTIVE, FORWARD, BACKWARD = "GPU501", "GPU502", "GPU503"
"""What the wait shows by itself: the program's own collective, or DDP's in a forward or a backward. A rank that has
left the loop of the others waits somewhere, too, so where lint suspects one of these, that is what it is."""
UNLIKE_SIZES = "GPU518"
ORDER = "GPU512"
"""What it is where ranks wait in groups to which all of them belong."""
ROUNDS = "GPU517"
"""What it is where all ranks called the same again and again, and one of them once more than the others."""


@dataclass(frozen=True)
class Stuck:
    """`code` names the mistake; `at` is the line of a rank that waits, `because` has the places of the others."""

    code: str
    at: Location
    message: str
    because: tuple[tuple[str, Location | None], ...]
    on_the_way: tuple[Location, ...] = ()
    """The calls of the program that led to `at`, the innermost first."""


def standstill(rule: Rule, recording: Recording, remedy: str) -> Findings:
    """The mistake of this rule, where it is what ended the progress of the ranks."""
    left = _stuck(recording)
    if left is not None and left.code == rule.code:
        # A helper may be right for others: lint has found where the author acts.
        at = next((place for place in left.on_the_way if recording.finds(rule.code, place)), left.at)
        called = (("it waits in this call", left.at),) if at != left.at else ()
        yield rule.found(at, left.message, remedy=remedy, because=(*called, *left.because))


def _stuck(recording: Recording) -> Stuck | None:
    """The wait that ended the progress of the ranks, or None where they did not hang, or ran out of batches."""
    if recording.uneven is not None:
        return None
    waits = [each for each in recording.hang if each.waits and each.place is not None and not _joins(each.stack)]
    # Who waits for parts of a sharded state is told by GPU605, and ranks that all receive by the verdict on the hang.
    if any(each.asks_for_state for each in waits) or (recording.hang and all(each.receives for each in recording.hang)):
        return None
    if not waits:
        return _torn(recording)
    # Who sends other sizes than the others expect, or names another rank as its source, has called what all have
    # called: the verdict on the hang says so.
    at_one = len({each.place for each in waits}) == 1
    if (at_one or any(each.receives for each in waits)) and any(each.told for each in waits):
        return None
    if at_one and len({each.root for each in waits}) > 1 and len(waits) == len(recording.hang):
        return None
    # Who receives has called no collective; only the order of calls may be why nobody sends.
    if any(each.receives for each in waits) and not any(each.told for each in waits) and not _suspected(recording):
        return None
    alone = next((each for each in waits if _left_alone(each, recording)), None)
    # All have called the same again and again, and one of them goes round once more.
    again = next((each for each in waits if all(other.before == each.place for other in recording.hang)), None)
    first = alone or again or min(waits, key=lambda each: (_ORDER.get(_kind(each.stack), 1), each.rank))
    others = [each for each in recording.hang if each.rank != first.rank]
    # Who is busy with something of its own may only be slow, and come later, but not to an iteration that it has left.
    if not alone and any(not each.waits and each.silence != _ENDED for each in others) and not _suspected(recording):
        return None
    here = {each.rank for each in recording.hang}
    gone = [each.rank for each in recording.ranks if each.rank not in here and each.rank is not None]
    assert first.place is not None
    crossing = [each for each in waits if each.crosses(first)]
    code = ORDER if crossing and not _suspected(recording) else _code(_kind(first.stack), recording)
    what = _WAITS.get(_kind(first.stack), _name(first))
    return Stuck(
        ROUNDS if again is first and not crossing and not _suspected(recording) else code,
        first.place,
        f"Rank {first.rank} waits in {what} for the others forever: {_elsewhere(others, gone)}"
        f"{', of another group, and both belong to both' if crossing else ''}.",
        tuple((f"rank {each.rank} is here", each.place) for each in others),
        _own_calls(first.stack),
    )


def _left_alone(there: Waiting, recording: Recording) -> bool:
    """It waits in the backward of an iteration that another rank did not make, or not to its end."""
    mine = next((each for each in recording.ranks if each.rank == there.rank), None)
    return _kind(there.stack) == BACKWARD and mine is not None and any(_left(each, mine) for each in recording.ranks)


def _left(rank: Process, other: Process) -> bool:
    """It has gone out of the loop over its batches, or of an iteration, and the other rank is in the same loop."""
    if not rank.passes or not other.passes:
        return False
    over, going_on = rank.passes[-1], other.passes[-1]
    early = over.left or (over.ended and over.backwards < over.batches)
    # An error that goes through the loop ends it, too.
    further = not (going_on.ended or going_on.left) or _last_backward(going_on) > _last_backward(over)
    return early and over.number == going_on.number and further


def _made_fewer_epochs(rank: Process, other: Process) -> bool:
    """It has gone through the loader of the other rank to its end, as often as it began, and that one once more."""
    loader = other.passes[-1].loader if other.passes else None
    mine, theirs = ([each for each in one.passes if each.loader == loader] for one in (rank, other))
    alike = all(one.ended and one.batches == each.batches for one, each in zip(mine, theirs, strict=False))
    return rank.over and alike and 0 < len(mine) < len(theirs)


def _last_backward(over: Pass) -> int:
    return over.backwards_when_left if over.left else over.backwards


def of_unlike_sizes(recording: Recording) -> Iterator[tuple[Location, str]]:
    """The call of the program in which all ranks stood that stopped, each with a tensor of another size."""
    waits = [each for each in recording.hang if each.waits]
    told = next((each for each in waits if each.brings_another_size and _kind(each.stack) == COLLECTIVE), None)
    if told is None:
        yield from _ended_for_its_size(recording)
    elif told.place is not None and {each.place for each in waits} == {told.place} and not told.asks_for_state:
        yield told.place, f"All ranks call this, and rank {told.rank} {told.told.rstrip(',')}: these do not fit."


def _ended_for_its_size(recording: Recording) -> Iterator[tuple[Location, str]]:
    """Gloo has ended ranks, and the others missed them in the call in which these stood."""
    lost = _lost(recording)
    dead = [each for each in _gone(recording) if not each.over]
    if not lost or not dead:
        return
    if any(rank.missed_another_at not in (None, end.place) for rank, end in lost):
        # It had gone on from where the other one was missed.
        return
    ends = [each.fatal for each in dead if each.fatal is not None]
    places = [end.place for end in ends if end.place is not None]
    (_, missed), *_ = lost
    where = missed.place
    if where is None or _kind(missed.frames[::-1]) != COLLECTIVE or not all(end.aborts for end in ends):
        return
    if {*places} <= {where} and (len(places) == len(dead) or UNLIKE_SIZES in recording.suspected):
        yield where, f"All ranks called this, and gloo ended {_names(dead)} for what came: sizes or dtypes differ."


def of_unlike_dtypes(recording: Recording) -> Iterator[tuple[Location, str]]:
    """A collective to which ranks gave numbers of other dtypes, in as many bytes, so that nothing stopped."""
    given: dict[tuple[str, int, str], tuple[Process, RecordedCollective]] = {}
    for rank, each in ((one, each) for one in recording.ranks for each in one.collectives if each.dtype):
        other, there = given.setdefault((each.group, each.number, each.name), (rank, each))
        if each.dtype != there.dtype and each.number and there.place is not None:
            dtypes = f"rank {other.rank} gives {there.dtype} and rank {rank.rank} {each.dtype}"
            yield there.place, f"In this call {dtypes}: the bytes of one are read as numbers of the other."
            return


def _torn(recording: Recording) -> Stuck | None:
    """Gloo ends a rank that meets another collective than its own, and the others lose their connection to it, as they
    do to one that has come to its end; or their launcher ends them before."""
    gone, lost = _gone(recording), _lost(recording)
    if not gone or not lost:
        return None
    rank, end = lost[0]
    if end.place is None or end.asks_for_state:
        return None
    if not _suspected(recording):
        return _ended_early(rank, end, gone)
    waited = (_kind(end.frames[::-1]), rank, end.place)
    if (missed := rank.missed_another_at) is not None and missed != end.place:
        waited = (BACKWARD if missed == rank.backward else COLLECTIVE, rank, missed)
    dead = [each for each in gone if not each.over]
    ends = [(each, each.fatal) for each in dead if each.fatal is not None]
    if any(not end.aborts for _, end in ends):
        # Of an error in native code, as the others miss it.
        return None
    stood = [(_kind(end.frames[::-1]), each, end.place) for each, end in ends if end.place is not None]
    if apart := [each for each in stood if each[2] != waited[2]]:
        return _met(waited, apart[0], recording)
    why = f"{_names(dead)} met another one, and was ended for it" if dead else f"{_names(gone)} had ended without it"
    message = f"Rank {rank.rank} waited in {_in_words(waited[0])} when {why}."
    return Stuck(_code(waited[0], recording), waited[2], message, _left_by_exit(gone), _last_calls(rank))


def _gone(recording: Recording) -> list[Process]:
    """Ranks that ended by themselves, or for what they met, and raised nothing."""
    return [each for each in recording.ranks if each.crash is None and each.terminated is None]


def _lost(recording: Recording) -> list[tuple[Process, Crash | Terminated]]:
    """The ranks that waited for others when these had gone, and how they ended; none where one raised something else,
    for which the others miss it."""
    if any(not crash.lost_connection for _, crash in recording.crashes()):
        return []
    aborted = any(each.fatal is not None and each.fatal.aborts for each in _gone(recording))
    ends: list[tuple[Process, Crash | Terminated]] = []
    for rank in recording.ranks:
        if rank.crash is not None:
            ends.append((rank, rank.crash))
        elif aborted and rank.terminated is not None and rank.terminated.waited:
            ends.append((rank, rank.terminated))
    return ends


def _ended_early(rank: Process, crash: Crash | Terminated, gone: Sequence[Process]) -> Stuck | None:
    """Of ranks that came to their end by themselves it is known what they did last, and of those that gloo has ended
    that they had left the loop of the others."""
    kind = _kind(crash.frames[::-1])
    if crash.place is None or any(not each.over and (each.fatal is None or not each.fatal.aborts) for each in gone):
        return None
    if kind == BACKWARD and any(_left(each, rank) for each in gone):
        code, how = BACKWARD, "left the loop, or an iteration of it, and ended"
    elif kind in (FORWARD, BACKWARD) and any(_made_fewer_epochs(each, rank) for each in gone):
        code, how = BACKWARD, "ended after fewer epochs"
    elif kind == COLLECTIVE and all(each.over and _called_last(each) == crash.place for each in gone):
        code, how = ROUNDS, "come to its end, after a last call at the same line"
    else:
        return None
    message = f"Rank {rank.rank} waited in {_in_words(kind)} when {_names(gone)} had {how}."
    return Stuck(code, crash.place, message, _left_by_exit(gone), _last_calls(rank))


def _left_by_exit(gone: Sequence[Process]) -> tuple[tuple[str, Location | None], ...]:
    exits = [(f"rank {each.rank} left here, by `sys.exit`", each.left) for each in gone if each.left is not None]
    ends = [(f"rank {each.rank} was ended here", each.fatal.place) for each in gone if each.fatal is not None]
    return (*exits, *ends)


def _called_last(rank: Process) -> Location | None:
    """Where the program itself has called the last collective of this rank."""
    last = rank.collectives[-1] if rank.collectives else None
    return last.place if last is not None and not last.of_wrapper else None


_Stand = tuple[str, "Process", Location]
"""What a rank stood in, which, and where."""


def _met(waited: _Stand, ended: _Stand, recording: Recording) -> Stuck:
    """Where both ranks stood of which gloo has ended one."""
    first, other = sorted((waited, ended), key=lambda each: _ORDER.get(each[0], 1))
    message = (
        f"Rank {first[1].rank} waited in {_in_words(first[0])} and rank {other[1].rank} in {_in_words(other[0])}: "
        f"these do not fit together, and gloo ended rank {ended[1].rank} for it."
    )
    because = ((f"rank {other[1].rank} was here", other[2]),)
    return Stuck(_code(first[0], recording), first[2], message, because, _last_calls(first[1]))


def _own_calls(stack: Iterable[StackFrame]) -> tuple[Location, ...]:
    return tuple(frame.location for frame in stack if frame.own)


def _last_calls(rank: Process) -> tuple[Location, ...]:
    """Those of the program in which the rank ended, the innermost first."""
    end = rank.crash or rank.fatal or rank.terminated
    return _own_calls(end.frames[::-1]) if end is not None else ()


def _in_words(kind: str) -> str:
    return _WAITS.get(kind, "a collective")


_SUSPECTED_ONLY = ("GPU508", ORDER, ROUNDS)
"""Mistakes whose wait looks like that of others: a group that some ranks make, collectives in different orders, and
loops of which some ranks make more rounds."""
_ORDER = {FORWARD: 0, COLLECTIVE: 1, BACKWARD: 2}
_MAKING = "making"
"""DDP compares the models of the ranks when it is made: a collective like those of the program."""
# A wait in the program's own collective is the one that some rank should not have begun, or all should have.
_WAITS = {
    FORWARD: "the forward of the wrapper",
    BACKWARD: "the averaging of gradients",
    _MAKING: "the wrapper's making",
}
_ENDED = "has ended"


def _code(kind: str, recording: Recording) -> str:
    kind = COLLECTIVE if kind == _MAKING else kind
    suspected = _suspected(recording)
    return suspected[0] if suspected and kind not in suspected else kind


def _suspected(recording: Recording) -> list[str]:
    """What lint has found of the mistakes that make ranks wait."""
    return sorted(recording.suspected & {*_ORDER, *_SUSPECTED_ONLY})


def _joins(stack: Iterable[StackFrame]) -> bool:
    """The rank waits until all have come to the process group: no collective has begun."""
    return any(frame.function == "init_process_group" and not frame.own for frame in stack)


def _kind(stack: Iterable[StackFrame]) -> str:
    """What a rank waits in, from its innermost frames."""
    inside = False
    for frame in stack:
        if frame.own:
            break
        if frame.location.path.endswith("torch/nn/parallel/distributed.py"):
            inside = True
            if frame.function == "__init__":
                return _MAKING
        if frame.location.path.endswith("torch/autograd/graph.py"):
            return BACKWARD
    return FORWARD if inside else COLLECTIVE


def _elsewhere(others: Sequence[Waiting], gone: Sequence[int]) -> str:
    told = [_where(each) for each in others]
    told += [f"rank {rank} has ended" for rank in gone]
    return " and ".join(told) or "they are elsewhere"


def _where(each: Waiting) -> str:
    line = f" at line {each.place.line}" if each.place else ""
    if each.silence and each.place is None:
        return f"rank {each.rank} {each.silence}"
    if not each.waits:
        return f"rank {each.rank} is elsewhere{line}"
    return f"rank {each.rank} waits in {_name(each)}{line}"


def _name(each: Waiting) -> str:
    if each.receives:
        return "`recv`"
    return f"`{each.collective.name}`" if each.collective else "a collective"


def _names(ranks: Sequence[Process]) -> str:
    return " and ".join(f"rank {each.rank}" for each in ranks)
