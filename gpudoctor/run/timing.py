"""Where the time of a run went: seconds of each rank, by what they were spent on."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.run.recording import Process, Step

PARTS = ("wait", "forward", "backward", "optimizer")
"""What is measured; the rest of a step is `other`. A backward of DDP holds the communication that it does not hide."""
_WARM_UP = 2
"""Steps that are left out where there are more: the first ones build buckets and choose algorithms."""


@dataclass(frozen=True)
class RankTime:
    """The middle step of one rank, in seconds. `memory` is in bytes, on its GPU where it has one."""

    rank: int
    steps: int
    step: float
    parts: dict[str, float]
    memory: int | None
    overhead: float
    """Our own share of the time between the first and the last step, between 0 and 1."""


def times_of(ranks: Sequence[Process]) -> tuple[RankTime, ...]:
    """The times of the ranks that have stepped."""
    return tuple(_time_of(each) for each in ranks if each.steps)


def samples_per_second(ranks: Sequence[Process]) -> float | None:
    """Samples that all ranks together were handed in a second of training; None where no loader was seen."""
    total = 0.0
    for each in ranks:
        sizes = {one.batch_size for one in each.training_passes if one.batch_size}
        middle = _middle_step(each.steps)
        batches = sum(one.batches for one in each.training_passes)
        steps = sum(one.steps for one in each.training_passes)
        # With batches of several sizes, samples and steps cannot be set off against each other.
        if len(sizes) != 1 or not middle or not steps:
            return None
        total += sizes.pop() * batches / steps / middle
    return total or None


def _time_of(process: Process) -> RankTime:
    steps = _warm(process.steps)
    parts = {name: statistics.median(step.spans.get(name, 0.0) for step in steps) for name in PARTS}
    middle = _middle_step(process.steps)
    # Parts are medians of their own, so their sum may exceed that of the whole.
    parts["other"] = max(0.0, middle - sum(parts.values()))
    took = process.steps[-1].at - process.steps[0].at
    cost = process.steps[-1].cost - process.steps[0].cost
    return RankTime(
        rank=process.rank or 0,
        steps=len(process.steps),
        step=middle,
        parts=parts,
        memory=max((step.memory for step in process.steps if step.memory), default=None),
        overhead=min(1.0, cost / took) if took > 0 else 0.0,
    )


def _middle_step(steps: Sequence[Step]) -> float:
    return statistics.median(step.took for step in _warm(steps)) if steps else 0.0


def _warm(steps: Sequence[Step]) -> Sequence[Step]:
    return steps[_WARM_UP:] if len(steps) > _WARM_UP else steps
