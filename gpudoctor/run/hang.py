"""Ranks that do not advance: who waits in which collective, and where the others are. Nothing is ended for it.

Also where no collective is open, as in a loader, a checkpoint or a lock: then all ranks must have stood at the same
lines at two looks, without any work in between.
"""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpudoctor.ranks.kernel_sleep import LongSleeps
from gpudoctor.ranks.process_tree import busy_seconds, bytes_moved, children, descendants, sleeps_in, state_of
from gpudoctor.record import dataclass, replace
from gpudoctor.run.protocol import ANSWER, ENOUGH, HEARD, QUESTION
from gpudoctor.run.ras import ranks_apart
from gpudoctor.run.recording import Waiting
from gpudoctor.run.recording.call_counts import RecordedCollective
from gpudoctor.run.recording.process_ends import StackFrame, waits_for_others
from gpudoctor.run.recording_reader import collective_of, frames_of, lines_of
from gpudoctor.run.tcp_bytes import received_by
from gpudoctor.run.unresponsive import stack_of

_PATIENCE = 3.0
"""Seconds that a rank may take to begin to answer."""
_SPARE = 1.0
"""Seconds between two looks, on a machine that has much to do."""
_WHOLE = 15.0
"""Seconds that it may take for the whole answer: where calls keep Python's lock again and again, or the machine is
loaded, each step of it waits."""
_MUCH_LONGER = 4
"""Times the patience, after which ranks do not advance even if all of them are at the same place, or one is at work."""
_AT_WORK = 0.5
"""Of one core: a rank that takes so much is busy with something that the others wait for, and may come yet."""
_SELDOM, _SOON = 1.0, 16
"""Seconds between two looks while all is well, and the part of the patience that they may take at most: whoever looks
takes a core from the ranks."""
_OLD = 2.0
"""Seconds after which a collective that has begun and not ended is waited for."""
_ENOUGH = 1.0
"""Seconds over which it can be said whether a rank computes: to answer takes it a moment of work, too."""
_AGAIN = 5.0
"""Seconds between two looks at ranks of which none waits for another."""
_FLOWS = 1 << 17
"""Bytes a second: a rank that moves so many downloads, prepares or saves something, and be it over a slow network."""
_TRICKLES = 1 << 15
"""The same of the rank by itself, without what it has started: a service that looks at the machine moves more, and a
progress bar that is drawn again and again less. A rank that waits moves nothing while it is not asked."""
_DRIPS = 1 << 12
"""The same of what comes over TCP where nobody waits for another rank: samples that are fetched from a slow server. The
answers of a service that is told how the machine does are less."""
_IDLE, _MOVED = 0.03, 1 << 20
"""Of one core, and bytes read and written: less is no work of a rank and the processes that it has started. To answer
moves some kilobytes."""
NO_ANSWER = "does not answer"
"""Of a rank that is there: some call does not let Python go on."""


@dataclass
class _FollowedRank:
    """One rank's file as far as it has been followed."""

    path: Path
    pid: int
    rank: int
    changed: int = 0
    since: float = 0.0
    worked: tuple[float, float, int] | None = None
    """When it was first seen to stand still, the seconds of the processor that it had taken by then, and the bytes that
    it had read and written."""

    @property
    def rests(self) -> bool:
        """It has done nothing since it was first seen to stand still, and neither has what it has started."""
        if self.worked is None:
            return False
        at, busy, moved = self.worked
        seconds = time.monotonic() - at
        return seconds > _ENOUGH and _busy(self.pid) - busy < _IDLE * seconds and _moved(self.pid) - moved < _MOVED


@dataclass(frozen=True)
class _IdleLook:
    """Where ranks stood that waited for nobody, and what they and all that they have started had done by then."""

    at: float
    places: tuple[object, ...]
    busy: float
    moved: int
    received: int
    """Over TCP: what comes there is among `moved` only where it is read like a file."""

    def idle_since(self, before: _IdleLook) -> bool:
        """Nothing has happened in between."""
        seconds = self.at - before.at
        same = seconds > _ENOUGH and self.places == before.places
        same = same and self.received - before.received < _DRIPS * seconds
        return same and self.busy - before.busy < _IDLE * seconds and self.moved - before.moved < _MOVED


@dataclass(frozen=True)
class _GotOn:
    """What a rank that others wait for had done by a time: batches that it was given, bytes that it and all that it
    has started had read and written, and that went over its own connections; `alone` are those of the rank by itself,
    and `transferred` what went over its connections."""

    at: float
    batches: int
    moved: int
    alone: int
    transferred: int

    def after(self, before: _GotOn) -> bool:
        """It has got on since: that it computes says nothing, for so does a loop that never ends."""
        seconds = max(self.at - before.at, _ENOUGH)
        sent = self.transferred - before.transferred
        return (
            self.batches > before.batches
            or self.moved - before.moved + sent > _FLOWS * seconds
            or self.alone - before.alone + sent > _TRICKLES * seconds
        )


class Watch:
    """Follows the files of a recording, and asks the ranks where they are when one of them stands still."""

    def __init__(self, folder: Path, patience: float) -> None:
        self._folder = folder
        # To be told in time: answers take a moment.
        self._patience = patience - min(_PATIENCE + _SPARE, patience / 4)
        self._again = min(_AGAIN, self._patience / 2)
        self._ranks: dict[Path, _FollowedRank] = {}
        self._asked_at = 0.0
        self._next = 0.0
        self._early = False
        self._before: _IdleLook | None = None
        self._progress: dict[int, _GotOn] | None = None
        """Of ranks that waited for nobody, as it was at the last look; None where nobody stands still."""
        self._got_on_at = -patience
        self._sleeps = LongSleeps(self._patience, {})
        self._variables: dict[int, dict[str, str]] = {}
        self._received: dict[str, int] = {}
        self._came = 0

    def look(self) -> tuple[Waiting, ...]:
        """Where each rank is, when some rank has waited for the others for too long; empty as long as all is well."""
        now = time.monotonic()
        if now < self._next:
            return ()
        self._follow(now)
        if now - min((each.since for each in self._ranks.values()), default=now) < self._patience / 2:
            self._next = now + min(_SELDOM, self._patience / _SOON)
            self._early, self._before, self._progress = False, None, None
            return ()
        self._look_early(now)
        # One rank is enough: the others may be busy with what it waits for.
        still = [each for each in self._ranks.values() if now - each.since > self._patience]
        if not still or now - self._asked_at < self._patience:
            return ()
        self._asked_at = now
        # Before anybody is asked: a signal may end what a rank rests in.
        resting = {each.rank for each in still if each.rests}
        alone = {each.rank: bytes_moved(each.pid) for each in self._left()}
        found = self._ask()
        stood = max(now - each.since for each in still)
        if self._get_on(found, alone) or (stood <= _MUCH_LONGER * self._patience and self._sleep(found, now)):
            self._got_on_at = now
        if now - self._got_on_at < self._patience:
            # To be told in time once they do not any more.
            self._asked_at += self._again - self._patience
            return ()
        if self._idle(found) or _mute(found, resting):
            return tuple(map(self._with_worker, found))
        if any(each.waits for each in found):
            found = (*found, *self._on_other_nodes(found))
        waits = {each.rank for each in found if each.waits} & {each.rank for each in still}
        found = tuple(replace(each, works=self._computing(each)) for each in found)
        # Who has ended, or does not answer, is not where the others are.
        apart = any(each.silence for each in found) or _apart(found)
        long = stood > _MUCH_LONGER * self._patience
        told = waits and (long or (apart and not any(each.works for each in found)))
        return tuple(map(self._with_worker, found)) if told else ()

    def _with_worker(self, each: Waiting) -> Waiting:
        """Where a worker of its loader stands in the user's code, where it waits for one."""
        pid = next((one.pid for one in self._left() if one.rank == each.rank), None) if each.loads else None
        stacks = (frames_of(stack_of(worker, self._folder, pid)) for worker in children(pid)) if pid else ()
        places = (frame.location for stack in stacks for frame in stack if frame.own)
        return replace(each, worker=next(places, None))

    def _on_other_nodes(self, found: Sequence[Waiting]) -> Iterator[Waiting]:
        """Ranks of which NCCL says that they are not where the others are, and that cannot be asked here."""
        here = {each.rank for each in found}
        for each in ranks_apart((each.pid, self._variables.get(each.pid, {})) for each in self._left()):
            if each.rank not in here:
                silence = "" if each.operation else "has ended" if each.dead else "cannot be reached"
                yield Waiting(each.rank, None, "", None, (), silence=silence, told=each.in_words)

    def _look_early(self, now: float) -> None:
        """Remember where the ranks are shortly before they are to be told, and where all of them stand still, that."""
        left = self._left()
        still = [each for each in left if now - each.since > self._patience - self._again]
        everybody = bool(left) and len(still) == len(left)
        if not everybody:
            self._early, self._before = False, None
        if not still:
            self._progress = None
        elif self._progress is None or (everybody and not self._early):
            found = self._ask(signal=False)
            self._progress = self._done(found) if self._progress is None else self._progress
            if everybody:
                self._early, self._before = True, self._looked(found)

    def _get_on(self, found: Sequence[Waiting], alone: dict[int, int]) -> bool:
        """Whoever the others wait for has got on since the look before. `alone` was taken before anybody was asked: to
        answer, a rank reads."""
        before, self._progress = self._progress or {}, self._done(found)
        if any(each.silence for each in found) or not self._progress:
            return False
        quiet = {rank: replace(now, alone=alone.get(rank, now.alone)) for rank, now in self._progress.items()}
        return all(rank in before and now.after(before[rank]) for rank, now in quiet.items())

    def _sleep(self, found: Sequence[Waiting], now: float) -> bool:
        """A rank that the others wait for, or a worker that it waits for, sleeps until a time that will come."""
        pids = {each.rank: each.pid for each in self._left()}
        there = [each for each in found if each.rank in pids and not (each.waits or each.silence)]
        return any(self._sleeps.has(pid, now) for each in there for pid in _with_children(pids[each.rank], each.loads))

    def _done(self, found: Sequence[Waiting]) -> dict[int, _GotOn]:
        pids = {each.rank: each.pid for each in self._left()}
        by = {each.rank: each for each in found if each.rank in pids and not each.waits}
        return {
            rank: _GotOn(time.monotonic(), each.batches, _moved(pids[rank]), bytes_moved(pids[rank]), each.transferred)
            for rank, each in by.items()
        }

    def _idle(self, found: Sequence[Waiting]) -> bool:
        """Nobody waits for another rank, and nobody has done anything since the look before."""
        before, now = self._before, self._looked(found)
        # Who does other things than they did at the first look is looked at anew.
        self._before = now
        if before is None or now is None or any(each.waits for each in found):
            return False
        return now.idle_since(before)

    def _looked(self, found: Sequence[Waiting]) -> _IdleLook | None:
        """None where somebody has ended, which is for the launcher to see, or does not answer."""
        left = self._left()
        if len(left) < len(self._ranks) or len(found) < len(left) or any(each.silence for each in found):
            return None
        places = tuple((each.rank, tuple(frame.location for frame in each.stack if frame.own)) for each in found)
        busy, moved = sum(_busy(each.pid) for each in left), sum(_moved(each.pid) for each in left)
        return _IdleLook(time.monotonic(), places, busy, moved, self._came_over_tcp(left))

    def _came_over_tcp(self, left: Sequence[_FollowedRank]) -> int:
        """Bytes, until now, of the ranks and all that they have started, by connections that were open at some look."""
        for pid in [pid for each in left for pid in _with_children(each.pid)]:
            for connection, count in received_by(pid).items():
                self._came += max(0, count - self._received.get(connection, 0))
                self._received[connection] = count
        return self._came

    def _left(self) -> list[_FollowedRank]:
        return [each for each in self._ranks.values() if state_of(each.pid)]

    @property
    def standing_still(self) -> bool:
        """No rank that is left has done anything for as long as is allowed."""
        now = time.monotonic()
        left = self._left()
        return bool(left) and all(now - each.since > self._patience for each in left)

    def has_moved_since(self, at: float) -> bool:
        """A rank that is left has done something since a look at this time, which it was seen at."""
        return any(each.since > at - _SPARE for each in self._left())

    def enough(self) -> bool:
        """Each rank that is left has made the steps that it was to make."""
        said = list(self._folder.glob(ENOUGH.format(pid="*")))
        if len(said) < max((_number_in(path) for path in said), default=1):
            return False
        names = {path.name for path in said}
        return all(ENOUGH.format(pid=each.pid) in names for each in self._ranks.values() if state_of(each.pid))

    def _follow(self, now: float) -> None:
        for path in self._folder.glob("process-*.jsonl"):
            known = self._ranks.get(path) or self._meet(path)
            if known is None:
                continue
            with contextlib.suppress(OSError):
                changed = path.stat().st_mtime_ns
                if changed != known.changed:
                    known.changed, known.since, known.worked = changed, now, None
                elif known.worked is None and now - known.since > self._patience / 2:
                    # Each thread of the rank is a file to read: not while all is well.
                    known.worked = now, _busy(known.pid), _moved(known.pid)
                    for pid in _with_children(known.pid):
                        self._sleeps.has(pid, now)

    def _computing(self, found: Waiting) -> bool:
        """It waits for nobody, and has been computing since it was first seen to stand still."""
        if found.waits or found.silence:
            return False
        return any(_computes(each) for each in self._ranks.values() if each.rank == found.rank)

    def _meet(self, path: Path) -> _FollowedRank | None:
        """A process counts as a rank from when it makes a process group, and listens."""
        # Before its file is read: most processes never will.
        if not os.path.exists(self._folder / QUESTION.format(pid=path.name.split("-")[1])):
            return None
        rank = pid = None
        for line in lines_of(path):
            if line["kind"] == "process":
                pid, rank = line["pid"], line.get("launch", {}).get("RANK")
            elif line["kind"] == "group":
                rank = line["rank"]
            elif line["kind"] == "init_process_group" and rank is None:
                # Whoever waits for the others here has no group yet.
                rank = line["rank"]
        if pid is None or rank is None:
            return None
        return self._ranks.setdefault(path, _FollowedRank(path, pid, int(rank)))

    def _ask(self, *, signal: bool = True) -> tuple[Waiting, ...]:
        """Where each rank is; a `signal` has those that do not answer written down, and may end what they sleep in."""
        ranks = sorted(self._ranks.values(), key=lambda each: each.rank)
        there = [each for each in ranks if state_of(each.pid)]
        for each in there:
            with contextlib.suppress(OSError):
                for name in (HEARD, ANSWER):
                    (self._folder / name.format(pid=each.pid)).unlink(missing_ok=True)
                # Where nobody listens any more, opening fails at once instead of waiting.
                pipe = os.open(self._folder / QUESTION.format(pid=each.pid), os.O_WRONLY | os.O_NONBLOCK)
                os.write(pipe, b"?")
                os.close(pipe)
        answers = self._answers(there)
        self._variables = {pid: answer["variables"] for pid, answer in answers.items()}
        return tuple(
            _waiting(each.rank, answers[each.pid])
            if each.pid in answers
            else _silent(each, self._folder if signal else None)
            for each in ranks
        )

    def _answers(self, ranks: Sequence[_FollowedRank]) -> dict[int, dict[str, Any]]:
        found: dict[int, dict[str, Any]] = {}
        asked = time.monotonic()
        while missing := [each for each in ranks if each.pid not in found]:
            for each in missing:
                with contextlib.suppress(OSError, ValueError):
                    found[each.pid] = json.loads((self._folder / ANSWER.format(pid=each.pid)).read_text())
            waited = time.monotonic() - asked
            if waited > _WHOLE or (waited > _PATIENCE and not any(map(self._hears, missing))):
                break
            time.sleep(0.02)
        return found

    def _hears(self, rank: _FollowedRank) -> bool:
        return (self._folder / HEARD.format(pid=rank.pid)).exists() and bool(state_of(rank.pid))


def _computes(each: _FollowedRank) -> bool:
    if each.worked is None:
        return False
    seconds = time.monotonic() - each.worked[0]
    return seconds > _ENOUGH and _busy(each.pid) - each.worked[1] > _AT_WORK * seconds


def _with_children(pid: int, children: bool = True) -> tuple[int, ...]:
    return (pid, *descendants(pid)) if children else (pid,)


def _busy(pid: int) -> float:
    """Seconds that a process and all that it has started have worked."""
    return sum(map(busy_seconds, _with_children(pid)))


def _moved(pid: int) -> int:
    """Bytes that they have read and written."""
    return sum(map(bytes_moved, _with_children(pid)))


def _number_in(path: Path) -> int:
    """At least one, also where it is being written."""
    text = path.read_text(encoding="ascii")
    return max(1, int(text)) if text.isdecimal() else 1


def _waiting(rank: int, answer: dict[str, Any]) -> Waiting:
    stack = frames_of(answer["stack"])
    # The first that has begun and not ended: what was begun after it waits for it.
    started = next((collective_of(entry) for entry in answer["collectives"] if not entry["done"]), None)
    # NCCL's collectives are queued, and their rank goes on until it asks for a value: it waits there, in its own code.
    old = started is not None and answer["at"] - started.began > _OLD
    inside = waits_for_others(stack)
    here = _standing(rank, stack, started if inside or old else None, waits=inside or old)
    done = [each for each in answer["collectives"] if each["done"]]
    return replace(
        here,
        steps=answer["steps"],
        batches=answer["batches"],
        transferred=answer["transferred"],
        told=answer["told"],
        root=answer["root"] if here.waits else "",
        before=collective_of(done[-1]).place if done and not done[-1]["of_wrapper"] else None,
    )


def _silent(each: _FollowedRank, folder: Path | None) -> Waiting:
    """Where a rank is that has not answered, as far as that can be found out; a folder is where its stack comes to."""
    # Before a signal wakes it up.
    state, kernel = state_of(each.pid), sleeps_in(each.pid)
    silence = "has ended" if not state else "is stopped" if state in "Tt" else NO_ANSWER
    stack = frames_of(stack_of(each.pid, folder)) if state and folder else ()
    here = _standing(each.rank, stack, None, silence=silence)
    return replace(here, kernel=kernel if silence == NO_ANSWER else "")


def standing_from_outside(rank: int, stack: Sequence[object], state: str) -> Waiting:
    """Where a rank is that nobody can ask, by its stack and the letter that the kernel gives its state."""
    frames = frames_of(stack)
    silence = "has ended" if not state else "is stopped" if state in "Tt" else ""
    return _standing(rank, frames, None, waits=waits_for_others(frames), silence=silence)


def _standing(
    rank: int,
    stack: tuple[StackFrame, ...],
    collective: RecordedCollective | None,
    *,
    waits: bool = False,
    silence: str = "",
) -> Waiting:
    own = next((frame for frame in stack if frame.own), None)
    place, function = (own.location, own.function) if own else (None, "")
    return Waiting(rank, place, function, collective, stack, waits, silence)


def _mute(found: Sequence[Waiting], resting: set[int]) -> bool:
    """Who does not answer does nothing, either; and nobody waits for them: others have ended, or do not answer."""
    mute = {each.rank for each in found if each.silence == NO_ANSWER}
    return bool(mute) and mute <= resting and not any(each.waits for each in found)


def _apart(found: Sequence[Waiting]) -> bool:
    """Somebody is not where the others are: those who all take part in one collective may only be slow."""
    stand = {each.collective and (each.collective.name, each.collective.number, each.root) for each in found}
    return len(stand) > 1 or any(one.crosses(other) for one in found for other in found)
