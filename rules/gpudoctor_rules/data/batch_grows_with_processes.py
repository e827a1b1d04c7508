"""A program for one process is started as several, and its batch and learning rate are those of one.

## What goes wrong

Started N times by `torchrun`, a training takes N batches for each step, one on each rank. Once the ranks share the data
and average their gradients, a step sees N times as many samples and an epoch has one N-th of the steps. The learning
rate was chosen for the batch of one process: with the larger batch and fewer steps the model learns less in the same
number of epochs. No error is raised; the accuracy is lower than on one GPU.

## Fix

Decide which of the two to keep. To train as one GPU does, divide: `batch_size=256 // dist.get_world_size()`. To use
larger GPUs together, keep the batch of each rank and raise the learning rate, often by as many times as there are ranks
and with some epochs of warm-up. No automatic fix: only experiments show what the model tolerates.

## Silent when

The program is made for several processes, that is, makes a process group; it was not said (`--launch torchrun`, or
`launch` in the settings) that several processes are started; it trains without batches of a `DataLoader`.

## Sources

https://arxiv.org/abs/1706.02677 (linear scaling and warm-up), https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.events.training_step import MakeOptimizer
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules.data._passes import is_name, trained_with


class BatchGrowsWithProcesses(Rule):
    code = "GPU322"
    severity = Severity.WARNING
    needs = (InitGroup, Iterate)

    def in_code(self, program: Program) -> Findings:
        if program.lacks_group is None:
            return
        optimizer = next(program.events(MakeOptimizer), None)
        for loader in trained_with(program):
            size = _size(loader)
            if size is None or loader.sharded or optimizer is None:
                continue
            label = f"`{loader.label}`" if is_name(loader.label) else "this loader"
            shown = size if size.isdigit() else f"`{size}`"
            yield self.found(
                loader.place,
                f"Each process takes a batch of {shown} from {label}: N processes make a step of N times {shown} "
                "samples, at the learning rate that was chosen for one.",
                remedy=f"Keep the batch by `batch_size={size} // torch.distributed.get_world_size()`, or keep {shown} "
                "on each and choose a new learning rate: often N times as much, after a warm-up.",
                because=[("the learning rate is given here", optimizer.location)],
            )


def _size(loader: Loader) -> str | None:
    """The batch of a process, as it can be written; None where there is none or it has no name."""
    given = loader.batch_size.single if loader.batch_size is not None else None
    if given is None or given.is_none:
        return None
    return str(given.in_python) if given.is_constant else given.label or None
