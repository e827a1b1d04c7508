"""`DataParallel` divides a batch that was chosen for one GPU, so that each GPU gets only a part of it.

## What goes wrong

`DataParallel` takes one batch for all GPUs and gives each an equal part. With the batch size of the program for one
GPU, 8 GPUs work on an eighth of it each: kernels are too small to fill them, the model is copied to all of them in
every step as before, and training is often slower than on a single GPU. A batch of 1 cannot be divided at all: one GPU
works. No error is raised.

## Fix

Multiply the batch size by the number of GPUs, and choose the learning rate for the larger batch. No automatic fix: the
batch may be meant for all GPUs together. This is advice, and off by default.

## Silent when

The batch size comes from the user, is a product with the number of GPUs, or is above 256, which nobody writes for one
small GPU; the loader is not used for training; `device_ids` names one GPU; `DistributedDataParallel` is used, which
gives each process batches of its own.

## Sources

Lightning-AI/pytorch-lightning#3706, facebookresearch/moco#98,
https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.model import Wrap
from gpudoctor.rule import Findings, Program, Rule
from gpudoctor_rules.data._passes import LearningPass, is_name, trained_with

LARGEST = 256
"""Larger batches were chosen for several GPUs, as far as anybody can tell."""


class DataParallelBatchNotScaled(Rule):
    code = "GPU319"
    severity = Severity.INFO
    needs = (Iterate,)

    def in_code(self, program: Program) -> Findings:
        if program.managed_by or not program.has(Wrap):
            return
        for loader, found in trained_with(program).items():
            size, wrap = _written_size(found), _divided_by(program, found)
            if size is None or wrap is None or size > LARGEST:
                continue
            label = f"`{loader.label}`" if is_name(loader.label) else "The training loader"
            part = (
                "one GPU works on it and the others idle" if size == 1 else f"with 4 GPUs each works on {_share(size)}"
            )
            yield self.found(
                at=loader.place,
                message=f"{label} reads batches of {size}, and `DataParallel` divides each over all GPUs: {part}.",
                remedy=f"Give every GPU as much as a single one had: `batch_size={size} * torch.cuda.device_count()`.",
                because=[("the batches are divided by this wrapper", wrap.location)],
            )


def _written_size(found: LearningPass) -> int | None:
    """The batch size where the program wrote it as a number, which is 1 where it says nothing."""
    loader = found.loader
    if loader.opaque or any(not value.is_none for value in loader.batch_sampler or ()):
        return None
    if loader.batch_size is None:
        return 1 if loader.cls is None else None
    return loader.written_size(found.when)


def _divided_by(program: Program, found: LearningPass) -> Wrap | None:
    """The `DataParallel` of several GPUs that the model runs in which learns from these batches."""
    wrappers = {
        wrapper
        for call in program.calls_in_graph(found.backward)
        if isinstance(call.module, Wrapper)
        for wrapper in call.module.chain
        if wrapper.kind is WrapperKind.DATA_PARALLEL
    }
    for wrap in program.events(Wrap):
        if wrap.wrapper in wrappers and not wrap.on_one_gpu:
            return wrap
    return None


def _share(size: int) -> str:
    return f"{size // 4} samples" if size >= 8 else "one or two samples"
