"""Wait for ranks that this process has started, never longer than allowed, and leave none of them behind."""

from __future__ import annotations

import enum
import os
import time
from collections.abc import Callable, Iterable, Sequence

from gpudoctor.ranks.process_tree import Stillness, children, kill_trees
from gpudoctor.record import dataclass

_LOOK_EVERY = 0.05
_LOOKS_FOR_NONE = 2


class EndOfRank(enum.Enum):
    """Why a rank is no longer running."""

    EXITED = "exited"
    """By itself: returned, raised, aborted."""
    STOOD_STILL = "stood still"
    """Killed: no process of the group did anything any more."""
    OUT_OF_TIME = "out of time"
    """Killed: it still worked when the deadline came."""
    PEER_FAILED = "peer failed"
    """Killed: another rank had failed a moment before, and this one went on."""


@dataclass(frozen=True)
class Exit:
    """How one rank ended; `status` is its exit code, or minus the signal that ended it."""

    ending: EndOfRank
    status: int


@dataclass(frozen=True)
class RankLimits:
    """Seconds that a group of ranks may take."""

    deadline: float
    """From start to end."""
    still: float
    """Without any work in any process of the group."""
    after_failure: float
    """For the other ranks, once one has failed."""


def supervise(ranks: Sequence[int], limits: RankLimits, before_kill: Callable[[], None] = lambda: None) -> list[Exit]:
    """Wait until all `ranks`, children that lead a process group each, have ended; kill those over the limits.

    `before_kill` is called while ranks that stand still are there to be asked. Call `adopt_orphans` before starting
    them, if grandchildren whose parents have died are to end too.
    """
    # Children that were there before are not ours to end.
    strangers = set(children(os.getpid())) - set(ranks)
    started = time.monotonic()
    stillness = Stillness(ranks)
    exits: dict[int, Exit] = {}
    failed_at: float | None = None
    why: EndOfRank | None = None
    while len(exits) < len(ranks):
        for pid, status in _ended(pid for pid in ranks if pid not in exits):
            exits[pid] = Exit(EndOfRank.EXITED, status)
            # The others get a moment to fail by themselves: their own error tells more than a kill.
            if status != 0 and failed_at is None:
                failed_at = time.monotonic()
        now = time.monotonic()
        if now - started > limits.deadline:
            why = EndOfRank.OUT_OF_TIME
        elif failed_at is not None and now - failed_at > limits.after_failure:
            why = EndOfRank.PEER_FAILED
        # A hung collective works no more and never ends: waiting for the deadline tells nothing new.
        elif stillness.look() > limits.still:
            why = EndOfRank.STOOD_STILL
        if why is not None:
            if why is EndOfRank.STOOD_STILL:
                before_kill()
            break
        time.sleep(_LOOK_EVERY)
    end_all([pid for pid in ranks if pid not in exits], strangers)
    return [exits.get(pid) or Exit(why or EndOfRank.EXITED, -9) for pid in ranks]


def _ended(ranks: Iterable[int]) -> list[tuple[int, int]]:
    ended = []
    for pid in ranks:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            ended.append((pid, os.waitstatus_to_exitcode(status)))
    return ended


def end_all(running: Iterable[int], strangers: set[int], patience: float = 5.0) -> None:
    """Kill and reap the ranks that still run and all children this process has adopted from them."""
    left = set(running)
    deadline = time.monotonic() + patience
    # Killed parents leave children, which come to us as orphans: again until none is left. While some come and go, the
    # kernel may leave others out of its list, so that one empty list says nothing yet.
    found_none = 0
    while found_none < _LOOKS_FOR_NONE:
        left |= set(children(os.getpid())) - strangers
        found_none = 0 if left else found_none + 1
        kill_trees(left)
        left -= {pid for pid, _ in _ended(left)}
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)
