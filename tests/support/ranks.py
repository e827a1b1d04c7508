"""Start ranks without a launcher, wait for them, never longer than allowed, and leave none of them behind."""

import enum
import os
import time
from collections.abc import Callable, Collection, Iterable, Sequence

from gpudoctor.ranks.loopback import LOOPBACK
from gpudoctor.ranks.process_tree import ON_LINUX, busy_seconds, children, descendants, end_all, reap
from gpudoctor.record import dataclass

_LOOK_EVERY = 0.05


def rank_environment(
    rank: int, world_size: int, port: int, *, ranks_per_node: int | None = None, host: str = LOOPBACK
) -> dict[str, str]:
    """The variables torchrun sets for `rank` of `world_size` ranks, `ranks_per_node` of which share a machine."""
    per_node = world_size if ranks_per_node is None else ranks_per_node
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(world_size),
        "LOCAL_RANK": str(rank % per_node),
        "LOCAL_WORLD_SIZE": str(min(per_node, world_size)),
        "GROUP_RANK": str(rank // per_node),
        "GROUP_WORLD_SIZE": str(-(-world_size // per_node)),
        "MASTER_ADDR": host,
        "MASTER_PORT": str(port),
    }


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


def supervise(
    ranks: Sequence[int],
    limits: RankLimits,
    before_kill: Callable[[], None] = lambda: None,
    strangers: Collection[int] | None = None,
) -> list[Exit]:
    """Wait until all `ranks`, children that lead a process group each, have ended; kill those over the limits.

    `before_kill` is called while ranks that stand still are there to be asked. Call `adopt_orphans` before starting
    them, if grandchildren whose parents have died are to end too. `strangers` are the children that were there before
    and are to live; who does not say takes those that are there by now, orphans of ranks that were quicker among them.
    """
    strangers = set(children(os.getpid())) - set(ranks) if strangers is None else set(strangers)
    started = time.monotonic()
    stillness = Stillness(ranks)
    exits: dict[int, Exit] = {}
    failed_at: float | None = None
    why: EndOfRank | None = None
    while len(exits) < len(ranks):
        for pid, status in reap(pid for pid in ranks if pid not in exits):
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


class Stillness:
    """For how long some trees of processes have done nothing worth the name."""

    IDLE_SHARE = 0.02
    """Of one core, for all threads together: two gloo ranks that wait were seen to take 0.003."""

    def __init__(self, roots: Iterable[int]) -> None:
        self._roots = tuple(roots)
        self._busy: dict[int, float] = {}
        self._since = time.monotonic()

    def look(self) -> float:
        """Seconds since the trees were last seen to work."""
        busy = {pid: busy_seconds(pid) for root in self._roots for pid in (root, *descendants(root))}
        now = time.monotonic()
        idle = self.IDLE_SHARE * (1.0 + now - self._since)
        same = busy.keys() == self._busy.keys()
        if not (ON_LINUX and same) or sum(busy.values()) - sum(self._busy.values()) > idle:
            self._busy = busy
            self._since = now
        return now - self._since
