"""`forward` keeps something on the model, and under `DataParallel` it is kept on a copy that is thrown away.

## What goes wrong

`DataParallel` copies the model to every GPU for each forward, runs `forward` on the copies and drops them. An attribute
that `forward` sets is set on a copy: a counter stays where it was, a running mean starts over in every step, and code
that reads the attribute from the model later finds the old value, or ends with `AttributeError: 'Net' object has no
attribute 'features'`. On a single GPU, where nothing is copied, the same program works.

## Fix

Return what is needed later, count in the training loop, or train with `DistributedDataParallel`, whose model is no
copy. A buffer that is changed in place is kept, from the first GPU's part of the batch. No automatic fix.

## Silent when

The attribute is only used within one forward, or is a cache that is filled again; a tensor is changed in place, or a
list is appended to; the model is called without the wrapper too; `device_ids` names one GPU, so that nothing is copied.

## Sources

pytorch/pytorch#2864, pytorch/pytorch#1500, https://docs.pytorch.org/docs/stable/generated/torch.nn.DataParallel.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.events.model import Forward, ReplicaRead, ReplicaWrite, Wrap
from gpudoctor.rule import Findings, Program, Rule


class DataParallelStateLost(Rule):
    code = "GPU109"
    severity = Severity.WARNING
    errors = ("AttributeError: 'Net' object has no attribute 'features'",)
    needs = (ReplicaWrite,)

    def in_code(self, program: Program) -> Findings:
        for write in program.events(ReplicaWrite):
            wrap = _copied_by(program)
            read = None if write.carried else _read_later(program, write)
            if wrap is None or not (write.carried or read):
                continue
            yield self.found(
                write.location,
                f"`{write.name}` is set on the copy of the model that `DataParallel` makes for this forward and then "
                + ("drops: in the next step it has its old value again." if write.carried else "drops."),
                remedy="Keep count outside of `forward`, or change a buffer in place."
                if write.carried
                else f"Return `{write.name}` from `forward` together with the output.",
                because=[
                    ("it is read here, from the model that was never given it", read.location if read else None),
                    ("the model is wrapped here", wrap.location),
                ],
            )


def _copied_by(program: Program) -> Wrap | None:
    """The wrapper that copies a model to several GPUs."""
    for wrap in program.events(Wrap):
        if wrap.is_data_parallel and not wrap.on_one_gpu:
            return wrap
    return None


def _read_later(program: Program, write: ReplicaWrite) -> ReplicaRead | None:
    """The read of an attribute that the model can only have from its copies."""
    if any(_is_bare(call, write) for call in program.events(Forward)):
        return None
    return next(
        (
            read
            for read in program.events(ReplicaRead)
            if read.order > write.order
            and (read.module, read.name) == (write.module, write.name)
            and not read.condition.excludes(write.condition)
        ),
        None,
    )


def _is_bare(call: Forward, write: ReplicaWrite) -> bool:
    """The model itself runs, which then has what its forward sets."""
    copied = call.module.wrapped_by(WrapperKind.DATA_PARALLEL)
    return call.module.core == write.module and not copied and not call.condition.excludes(write.condition)
