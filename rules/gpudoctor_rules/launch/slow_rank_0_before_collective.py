"""One rank goes through data while the others already stand in a collective, whose time is limited.

## What goes wrong

A collective waits for all ranks (processes, one for each GPU), but not for ever: NCCL ends the job after 10 minutes
(30 before torch 2.2) with `Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, ...,
Timeout(ms)=600000)`, gloo after 30. While rank 0 alone prepares or evaluates data, all other GPUs stand in the next
collective, idle; with more data, a slower disk or a larger model the limit is reached, and a training that has worked
until then dies.

This is advice and not among the rules that are on by default: how long the pass takes cannot be seen in the code, and
a short one is well placed on one rank.

## Bad

    import os

    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, TensorDataset

    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    loader = DataLoader(TensorDataset(torch.linspace(0, 1, 512)), batch_size=32)
    if dist.get_rank() == 0:
        for (x,) in loader:
            torch.save(x, "features.pt")
    dist.barrier()

## Good

    import os
    from datetime import timedelta

    import torch
    import torch.distributed as dist
    from torch.utils.data import DataLoader, TensorDataset

    dist.init_process_group("nccl", timeout=timedelta(hours=2))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    loader = DataLoader(TensorDataset(torch.linspace(0, 1, 512)), batch_size=32)
    if dist.get_rank() == 0:
        for (x,) in loader:
            torch.save(x, "features.pt")
    dist.barrier()

## Fix

Share the pass out among the ranks with a `DistributedSampler`; or give the group the time that it needs:
`init_process_group(..., timeout=timedelta(hours=2))`. No automatic fix.

## Silent when

The group is given a timeout; all ranks go through data there, each in its branch; no collective follows that all ranks
take part in; a framework is in charge.

## Sources

NVIDIA/nccl#708, pytorch/pytorch#107177, pytorch/pytorch#124950.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.program import who
from gpudoctor.lint.values.base import name_of
from gpudoctor.lint.values.event import Collective, InitGroup, Iterate
from gpudoctor.rule import Rule

if TYPE_CHECKING:
    from gpudoctor.lint.program import Program


class SlowRank0BeforeCollective(Rule):
    """One rank goes through data while the others already stand in a collective, whose time is limited."""

    code = "GPU412"
    name = "slow-rank-0-before-collective"
    severity = Severity.INFO
    shows_in_run = True

    def in_code(self, program: Program) -> Iterator[Finding]:
        if not program.distributed or not program.whole or program.managed_by:
            return
        # Who gives a timeout has thought of it.
        if any(group.timeout is not None for group in program.events(InitGroup)):
            return
        seen: set[object] = set()
        for event in program.events(Iterate):
            if who(event) != "rank 0 only" or program.on_both_sides(event) or event.location in seen:
                continue
            waiting = _next_of_all(program, event)
            if waiting is None:
                continue
            seen.add(event.location)
            yield self.found(
                event.location,
                f"Rank 0 alone goes through {name_of(event.loader, 'its data')} here, and the others wait for it in "
                f"`{waiting.call}`: after 10 minutes NCCL ends the job.",
                remedy="Share the pass out among the ranks, or give `init_process_group` a `timeout`.",
                because=[("the others wait here", waiting.location)],
            )


def _next_of_all(program: Program, event: Iterate) -> Collective | None:
    """The next collective, where all ranks come to it."""
    later = (each for each in program.events(Collective) if each.order > event.order and each.call != "new_group")
    found = next((each for each in later if not _inside(each, event)), None)
    return found if found is not None and not found.rank_guards else None


def _inside(each: Collective, event: Iterate) -> bool:
    return event.loop is not None and any(loop.identity == event.loop.identity for loop in each.loops)
