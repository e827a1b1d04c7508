"""The reference step: train a workload with a strategy on some devices, and time it.

The loop is the one that everybody writes; the clock is read at the edges of a block of steps only, so that measuring
costs nothing. Speed is judged against one device without any wrapper.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Any

from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.measurement_plan import MeasurementPlan, Pace, world_sizes
from gpudoctor.probe.strategies import BY_NAME, Strategy
from gpudoctor.probe.workloads import cifar10, linear, transformer
from gpudoctor.probe.workloads.workload import Workload
from gpudoctor.record import dataclass, replace


@dataclass(frozen=True)
class Trial:
    """One workload with one strategy on the first `size` devices; `scaling` is weak or strong."""

    workload: str
    strategy: str
    size: int
    scaling: str = "weak"
    shows_use: bool = False
    """Whether the utilisation of the devices is read from this one, so that it must last."""

    @property
    def name(self) -> str:
        """The name of the stage."""
        return f"step-{self.workload}-{self.strategy}-{self.size}" + ("-strong" if self.scaling == "strong" else "")

    @property
    def asks(self) -> str:
        """What is shown while it runs."""
        devices = "one device" if self.size == 1 else f"{self.size} devices"
        kept = ", total batch kept" if self.scaling == "strong" else ""
        return f"training {self.workload} with {self.strategy} on {devices}{kept}"

    def seconds(self, pace: Pace) -> float:
        """After that it counts as hung: twenty times what is planned, and half a minute for the first kernels."""
        return 30.0 + 20 * (2 * pace.blocks * pace.block_seconds + pace.use_seconds)

    def work(self, ctx: Context) -> Facts:
        """Train and time it on the ranks that take part; the others hand over nothing."""
        strategy = BY_NAME[self.strategy]
        group = _group(ctx, self.size) if strategy.many_processes else None
        workload = _workload(self.workload, ctx, self.name)
        if not strategy.takes_part(ctx.rank, self.size):
            return {}
        return _measured(self, strategy, workload, group, ctx)


def trials_of(plan: MeasurementPlan) -> Iterator[Trial]:
    """What is trained under this plan, the single device first: it is what the others are held against."""
    found = list(_trials(plan))
    # The heaviest workload on the most devices that are not shared.
    good = [trial for trial in found if plan.world.meaningful_for(trial.strategy) and trial.scaling == "weak"]
    widest = max(good, key=lambda trial: (trial.strategy != "data_parallel", trial.size), default=None)
    heaviest = [trial for trial in good if widest and (trial.strategy, trial.size) == (widest.strategy, widest.size)]
    for trial in found:
        yield replace(trial, shows_use=bool(heaviest) and trial == heaviest[-1])


def _trials(plan: MeasurementPlan) -> Iterator[Trial]:
    world = plan.world
    for workload in plan.workloads:
        if "single" in plan.strategies:
            yield Trial(workload, "single", 1)
        for strategy in plan.strategies:
            sizes = _sizes(strategy, workload, plan, world.size)
            yield from (Trial(workload, strategy, size) for size in sizes)
        if "ddp" in plan.strategies and world.meaningful and world.size > 1 and workload != "linear":
            yield Trial(workload, "ddp", world.size, "strong")


def _sizes(strategy: str, workload: str, plan: MeasurementPlan, largest: int) -> tuple[int, ...]:
    """On how many devices: the whole curve for the workload that is worth it, else the largest number only."""
    if strategy == "single":
        return ()
    if strategy == "data_parallel":
        # It lives in one process: there must be several GPUs on its node, and nothing on a CPU.
        here = plan.world.nodes.count(plan.world.nodes[0])
        return (here,) if plan.world.meaningful and here > 1 else ()
    if not plan.world.meaningful:
        return (largest,)
    return world_sizes(largest) if workload == "transformer" or plan.pace_name == "thorough" else (largest,)


def _group(ctx: Context, size: int) -> Any:
    """The group of the first `size` ranks; None for the group of all. Called on every rank."""
    import torch.distributed as dist

    return None if size == ctx.size else dist.new_group(list(range(size)))


def _workload(name: str, ctx: Context, stage: str) -> Workload:
    """The workload in the size of this machine, the same on all ranks."""
    if name == "linear":
        return linear.workload(32)
    if name == "cifar10":
        return cifar10.workload(128 if ctx.device.type == "cuda" else 8)
    return transformer.workload(transformer.size_for(_least_free(ctx, stage)))


def _least_free(ctx: Context, stage: str) -> int | None:
    """Bytes that are free on the smallest GPU; None without GPUs."""
    import torch

    if ctx.device.type != "cuda":
        return None
    free = torch.cuda.mem_get_info(ctx.device)[0]
    # Ranks that share a GPU share its memory.
    share = ctx.size if ctx.plan.world.shared else 1
    return int(min(ctx.gather(f"{stage}/free", free))) // share


def _measured(trial: Trial, strategy: Strategy, workload: Workload, group: Any, ctx: Context) -> Facts:
    import torch

    per_device = workload.samples if trial.scaling == "weak" else max(1, workload.samples // trial.size)
    inputs, labels = (
        part.to(ctx.device) for part in workload.batch(per_device * strategy.multiplies(trial.size), ctx.rank)
    )
    bare = workload.model().to(ctx.device)
    flops = _flops(workload, bare, inputs, labels, ctx) if trial.strategy == "single" else None
    model = strategy.wrap(bare, ctx, workload, trial.size, group)
    steps = loop(workload, model, inputs, labels, ctx)
    if ctx.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(ctx.device)
    ctx.mark("warm-up")
    first_loss = _loss(workload, model, inputs, labels, ctx)
    count = _steps_a_block(trial, steps, ctx)
    pace = ctx.plan.pace_of(trial.strategy)
    ctx.mark(f"{pace.blocks} blocks of {count} steps")
    began = time.time()
    seconds = _blocks(steps, count, pace, ctx)
    if trial.shows_use:
        # As many on each rank: the first one has told the length of a block.
        steps(count * round(pace.use_seconds / pace.block_seconds))
        ctx.synchronize()
    facts: Facts = {
        "seconds": seconds,
        "steps": count,
        "began": began,
        "ended": time.time(),
        "batch_per_device": per_device,
        "samples_a_step": per_device * trial.size,
        "flops_a_step": flops,
        "first_loss": first_loss,
        "last_loss": _loss(workload, model, inputs, labels, ctx),
        "peak_memory": torch.cuda.max_memory_allocated(ctx.device) if ctx.device.type == "cuda" else None,
    }
    if trial.strategy == "ddp" and trial.size > 1 and ctx.plan.world.meaningful:
        ctx.mark("the same without communication")
        with model.no_sync():
            facts["seconds_without_communication"] = _blocks(steps, count, pace, ctx)
    return facts


def loop(workload: Workload, model: Any, inputs: Any, labels: Any, ctx: Context) -> Callable[[int], None]:
    """What is timed: so many steps on one batch, without anything that a bare training loop would not do."""
    import torch

    optimizer = torch.optim.Adam(model.parameters(), lr=workload.rate)

    def steps(count: int) -> None:
        for _ in range(count):
            optimizer.zero_grad()
            with _precision(workload, ctx):
                loss = workload.loss(model, inputs, labels)
            loss.backward()
            optimizer.step()

    return steps


def _precision(workload: Workload, ctx: Context) -> Any:
    """bfloat16 for workloads that want it on GPUs that have it, and float32 everywhere else."""
    import torch

    if workload.autocast and ctx.has_bfloat16:
        return torch.autocast("cuda", dtype=torch.bfloat16)
    return contextlib.nullcontext()


def _loss(workload: Workload, model: Any, inputs: Any, labels: Any, ctx: Context) -> float:
    import torch

    with torch.no_grad(), _precision(workload, ctx):
        return float(workload.loss(model, inputs, labels))


def _flops(workload: Workload, model: Any, inputs: Any, labels: Any, ctx: Context) -> int | None:
    """Operations of one forward and backward pass, as torch counts them; None where it cannot."""
    try:
        from torch.utils.flop_counter import FlopCounterMode
    except ImportError:
        return None
    with FlopCounterMode(display=False) as counter, _precision(workload, ctx):
        workload.loss(model, inputs, labels).backward()
    model.zero_grad(set_to_none=True)
    return int(counter.get_total_flops())


def _steps_a_block(trial: Trial, steps: Any, ctx: Context) -> int:
    """How many steps fill a block, as the first rank sees it after the warm-up; the same on all ranks."""
    pace = ctx.plan.pace_of(trial.strategy)
    steps(pace.warm_up)
    began = ctx.clock()
    steps(max(1, pace.warm_up // 2))
    each = (ctx.clock() - began) / max(1, pace.warm_up // 2)
    key = f"{trial.name}/steps"
    if ctx.rank == 0:
        ctx.store.set(key, str(max(1, round(pace.block_seconds / each))))
    return int(ctx.store.get(key))


def _blocks(steps: Any, count: int, pace: Pace, ctx: Context) -> list[float]:
    seconds = []
    for _ in range(pace.blocks):
        began = ctx.clock()
        steps(count)
        seconds.append(ctx.clock() - began)
    return seconds
