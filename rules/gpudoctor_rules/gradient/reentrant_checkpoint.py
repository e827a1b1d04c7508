"""Activation checkpointing in its reentrant form, in a model whose DDP wrapper looks for unused parameters.

## What goes wrong

`torch.utils.checkpoint` drops what a part of the forward has computed, and computes it again in the backward. In its
reentrant form, the one that is taken where `use_reentrant` is left out, that part is missing from the graph that
`DistributedDataParallel(..., find_unused_parameters=True)` looks through: its parameters are taken for unused, counted
as done, and then get a gradient all the same. The first backward ends with:

    RuntimeError: Expected to mark a variable ready only once.

## Fix

Pass `use_reentrant=False`, which PyTorch recommends. Safe: it computes the same. Where all parameters are used, leave
`find_unused_parameters=True` out as well; or give `static_graph=True`, where each step takes the same path.

## Silent when

The wrapper is given `static_graph=True`; `find_unused_parameters` or `use_reentrant` is not known; the part is given
batches alone, of which no graph is made; the checkpointing is done by a library, or stands under a test that is not
decided in the program.

## Sources

https://docs.pytorch.org/docs/stable/checkpoint.html, huggingface/peft#313, allenai/longformer#63,
microsoft/FocalNet#4.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.events.training_step import Recompute
from gpudoctor.lint.repair.repair import Repair, SetArgument
from gpudoctor.rule import CrashText, Findings, Program, Rule
from gpudoctor_rules._error_texts import TWICE_READY


class ReentrantCheckpoint(Rule):
    code = "GPU708"
    severity = Severity.ERROR
    errors = TWICE_READY
    fix_safety = Safety.SAFE
    shows_when = ("ended_well",)
    of_ranks = True
    needs = (Recompute,)
    crash = CrashText(
        "Expected to mark a variable ready only once", remedy="Write `checkpoint(..., use_reentrant=False)`."
    )

    def in_code(self, program: Program) -> Findings:
        for event in program.events(Recompute):
            wrapper = event.module
            # Only what is looked into has a wrapper that searches.
            if not event.reentrant or not isinstance(wrapper, Wrapper):
                continue
            if not wrapper.wrapped_by(WrapperKind.DDP):
                continue
            yield self.found(
                event.location,
                f"This part is computed again in the backward by reentrant checkpointing, and `{wrapper.label}` "
                "takes its parameters for unused: `RuntimeError: Expected to mark a variable ready only once`.",
                remedy="Pass `use_reentrant=False` to the checkpointing.",
                because=[("the wrapper looks for unused parameters", wrapper.place)],
                repair=Repair(
                    "Compute it again without reentering", (SetArgument(event.location, "use_reentrant", ("False",)),)
                ),
            )
