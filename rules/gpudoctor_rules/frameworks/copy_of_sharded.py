"""A model that `fully_shard` has sharded is copied, or a whole state is loaded into it.

## What goes wrong

After `fully_shard` (FSDP2) the parameters are `DTensor`s, and the model refuses what works with any other.
`copy.deepcopy(model)` and `AveragedModel(model)`, by which people make an average of the weights or a teacher, end in
`AssertionError: FSDP does not support deepcopy. Please use state dict for serialization.`, and
`model.load_state_dict(torch.load("model.pt"))` with whole tensors in `RuntimeError: Error(s) in loading state_dict`, on
all ranks.

## Fix

Copy the model, and load its weights, before it is sharded, and shard the copy as well. What comes later is loaded with
`set_model_state_dict(model, state, options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))`. No
automatic fix.

## Silent when

The copy is made before the model is sharded, or the model is sharded on some paths only; each rank loads a file of its
own, a state that was not read from a file, or with `assign=True`; the program writes shards itself; the error is
caught.

## Sources

https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html,
https://docs.pytorch.org/docs/stable/distributed.checkpoint.html; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.model import ShardingRefused, Wrap
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import CrashText, Findings, Program, Rule

_COPY = "Make the copy before the model is sharded, and shard both."
_LOAD = (
    "Load it before the model is sharded, or with `set_model_state_dict(model, state, "
    "options=StateDictOptions(full_state_dict=True, broadcast_from_rank0=True))`."
)


class CopyOfSharded(Rule):
    code = "GPU935"
    severity = Severity.ERROR
    errors = (
        "AssertionError: FSDP does not support deepcopy. Please use state dict for serialization.",
        "RuntimeError: Error(s) in loading state_dict for FSDPTransformer",
    )
    shows_when = ("ranks.optimizers.sharded",)
    needs = (ShardingRefused,)
    crash = (
        CrashText("FSDP does not support deepcopy", remedy=_COPY),
        CrashText("loading state_dict for FSDP", also="DTensor", remedy=_LOAD),
    )

    def in_code(self, program: Program) -> Findings:
        # What a program has written of shards it may read as such.
        own_shards = any(save.shards for save in program.events(Save))
        for event in program.events(ShardingRefused):
            error = _ERRORS.get(event.why)
            if error is None or program.is_caught(event, error):
                continue
            if event.why == "whole state" and own_shards:
                continue
            parts = program.within(event.module)
            shard = next((wrap for wrap in program.events(Wrap) if wrap.inner in parts), None)
            copied = event.why == "copy"
            yield self.found(
                event.location,
                f"{name_of(event.module)} is sharded, and {'cannot be copied' if copied else 'takes no whole state'}: "
                f"this ends in {'an' if copied else 'a'} `{error}`.",
                remedy=_COPY if copied else _LOAD,
                because=[("sharded here", shard.location if shard is not None else None)],
                needs=program.shared_by(event),
            )


_ERRORS = {"copy": "AssertionError", "whole state": "RuntimeError"}
