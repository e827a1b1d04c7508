"""A wrapped model with buffers is called twice before the backward that goes through both calls.

## What goes wrong

At the beginning of each call in training mode `DistributedDataParallel` copies the buffers of rank 0, such as the
running statistics of BatchNorm, over those of all ranks, in place. The backward of the first call may need them as they
were. PyTorch notices it: `RuntimeError: one of the variables needed for gradient computation has been modified by an
inplace operation`. The latest versions hide the copy from that check, and what depends on buffers is differentiated
with those of the second call.

## Fix

Give the wrapper `broadcast_buffers=False` (`SyncBatchNorm` keeps the statistics alike), or make one call of both parts,
`model(torch.cat([a, b]))`, and split what it returns. No automatic fix: either changes what BatchNorm sees.

## Silent when

The model has no buffers, or is not known to have any; a call is in evaluation mode or without gradients; each call has
a backward of its own; `broadcast_buffers` is given; the layers are `SyncBatchNorm`.

## Sources

pytorch/pytorch#22095, pytorch/pytorch#66504, pytorch/pytorch#62474, pytorch/pytorch#175024,
rosinality/stylegan2-pytorch#236, XPixelGroup/BasicSR#541.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.events.model import Forward, SyncNorm
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.loop_rounds import same_round
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule


class TwoForwardsWithBuffers(Rule):
    code = "GPU117"
    severity = Severity.WARNING
    errors = (
        "RuntimeError: one of the variables needed for gradient computation has been modified by an inplace operation",
    )
    shows_when = ("distributed", "trained")
    needs = (Backward,)

    def in_code(self, program: Program) -> Findings:
        for backward in program.events(Backward):
            first: dict[object, Forward] = {}
            for call in program.calls_in_graph(backward):
                if not _copies_buffers(program, call):
                    continue
                # In the order of the log, so that the second call is the one that overwrites.
                before = first.setdefault(call.module, call)
                if before is call or not _both_happen(before, call, backward):
                    continue
                model = name_of(call.module)
                yield self.found(
                    call.location,
                    f"{model} is called twice before one backward: the second call writes the buffers of rank 0 over "
                    "those that the first one still needs, which may end in a `RuntimeError`.",
                    remedy="Give `DistributedDataParallel` `broadcast_buffers=False`, or make one call: "
                    f"`{model.strip('`') if model.startswith('`') else 'model'}(torch.cat([a, b]))`.",
                    because=[("the first call", before.location), ("one backward for both", backward.location)],
                )

    def in_run(self, recording: Recording) -> Findings:
        told: set[Location] = set()
        for rank in recording.ranks:
            for calls in rank.calls:
                if calls.second is None or calls.second in told:
                    continue
                told.add(calls.second)
                wrap = next((each for each in rank.wraps if each.id == calls.wrapper), None)
                model = f"`{wrap.model}`" if wrap is not None else "the model"
                yield self.found(
                    calls.second,
                    f"{model} was called twice before the backward of step {calls.step + 1}: the second call wrote the "
                    "buffers of rank 0 over those that the first one still needed.",
                    remedy="Give `DistributedDataParallel` `broadcast_buffers=False`, or make one call: "
                    "`model(torch.cat([a, b]))`.",
                    because=[("the first call", calls.first)],
                )


def _copies_buffers(program: Program, call: Forward) -> bool:
    """The wrapper surely copies buffers at the begin of this call, and something may need the old ones."""
    wrapper = call.module
    if not isinstance(wrapper, Wrapper) or not call.graph or call.training is False or call.buffers is not True:
        return False
    copies = [each for each in wrapper.chain if each.kind is WrapperKind.DDP]
    # Whoever has given it has thought of it.
    if not copies or any(not each.sends_buffers for each in copies):
        return False
    # Its backward needs no running statistics, and they are alike on all ranks.
    core = wrapper.core
    synced = (sync.module.core for sync in program.events(SyncNorm))
    return not any(core in program.within(each) or each in program.within(core) for each in synced)


def _both_happen(one: Forward, other: Forward, backward: Backward) -> bool:
    """Both calls surely lie in one graph: a loss may also be of either, or of the one of an earlier round."""
    # `if step % 4 == 0: loss += penalty(model)`: a loss may be of either call.
    sure = backward.condition.implies(one.condition) and backward.condition.implies(other.condition)
    return sure and same_round(one, other)
