"""Training on several GPUs with `DataParallel`, which one process for each GPU does faster.

## What goes wrong

`DataParallel` works: one process splits each batch into parts, one for each GPU. But it copies the model to all GPUs in
every step, runs them from threads of one Python interpreter that take turns, and gathers the outputs on the first GPU,
which runs out of memory before the others do. Often two GPUs are no faster than one. PyTorch recommends
`DistributedDataParallel`, also on a single machine.

## Fix

Start the program with `torchrun --nproc-per-node N train.py`, make a process group, wrap in `DistributedDataParallel`,
give each rank its shard of the data with a `DistributedSampler`, and save on rank 0. No automatic fix.

## Silent when

The program does not train; one device is given, so that there is nothing to divide. Advice only, off by default.

## Sources

https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html, pytorch/pytorch#3917,
AI4Finance-Foundation/RLSolver#43.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.rule import Findings, Program, Rule


class DataParallelInsteadOfDdp(Rule):
    code = "GPU107"
    # It works and may be a choice, so it must never break a build: opt-in.
    severity = Severity.INFO
    needs = (Backward,)

    def in_code(self, program: Program) -> Findings:
        # For inference the copies and the gathering may still pay, and there is no other wrapper to recommend.
        if not program.has(Backward):
            return
        wraps = [each for each in program.events(Wrap) if each.is_data_parallel and not each.on_one_gpu]
        for event in wraps:
            yield self.found(
                event.location,
                "`DataParallel` drives all GPUs from one process: it copies the model to each of them in every step, "
                "and is often no faster than one GPU.",
                remedy="Start one process for each GPU with `torchrun` and wrap the model in "
                "`DistributedDataParallel`.",
                # The way of launching is chosen once, for all models.
                cause=wraps[0].location,
            )
