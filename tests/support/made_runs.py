"""Recordings of runs that were never made, alike each time: what reports and pages are tested on."""

import math
from collections.abc import Callable, Sequence
from functools import cache

from gpudoctor.diagnostic import Finding, Location, Related, Severity
from gpudoctor.record import replace
from gpudoctor.run.outcome import CLEARED, CONFIRMED, NOT_REACHED, Suspicion, Watched
from gpudoctor.run.recording import Exposed, ParameterCheck, Pass, Process, RecordedOptimizer, Recording, Step, Waiting
from gpudoctor.run.recording.call_counts import RecordedCollective
from gpudoctor.run.recording.process_ends import Crash, StackFrame

SCRIPT = "train.py"
SOURCE = """import torch
from torch.utils.data import DataLoader

def train(model, data, optimizer):
    loader = DataLoader(data, batch_size=32, shuffle=True, num_workers=2, pin_memory=True, persistent_workers=True)
    for epoch in range(3):
        for x, y in loader:
            optimizer.zero_grad()
            loss = torch.nn.functional.mse_loss(model(x), y)
            loss.backward()
            optimizer.step()
        if epoch == 1:
            torch.distributed.barrier()
""".splitlines()
PLACE = Location(SCRIPT, 7, 9, 7, 28)
GIB = 2**30


def watched(recording: Recording, found: Sequence[Finding] = (), suspicions: Sequence[Suspicion] = ()) -> Watched:
    """All that is known after this run."""
    return Watched(recording, tuple(found), tuple(suspicions), _lines, linted=True)


def _lines(at: Location) -> Sequence[str]:
    return SOURCE if at.path == SCRIPT else ()


@cache
def healthy() -> Watched:
    """Two ranks on a CPU that share the data out and agree."""
    ranks = tuple(_process(rank, 2, steps=200, places=_shard(rank, 2)) for rank in range(2))
    return watched(Recording(ranks, seconds=12.3))


@cache
def sick() -> Watched:
    """Eight GPUs: the ranks in pairs read the same samples, one lags behind, one drifts away, memory grows on one."""
    ranks = tuple(
        _process(
            rank,
            8,
            steps=5000,
            places=_shard(rank // 2, 4),
            wait=0.08 if rank == 5 else 0.004,
            drifts_at=64 if rank == 3 else None,
            growth=3_000_000 if rank == 6 else 0,
            gpu=True,
        )
        for rank in range(8)
    )
    return watched(Recording(ranks, status=0, seconds=700.0), (_same_batches(), _behind()), _suspicions())


@cache
def hung() -> Watched:
    """Two ranks: one waits for the other in a barrier, which waits in its backward."""
    ranks = tuple(_process(rank, 2, steps=40, places=None) for rank in range(2))
    barrier = RecordedCollective("barrier", 17, "0", 1000.0, 0, False, Location(SCRIPT, 13))
    waiting = (
        Waiting(0, Location(SCRIPT, 13), "train", barrier, (StackFrame(Location(SCRIPT, 13), "train", True),)),
        Waiting(1, Location(SCRIPT, 10), "train", None, ()),
    )
    return watched(Recording(ranks, status=None, hang=waiting, seconds=44.0))


@cache
def crashed() -> Watched:
    """One process that ended before its first step."""
    crash = Crash("RuntimeError", "no such thing. At all.", 0, (StackFrame(Location(SCRIPT, 9), "train", True),))
    alone = Process(1, 0, None, 1, None, "here", SCRIPT, "2.13.0", crash=crash)
    return watched(Recording((), (alone,), status=1, seconds=2.0))


@cache
def alone() -> Watched:
    """One process without a process group that trains."""
    return watched(Recording((replace(_process(0, 1, steps=3, places=None), rank=None, backend=""),), seconds=1.0))


EVERY: dict[str, Callable[[], Watched]] = {
    "healthy": healthy,
    "sick": sick,
    "hung": hung,
    "crashed": crashed,
    "alone": alone,
}


def _shard(rank: int, of: int) -> tuple[int, ...]:
    return tuple(range(rank, 1024, of))


def _process(
    rank: int,
    world: int,
    *,
    steps: int,
    places: tuple[int, ...] | None,
    wait: float = 0.004,
    drifts_at: int | None = None,
    growth: int = 0,
    gpu: bool = False,
) -> Process:
    device = f"cuda:{rank}" if gpu else "cpu"
    looked = [step for step in (1, 2, 4, 8, 16, 32, 64, 128, *range(200, 5001, 200)) if step <= steps]
    return Process(
        pid=100 + rank,
        parent=99,
        rank=rank,
        world=world,
        local_rank=rank,
        host="here",
        main=SCRIPT,
        torch="2.13.0",
        backend="nccl" if gpu else "gloo",
        optimizers=(
            RecordedOptimizer(0, "AdamW", 4, {}, False, device, f"GPU-{rank}" if gpu else "", 0, (), PLACE, PLACE),
        ),
        passes=(_pass(places, steps),),
        steps=tuple(_step(number, rank, wait, growth) for number in range(1, steps + 1)),
        checks=tuple(
            _check(step, drifts_at is not None and step >= drifts_at, rank) for step in looked if step <= steps
        ),
        exposed=tuple(Exposed(number + 1, 1, number, 0.009, 0.006, 1000.0) for number in range(1, min(steps, 11))),
        backwards=steps,
        over=True,
        cost=0.001 * steps,
    )


def _step(number: int, rank: int, wait: float, growth: int) -> Step:
    wobble = 0.001 * math.sin(number / 7 + rank)
    forward, backward = 0.012 + wobble, 0.1 - wait
    slow = 0.4 if number == 1 else 0.0
    took = wait + forward + backward + slow + 0.003
    began = 1000.0 + 0.12 * number - took
    return Step(
        number=number,
        optimizer=0,
        at=1000.0 + 0.12 * number,
        took=took,
        spans={"wait": wait, "forward": forward, "backward": backward, "optimizer": 0.002},
        counts={"backwards": 1},
        memory=5 * GIB + growth * number + (number % 16) * 1_000_000 if number % 8 == 1 else None,
        cost=0.0002 * number,
        peak=7 * GIB + growth * number if number % 8 == 1 else None,
        starts=(
            ("wait", began, wait),
            ("forward", began + wait, forward),
            ("backward", began + wait + forward, backward),
            ("optimizer", began + wait + forward + backward, 0.002),
        ),
    )


def _check(step: int, drifted: bool, rank: int) -> ParameterCheck:
    names = ("0.weight", "0.bias", "2.weight", "2.bias") if step == 1 else None
    return ParameterCheck(step, 0, (1, 2, 3 + rank * drifted, 4 + rank * drifted), names, 0)


def _pass(places: tuple[int, ...] | None, steps: int) -> Pass:
    return Pass(
        number=1,
        loader=0,
        batches=steps,
        ended=True,
        steps=steps,
        first_step=0,
        backwards=steps,
        gradient=True,
        training=True,
        digest="",
        places=places,
        samples=len(places or ()),
        prints=tuple(str(number) for number in range(8)),
        dataset=1,
        iterable=places is None,
        size=1024,
        batch_size=32,
        workers=2,
        sampler="RandomSampler",
        replicas=None,
        sampler_rank=None,
        seed=0,
        in_memory=True,
        epoch=None,
        shuffle=None,
        told=0,
        told_at=None,
        made=Location(SCRIPT, 5),
        place=PLACE,
    )


def _same_batches() -> Finding:
    return Finding(
        "GPU301",
        "no-distributed-sampler",
        Severity.ERROR,
        "Ranks 0 and 1 trained on the same samples in the first epoch: nothing shares the data out.",
        PLACE,
        remedy="Give the loader a `DistributedSampler`:\n    DataLoader(data, sampler=DistributedSampler(data))",
        related=(Related("the loader is made here", Location(SCRIPT, 5)),),
    )


def _behind() -> Finding:
    message = "Rank 5 makes the other ranks wait for 76 ms of each step: it waits for its batches."
    return Finding("GPU809", "rank-lags-behind", Severity.PERF, message, Location(SCRIPT, 10), remedy="Look at rank 5.")


def _suspicions() -> tuple[Suspicion, ...]:
    suspected = _same_batches()
    return tuple(
        Suspicion(replace(suspected, code=code, name=name, location=Location(SCRIPT, line)), state)
        for code, name, line, state in (
            ("GPU301", "no-distributed-sampler", 5, CONFIRMED),
            ("GPU119", "weights-changed-on-one-rank", 4, NOT_REACHED),
            ("GPU501", "collective-on-some-ranks", 13, CLEARED),
        )
    )
