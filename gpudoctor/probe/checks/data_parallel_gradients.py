"""Are the gradients of DataParallel those of one device, and do its four primitives compose to the same result?

DataParallel is `replicate`, `scatter`, `parallel_apply` and `gather` in one; both ways are held against one device.
"""

from __future__ import annotations

from typing import Any

from gpudoctor.probe.checks.check import Examination, Seen, errors_of, failed, passed, skipped
from gpudoctor.probe.context import Context, Facts, NotHereError
from gpudoctor.probe.results import Check
from gpudoctor.probe.workloads import reference

WHOLE, PARTS = "data-parallel-gradients", "data-parallel-primitives"


@reference.exact_arithmetic
def work_whole(ctx: Context) -> Facts:
    """The first rank of each node trains with DataParallel on all GPUs that it sees."""
    from torch import nn

    return _compare(ctx, lambda model, devices: nn.DataParallel(model, device_ids=devices))


@reference.exact_arithmetic
def work_parts(ctx: Context) -> Facts:
    """The same with the primitives, put together by hand."""
    return _compare(ctx, lambda model, devices: lambda inputs: _composed(model, inputs, devices))


def _composed(model: Any, inputs: Any, devices: list[int]) -> Any:
    from torch.nn import parallel

    replicas = parallel.replicate(model, devices)
    scattered = parallel.scatter(inputs, devices)
    outputs = parallel.parallel_apply(replicas[: len(scattered)], scattered)
    return parallel.gather(outputs, devices[0])


def _compare(ctx: Context, parallel: Any) -> Facts:
    import torch

    if not ctx.plan.world.meaningful:
        raise NotHereError("there are fewer than two GPUs")
    count = torch.cuda.device_count()
    if ctx.local_rank != 0 or count < 2:
        return {"gpus": count}
    model = reference.network(seed=2).to(ctx.device)
    inputs, labels = (each.to(ctx.device) for each in reference.batch(0, 0, samples=reference.BATCH * count))
    ctx.mark(f"forward and backward on {count} GPUs")
    reference.loss_of(parallel(model, list(range(count))), inputs, labels).backward()

    alone = reference.network(seed=2).to(ctx.device)
    reference.loss_of(alone, inputs, labels).backward()
    error = reference.farthest([p.grad for p in model.parameters()], [p.grad for p in alone.parameters()])
    terms = reference.LONGEST_SUM * reference.BATCH * count
    return {"gpus": count, "error": error, "allowed": reference.tolerance(terms, torch.float32)}


def judge_whole(seen: Seen) -> Check:
    """Within what float32 allows, on every node."""
    return _judge(WHOLE, "DataParallel", seen)


def judge_parts(seen: Seen) -> Check:
    """Within what float32 allows, on every node."""
    return _judge(PARTS, "replicate, scatter, parallel_apply and gather", seen)


def _judge(name: str, what: str, seen: Seen) -> Check:
    done = {rank: facts for rank, facts in sorted(seen.ranks.items()) if "error" in facts}
    if not done:
        return skipped(name, "no process sees two GPUs")
    bad, rest = errors_of(done, "16 eps sqrt(n) of float32, n the terms of the longest sum")
    if bad:
        return failed(
            name,
            f"{what} on {done[bad[0]]['gpus']} GPUs of {seen.world.nodes[bad[0]]}: other gradients than one device",
            "see the check `peer-copies`, and use DistributedDataParallel, which copies nothing between GPUs",
            **rest,
        )
    gpus = max(facts["gpus"] for facts in done.values())
    return passed(name, f"{what} on {gpus} GPUs: the gradients of one device", **rest)


EXAMINATIONS = (
    Examination(WHOLE, "DataParallel has the gradients of one device", work_whole, judge_whole, seconds=60.0),
    Examination(PARTS, "replicate, scatter, parallel_apply, gather compose", work_parts, judge_parts, seconds=60.0),
)
