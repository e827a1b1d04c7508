"""The experiment of the articles: an epoch of CIFAR-10 on one device and on all, with the batch of a device kept.

They found at least 40 % less time for an epoch with several GPUs, and the accuracy held.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from gpudoctor.probe.context import Context, Facts
from gpudoctor.probe.measurement_plan import MeasurementPlan, World
from gpudoctor.probe.results import Check, StepResult, Verdict
from gpudoctor.probe.strategies import BY_NAME, Strategy
from gpudoctor.probe.workloads import cifar10, cifar10_files
from gpudoctor.probe.workloads.reference import loss_of
from gpudoctor.probe.workloads.workload import Workload
from gpudoctor.record import dataclass

BATCH = 128
NAME = "epoch-time"
LESS = 0.40
ACCURACY_KEPT = 0.05
ARTICLE = "the articles' experiment: at least 40 % less time with several GPUs, accuracy held"
_WARM_UP = 3


@dataclass(frozen=True)
class EpochTrial:
    """An epoch with one strategy on `size` devices, from the real files through the usual loader."""

    strategy: str
    size: int

    @property
    def name(self) -> str:
        """The name of the stage."""
        return f"epoch-cifar10-{self.strategy}-{self.size}"

    @property
    def asks(self) -> str:
        """What is shown while it runs."""
        return f"an epoch of CIFAR-10 with {self.strategy} on {self.size}"

    seconds = 900.0

    def work(self, ctx: Context) -> Facts:
        """Train one epoch on the ranks that take part; the first rank tests the result."""
        strategy = BY_NAME[self.strategy]
        if not strategy.takes_part(ctx.rank, self.size):
            return {}
        ctx.mark("reading the files")
        data = cifar10_files.read(ctx.plan.data, train=True)
        model = strategy.wrap(cifar10.model().to(ctx.device), ctx, _WORKLOAD, self.size, None)
        facts = _epoch(self, strategy, model, data, ctx)
        if ctx.rank == 0:
            facts["accuracy"] = _accuracy(model, cifar10_files.read(ctx.plan.data, train=False), ctx)
        return facts


_WORKLOAD = Workload("cifar10", BATCH, cifar10.model, lambda samples, seed: (None, None), loss_of)


def epochs_of(plan: MeasurementPlan) -> Iterator[EpochTrial]:
    """The epochs of this plan: none without files."""
    if not plan.data:
        return
    yield EpochTrial("single", 1)
    here = plan.world.nodes.count(plan.world.nodes[0])
    if "data_parallel" in plan.strategies and plan.world.meaningful and here > 1:
        yield EpochTrial("data_parallel", here)
    if "ddp" in plan.strategies and plan.world.size > 1:
        yield EpochTrial("ddp", plan.world.size)


def _epoch(trial: EpochTrial, strategy: Strategy, model: Any, data: tuple[Any, Any], ctx: Context) -> Facts:
    import torch

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    loader = _loader(trial, strategy, data, ctx)
    for inputs, labels in _batches(loader, ctx, _WARM_UP):
        _step(model, optimizer, inputs, labels)
    ctx.mark("the epoch")
    losses, waited, samples = [], 0.0, 0
    began = asked = ctx.clock()
    for inputs, labels in _batches(loader, ctx, len(loader)):
        waited += time.perf_counter() - asked
        losses.append(_step(model, optimizer, inputs, labels).detach())
        samples += len(labels)
        asked = time.perf_counter()
    seconds = ctx.clock() - began
    ends = torch.stack(losses).tolist()
    share = max(1, len(ends) // 10)
    return {
        "epoch_seconds": seconds,
        "waited": waited,
        "steps": len(ends),
        "samples": samples,
        "first_loss": sum(ends[:share]) / share,
        "last_loss": sum(ends[-share:]) / share,
    }


def _loader(trial: EpochTrial, strategy: Strategy, data: tuple[Any, Any], ctx: Context) -> Any:
    from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

    dataset = TensorDataset(*data)
    batch = BATCH * strategy.multiplies(trial.size)
    if not strategy.many_processes:
        return DataLoader(dataset, batch_size=batch, shuffle=True)
    sampler = DistributedSampler(dataset, num_replicas=trial.size, rank=ctx.rank, shuffle=True)
    return DataLoader(dataset, batch_size=batch, sampler=sampler)


def _batches(loader: Any, ctx: Context, count: int) -> Iterator[tuple[Any, Any]]:
    """The first `count` batches on the device, pixels from -1 to 1 as in the article."""
    for number, (images, labels) in enumerate(loader):
        if number == count:
            return
        yield images.to(ctx.device).float() / 127.5 - 1, labels.to(ctx.device)


def _step(model: Any, optimizer: Any, inputs: Any, labels: Any) -> Any:
    optimizer.zero_grad()
    loss = loss_of(model, inputs, labels)
    loss.backward()
    optimizer.step()
    return loss


def _accuracy(model: Any, data: tuple[Any, Any], ctx: Context) -> float:
    """The share of test images that are recognised."""
    import torch

    ctx.mark("the test images")
    # The wrapper of DDP would wait for the other ranks.
    bare = getattr(model, "module", model)
    right = 0
    with torch.no_grad():
        for images, labels in zip(data[0].split(1000), data[1].split(1000), strict=True):
            inputs = images.to(ctx.device).float() / 127.5 - 1
            right += int((bare(inputs).argmax(dim=1).cpu() == labels).sum())
    return right / len(data[1])


def epoch_result(trial: EpochTrial, ranks: Mapping[int, Mapping[str, Any]], world: World) -> StepResult:
    """One row of the table; pure."""
    parts = [facts for _, facts in sorted(ranks.items()) if facts.get("epoch_seconds")]
    seconds = max(facts["epoch_seconds"] for facts in parts)
    return StepResult(
        workload="cifar10-files",
        strategy=trial.strategy,
        world_size=trial.size,
        device=world.device,
        batch_per_device=BATCH,
        steps=parts[0]["steps"],
        seconds_per_step=seconds / parts[0]["steps"],
        loader_wait=max(facts["waited"] / facts["epoch_seconds"] for facts in parts),
        first_loss=parts[0]["first_loss"],
        last_loss=parts[0]["last_loss"],
        accuracy=parts[0]["accuracy"],
        seconds_per_epoch=seconds,
        meaningful=world.meaningful,
    )


def judged(world: World, rows: Sequence[StepResult]) -> Check:
    """The time of an epoch on all devices against that on one, and the accuracy that came of it; pure."""
    alone = next((row for row in rows if row.strategy == "single"), None)
    widest = max((row for row in rows if row.strategy != "single"), key=lambda row: row.world_size, default=None)
    if alone is None or widest is None or not alone.seconds_per_epoch or not widest.seconds_per_epoch:
        return Check(NAME, Verdict.SKIPPED, reason="there is no second device to compare with")
    less = 1 - widest.seconds_per_epoch / alone.seconds_per_epoch
    kept = (widest.accuracy or 0.0) >= (alone.accuracy or 0.0) - ACCURACY_KEPT
    reason = (
        f"an epoch with {widest.strategy} on {widest.world_size} takes {widest.seconds_per_epoch:.1f} s, {less:.0%} "
        f"less than {alone.seconds_per_epoch:.1f} s on one; accuracy {widest.accuracy:.1%} and {alone.accuracy:.1%}"
    )
    if not world.meaningful:
        return Check(NAME, Verdict.SKIPPED, round(less, 3), "less time", reason=f"{reason}; not judged without GPUs")
    met = less >= LESS and kept
    remedy = "" if met else "the loader may be slow (`num_workers`), or the learning rate too small for the batch"
    verdict = Verdict.PASS if met else Verdict.WARN
    return Check(NAME, verdict, round(less, 3), "less time", f">= {LESS:.0%}, accuracy held", ARTICLE, reason, remedy)
