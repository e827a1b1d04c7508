"""A worker that fails ends as if all were well, and the others wait for it.

## What goes wrong

`torchrun` and `mp.spawn` watch the exit codes of the ranks: when one fails, they stop the others and show its
traceback. A handler around the whole training that catches every error and only prints it ends that rank with exit
code 0, so the launcher believes that it has finished. The others stand in the next all-reduce until it times out,
after 10 minutes with NCCL: `Watchdog caught collective operation timeout`. With gloo they hear that the `Connection
was closed by peer`, and swallow that as well: the job ends with exit code 0 and no trained model.

## Bad

    import os

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel


    def train():
        gpu = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(gpu)
        torch.manual_seed(gpu)
        model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda(), device_ids=[gpu])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(1000):
            x = torch.randn(64, 8, device="cuda")
            optimizer.zero_grad()
            (model(x) - x).pow(2).mean().backward()
            optimizer.step()


    dist.init_process_group("nccl")
    try:
        train()
    except Exception as error:
        print(error)
    finally:
        dist.destroy_process_group()

## Good

    import os

    import torch
    import torch.distributed as dist
    from torch.nn.parallel import DistributedDataParallel


    def train():
        gpu = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(gpu)
        torch.manual_seed(gpu)
        model = DistributedDataParallel(torch.nn.Linear(8, 8).cuda(), device_ids=[gpu])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for step in range(1000):
            x = torch.randn(64, 8, device="cuda")
            optimizer.zero_grad()
            (model(x) - x).pow(2).mean().backward()
            optimizer.step()


    dist.init_process_group("nccl")
    try:
        train()
    except Exception as error:
        print(error)
        raise
    finally:
        dist.destroy_process_group()

## Fix

End the handler with `raise`, or leave it out: the launcher shows the traceback of the rank that failed first. No
automatic fix, since what else the handler is for is not known.

## Silent when

The handler raises, ends with an exit code of its own, keeps the error in a variable, returns something or hands it to
code that is not read; it names the errors that it takes; it stands inside a loop, as a second try would, or in the
process that starts the others; the ranks do not train one model together.

## Sources

https://docs.pytorch.org/docs/stable/elastic/errors.html, Lightning-AI/pytorch-lightning#8167, VentusAislant/MyDemos
(three of its programs).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.program import World
from gpudoctor.lint.values.event import Backward, Swallowed, Wrap
from gpudoctor.lint.values.module import WrapperKind
from gpudoctor.rule import Rule

if TYPE_CHECKING:
    from gpudoctor.lint.program import Program

TOGETHER = (WrapperKind.DDP, WrapperKind.FSDP)


class WorkerFailureSwallowed(Rule):
    """A worker that fails ends as if all were well, and the others wait for it."""

    code = "GPU414"
    name = "worker-failure-swallowed"
    severity = Severity.WARNING
    shows_in_run = True

    def in_code(self, program: Program) -> Iterator[Finding]:
        if not program.distributed or not program.whole:
            return
        wraps = [event for event in program.events(Wrap) if event.kind in TOGETHER]
        for event in program.events(Swallowed):
            # In the parent an error of a worker ends all of them; inside a loop it is a second try.
            if event.loops or program.by_one_process(event):
                continue
            backward = next((each for each in program.events(Backward) if _is_training(event, each)), None)
            wrap = next((each for each in wraps if not each.when.excludes(event.when)), None)
            if backward is None or wrap is None:
                continue
            launcher = "`mp.spawn`" if program.world is World.SPAWN else "`torchrun`"
            yield self.found(
                event.location,
                f"An error of this rank ends here, with exit code 0: {launcher} does not stop the others, which wait "
                "for this rank in their next all-reduce until it times out.",
                remedy="End this handler with `raise`.",
                because=[
                    ("it is around the whole training", backward.location),
                    ("in which the ranks wait for each other", wrap.location),
                ],
            )


def _is_training(event: Swallowed, backward: Backward) -> bool:
    """The whole loop lies within what is tried, and not one step of it."""
    within = event.since <= backward.order < event.until
    return within and any(loop.entered >= event.since for loop in backward.loops)
