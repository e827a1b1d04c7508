"""Where the time of a run went: seconds of each rank, by what they were spent on."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import zip_longest

from gpudoctor.record import dataclass
from gpudoctor.run.recording import Process, Step

PARTS = ("data", "copy", "forward", "backward", "communication", "optimizer", "other")
"""What a step is made of, as hosts see it. `copy` is what the host takes for copies to a GPU, once it has a batch: of
those that go on by themselves that is little. `forward` is that of wrapped models; that of others is in `other`.
`communication` is what a backward of DDP does not hide; where it is not known, it is in `backward`."""
ON_GPU = (
    "These are times of the hosts, which run ahead of their GPUs: what a GPU takes long for shows in the part in which "
    "its host waits for it."
)
MEASURED = {"wait": "data", "copy": "copy", "forward": "forward", "backward": "backward", "optimizer": "optimizer"}
"""What instruments call a part, and what reports call it."""
_WARM_UP = 2
"""Steps that are left out where there are more: the first ones build buckets and choose algorithms."""


@dataclass(frozen=True)
class RankTime:
    """The middle step of one rank, in seconds.

    `parts` add up to a step, or a little more: each is a median of its own. `communication` is what DDP could not hide
    behind the backward, by its own clocks, None where it is not known; in `parts` only where these are clocks of the
    host, too. `memory` is the most that was held after a step, and `peak` the most within, in bytes, on its GPU where
    it has one.
    """

    rank: int
    steps: int
    step: float
    parts: dict[str, float]
    communication: float | None
    memory: int | None
    peak: int | None
    overhead: float
    """Our own share of the time between the first steps and the last, between 0 and 1."""
    on_gpu: bool = False
    """The times are those of a host that runs ahead of its GPU."""


def times_of(ranks: Sequence[Process]) -> tuple[RankTime, ...]:
    """The times of the ranks that have stepped."""
    return tuple(_time_of(each) for each in ranks if each.steps)


def samples_per_second(ranks: Sequence[Process]) -> float | None:
    """Samples that all ranks together were handed in a second of training; None where no loader was seen."""
    rates = [_samples_per_second(each) for each in ranks]
    return sum(rates) if rates and all(rates) else None


def tokens_per_second(ranks: Sequence[Process]) -> float | None:
    """The same in tokens; None where batches are not known to be sequences of tokens."""
    rates = [_samples_per_second(each) * _tokens_of_a_sample(each) for each in ranks]
    return sum(rates) if rates and all(rates) else None


def _samples_per_second(process: Process) -> float:
    """0 where that is not known."""
    # Frameworks give loaders a batch sampler, and then the loader knows no size.
    samples = [each.batches * each.batch_size if each.batch_size else each.samples for each in process.training_passes]
    middle = middle_step(process.steps)
    steps = _steps_with_data(process)
    return sum(samples) / steps / middle if all(samples) and middle and steps else 0.0


def _tokens_of_a_sample(process: Process) -> float:
    passes = process.training_passes
    sequences = sum(each.sequences for each in passes)
    # Of later passes no batch was looked at.
    known = all(each.sequences or not each.prints for each in passes)
    return sum(each.tokens for each in passes) / sequences if sequences and known else 0.0


def _steps_with_data(process: Process) -> int:
    """How many steps were made on batches of loaders."""
    steps = end = 0
    passes = process.passes
    for one, after in zip_longest(passes, passes[1:]):
        # A framework that reads one batch ahead makes the last steps of a pass after its end.
        last = max(one.first_step + one.steps, after.first_step if after else process.made)
        if one.trains:
            # Passes may go on at the same time, over two loaders.
            steps += max(0, last - max(end, one.first_step))
            end = max(end, last)
    return steps


def uses_gpu(process: Process) -> bool:
    """Its optimizers hold parameters on a GPU."""
    return any(each.device.startswith("cuda") for each in process.optimizers)


def _time_of(process: Process) -> RankTime:
    steps = process.steps
    on_gpu = uses_gpu(process)
    communication = _communication(process)
    return RankTime(
        rank=process.rank or 0,
        steps=process.made,
        step=middle_step(steps),
        parts=_parts(steps, None if on_gpu else communication),
        communication=communication,
        memory=max((step.memory for step in steps if step.memory), default=None),
        peak=max((step.peak for step in steps if step.peak), default=None),
        overhead=_overhead(usual_steps(steps)),
        on_gpu=on_gpu,
    )


def _overhead(steps: Sequence[Step]) -> float:
    took = steps[-1].at - steps[0].at
    return min(1.0, (steps[-1].cost - steps[0].cost) / took) if took > 0 else 0.0


def _parts(steps: Sequence[Step], communication: float | None) -> dict[str, float]:
    warm = usual_steps(steps)
    parts = {name: statistics.median(step.spans.get(span, 0.0) for step in warm) for span, name in MEASURED.items()}
    # A model without a wrapper has no seam, one that is compiled none that may be touched, and neither has FSDP.
    # Without a GPU nothing is copied, and beside compiled functions copies are not timed.
    for name in ("copy", "forward"):
        if not any(name in step.spans for step in warm):
            del parts[name]
    if communication is not None:
        parts["communication"] = min(communication, parts["backward"])
        parts["backward"] -= parts["communication"]
    # Parts are medians of their own, so their sum may exceed that of the whole.
    parts["other"] = max(0.0, middle_step(steps) - sum(parts.values()))
    return {name: parts[name] for name in PARTS if name in parts}


def _communication(process: Process) -> float | None:
    """What a middle step of this rank waits for others: only some of the steps were clocked."""
    warm = [each for each in process.exposed if each.iteration > _WARM_UP]
    wrappers = [[each for each in warm if each.wrapper == wrapper] for wrapper in {each.wrapper for each in warm}]
    if not wrappers:
        return None
    if uses_gpu(process):
        return sum(statistics.median(each.seconds for each in clocked) for clocked in wrappers)
    # As shares of their backwards, because a machine may have been slower then. DDP tells of the step before.
    spans = {step.number + 1: step.spans.get("backward", 0.0) for step in process.steps}
    shares = [
        statistics.median(each.seconds / max(spans.get(each.step, 0.0), each.took) for each in clocked)
        for clocked in wrappers
    ]
    return min(1.0, sum(shares)) * statistics.median(
        step.spans.get("backward", 0.0) for step in usual_steps(process.steps)
    )


def middle_step(steps: Sequence[Step]) -> float:
    """The seconds of the median step, the first ones left out."""
    return statistics.median(step.took for step in usual_steps(steps)) if steps else 0.0


def usual_steps(steps: Sequence[Step]) -> Sequence[Step]:
    """Without the first ones, where there are more."""
    return steps[_WARM_UP:] if len(steps) > _WARM_UP else steps
