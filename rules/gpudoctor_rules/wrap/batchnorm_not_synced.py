"""BatchNorm layers take their statistics from a few samples on each GPU.

## What goes wrong

Under `DistributedDataParallel` each process normalises with the mean and variance of its own part of the batch. From
four samples or fewer these are mostly noise: training is less stable and ends with a worse model than the same batch
gives on one GPU, and no error is raised. Running statistics differ between ranks too; those of rank 0 are kept.

## Fix

`model = nn.SyncBatchNorm.convert_sync_batchnorm(model)` before the wrap, which costs a collective for each layer and
step; or `GroupNorm`, which does not look at the batch. No automatic fix: it changes what is trained.

## Silent when

The batch of one GPU is larger, or not written as a number; the layers are converted or kept in evaluation mode; which
layers the model has is not known. It depends on the model how much is lost, so that this rule is advice, and off by
default. A run is silent unless the statistics of the ranks were seen to differ.

## Sources

pytorch/pytorch#2584, https://docs.pytorch.org/docs/stable/generated/torch.nn.SyncBatchNorm.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.events.model import Forward, ModeChange, SyncNorm, Wrap
from gpudoctor.lint.questions.layers import normalises_batch
from gpudoctor.lint.questions.loop_rounds import batch_loop
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.wrap._later import trained_after
from gpudoctor_rules.wrap._wrapped_together import wrapped_together

if TYPE_CHECKING:
    from gpudoctor.api.pack import Value
    from gpudoctor.run.recording.model_facts import Norms

FEW = 4
"""Samples of which the statistics are mostly noise."""
REMEDY = "Convert them before the wrap: `model = nn.SyncBatchNorm.convert_sync_batchnorm(model)`."


class BatchnormNotSynced(Rule):
    code = "GPU111"
    severity = Severity.INFO
    needs = (Wrap,)

    def in_code(self, program: Program) -> Findings:
        for wrap in program.events(Wrap):
            if not wrap.is_ddp or not isinstance(wrap.wrapper, Wrapper):
                continue
            # Without a known layer there is nothing to convert, however small the batch.
            layer = _norm_in(program, wrap.inner)
            call = trained_after(program, wrap, wrap) if layer is not None else None
            size = _batch_of(call) if call is not None and call.training else None
            if layer is None or size is None or size > FEW or _is_handled(program, wrap.inner):
                continue
            yield self.found(
                wrap.location,
                f"BatchNorm layers of {name_of(wrap.wrapper)} see {size} sample{'s' if size > 1 else ''} at a time: "
                "each rank normalises its own part of the batch.",
                remedy=REMEDY,
                because=[("a layer of that kind", layer.place)],
            )

    def in_run(self, recording: Recording) -> Findings:
        size = _largest_batch(recording)
        if size is None or size > FEW:
            return
        for together in wrapped_together(recording):
            norms = [next((each for each in rank.norms if each.wrapper == wrap.id), None) for rank, wrap in together]
            at = together[0][1].place
            if at is not None and (first := norms[0]) is not None and _differ(norms):
                layers = "one BatchNorm layer" if first.count == 1 else f"{first.count} BatchNorm layers"
                yield self.found(
                    at,
                    f"{layers} normalised {size} sample{'s' if size > 1 else ''} at a time, each rank its own: "
                    f"after step {first.step} the running mean of `{first.name}` differed from rank to rank.",
                    remedy=REMEDY,
                )

    def could_show(self, recording: Recording) -> bool:
        return recording.distributed and recording.trained and _largest_batch(recording) is not None


def _largest_batch(recording: Recording) -> int | None:
    """The most samples that a rank was given at a time in training; None where that was not seen."""
    sizes = [each.batch_size for rank in recording.ranks for each in rank.training_passes]
    known = [each for each in sizes if each is not None]
    return max(known) if known and len(known) == len(sizes) else None


def _differ(norms: list[Norms | None]) -> bool:
    """After the same step, the layers have seen other statistics on each rank."""
    seen = [each for each in norms if each is not None]
    return len(seen) == len(norms) == len({each.statistics for each in seen}) and len({each.step for each in seen}) == 1


def _norm_in(program: Program, model: Value) -> Module | None:
    """A layer that normalises over the batch, or a ready model that has such layers."""
    # The first one in the file: the set has no order of its own.
    parts = sorted((each for each in program.within(model) if isinstance(each, Module)), key=lambda each: each.place)
    return next(filter(normalises_batch, parts), None)


def _batch_of(call: Forward) -> int | None:
    """How many samples a rank takes at a time, where the program says so."""
    # A model that is called outside of a loop over batches has a batch of its own.
    loop = batch_loop(call)
    loader = loop.over if loop is not None else None
    return loader.written_size() if loader is not None else None


def _is_handled(program: Program, model: Value) -> bool:
    """The layers are converted, or some part of the model is kept in evaluation mode."""
    held = program.within(model)
    core = model.core
    # Parts may be converted one by one, and a whole may be that holds the model.
    synced = any(sync.module.core in held or core in program.within(sync.module) for sync in program.events(SyncNorm))
    # Fine-tuned detectors keep the statistics that they were trained with.
    frozen = any(mode.training is not True and mode.module.core in held - {core} for mode in program.events(ModeChange))
    return synced or frozen
