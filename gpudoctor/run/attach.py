"""A job that hangs now and was not started by us: its ranks, where each of them stands, and what keeps them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from gpudoctor.errors import UsageError
from gpudoctor.ranks.process_tree import PROC, children, descendants, state_of
from gpudoctor.record import dataclass
from gpudoctor.run.hang import standing_from_outside
from gpudoctor.run.outside_stack import OutsideView, RawFrame, seen_from_outside
from gpudoctor.run.recording import Waiting
from gpudoctor.run.startup_agent import FOLDER

_PIPES = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"
"""A variable of torch: writing to the pipe that it names has a rank write its flight recorder down."""
_DUMPS = ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
_USUAL = "/tmp/nccl_trace_rank_"
_JOB = ("MASTER_ADDR", "MASTER_PORT", "TORCHELASTIC_RUN_ID")


@dataclass(frozen=True)
class AttachedRank:
    """A rank of the job that was found. `dump` is the file to which it was asked to write its flight recorder, empty
    where the job was not started so that it can be asked."""

    rank: int
    pid: int
    view: OutsideView
    dump: str = ""


@dataclass(frozen=True)
class Attached:
    """The ranks on this node, in order, and where those stand whose stack is known."""

    ranks: tuple[AttachedRank, ...]
    moving: tuple[int, ...] = ()
    """Ranks that were at other lines of their code at some look."""
    looks: int = 1

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """As in a run that was watched; empty where some stack is missing, or the ranks advance."""
        if self.moving or any(not each.view.stack for each in self.ranks):
            return ()
        return tuple(standing_from_outside(each.rank, each.view.stack, each.view.state) for each in self.ranks)


def attach(pid: int, looks: int = 5, seconds: float = 3.0) -> Attached:
    """Look several times at the job that this process is of: its launcher, or one of its ranks.

    Raises:
        UsageError: There is no such process, or it may not be looked at.
    """
    ranks = _ranks_of(pid)
    rounds = []
    with ThreadPoolExecutor(len(ranks)) as pool:
        for _ in range(looks):
            rounds.append(list(pool.map(lambda each: _seen(each, seconds / looks), ranks.values())))
            # Who has been seen elsewhere advances; without stacks one look tells all that there is.
            if _moving(rounds, ranks) or not all(view.stack for view in rounds[-1]):
                break
    found = tuple(
        AttachedRank(rank, each, view, _dump_of(each, rank))
        for (rank, each), view in zip(ranks.items(), rounds[-1], strict=True)
    )
    return Attached(found, _moving(rounds, ranks), len(rounds))


def _seen(pid: int, seconds: float) -> OutsideView:
    recording = _environment(pid).get(FOLDER)
    return seen_from_outside(pid, seconds, Path(recording) if recording else None)


def _moving(rounds: Sequence[Sequence[OutsideView]], ranks: Iterable[int]) -> tuple[int, ...]:
    """Who stood at other lines of its own code at one look than at another."""
    return tuple(
        rank for rank, views in zip(ranks, zip(*rounds, strict=True), strict=True) if len({*map(_own_lines, views)}) > 1
    )


def _own_lines(view: OutsideView) -> tuple[RawFrame, ...]:
    return tuple(frame for frame in view.stack if frame[3])


def _ranks_of(pid: int) -> dict[int, int]:
    """Rank and process, in the order of ranks."""
    if not state_of(pid):
        raise UsageError(f"--attach {pid}: there is no such process")
    own = _environment(pid)
    # Of a rank, what the others were started by; a rank of srun has a parent that is not ours to look at.
    root = _parent(pid) if "RANK" in own and own.get("LOCAL_RANK") is not None else pid
    family = [pid, *descendants(pid)] if root == pid else [*children(root)]
    found: dict[int, int] = {}
    for each in family:
        environment = _environment(each)
        rank = environment.get("RANK") or environment.get("SLURM_PROCID")
        same = all(environment.get(name) == own.get(name) for name in _JOB) if root != pid else True
        # The first of a rank is the rank; what it has started, as workers of a loader, has its variables, too.
        if rank is not None and rank.isdecimal() and same and _is_python(each):
            found.setdefault(int(rank), each)
    return dict(sorted(found.items())) or {0: pid}


def _environment(pid: int) -> Mapping[str, str]:
    try:
        raw = (PROC / str(pid) / "environ").read_bytes()
    except OSError as error:
        raise UsageError(
            f"--attach {pid}: process {pid} may not be looked at: {error.strerror}; be its user"
        ) from error
    pairs = (entry.partition(b"=") for entry in raw.split(b"\0") if entry)
    return {os.fsdecode(name): os.fsdecode(value) for name, _, value in pairs}


def _is_python(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return "python" in os.path.basename(os.readlink(PROC / str(pid) / "exe"))
    return False


def _parent(pid: int) -> int:
    return int((PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()[1])


def _dump_of(pid: int, rank: int) -> str:
    """Ask a rank for its flight recorder, and say where that comes to."""
    environment = _environment(pid)
    pipe = f"{environment[_PIPES]}{rank}.pipe" if _PIPES in environment else ""
    if not pipe:
        return ""
    with contextlib.suppress(OSError):
        # Where nobody listens, opening fails at once instead of waiting.
        line = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        os.write(line, b"1")
        os.close(line)
        return next((environment[name] for name in _DUMPS if name in environment), _USUAL) + str(rank)
    return ""
