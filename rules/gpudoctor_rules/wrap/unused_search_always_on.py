"""`find_unused_parameters=True` is written into a program in which nothing needs it.

## What goes wrong

In each step `DistributedDataParallel` then walks the whole graph of the loss to find parameters that will get no
gradient, before it may begin to average. It costs time in every step, and hides layers that are unused by mistake.
Where all are used, PyTorch says so once: `Warning: find_unused_parameters=True was specified in DDP constructor, but
did not find any unused parameters in the forward pass.`

## Fix

Leave it out. If the second step then ends with `Expected to have finished reduction in the prior iteration`, some
parameters really are unused: drop them, freeze them before the wrap, or put the switch back. No automatic fix, because
only a run shows which.

## Silent when

Layers are frozen or join the model after the wrap; several models are trained, as in a GAN; the wrapper is given
`static_graph`; gradients flow only through a part of the model; the user chooses it. Whether the model has branches
that a step may leave out is not looked at, so that this rule is advice, and off by default. A run asks the wrapper now
and then what its searches have found, and is silent as soon as one of them has found something.

## Sources

EvolvingLMMs-Lab/OneVision-Encoder#68, https://docs.pytorch.org/docs/stable/notes/ddp.html.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.model import Forward, GradientFlag, PartAdded, UnusedPart, Wrap
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.wrap._later import trained_after
from gpudoctor_rules.wrap._wrapped_together import wrapped_together

if TYPE_CHECKING:
    from gpudoctor.run.recording import Process
    from gpudoctor.run.recording import RecordedWrap as Wrapped

REMEDY = "Leave `find_unused_parameters=True` out, unless the second step then ends with an error."
ENOUGH = 5
"""Iterations that must have been looked at."""


class UnusedSearchAlwaysOn(Rule):
    code = "GPU113"
    severity = Severity.INFO
    errors = (
        "Warning: find_unused_parameters=True was specified in DDP constructor, but did not find any unused "
        "parameters in the forward pass.",
    )
    needs = (Wrap,)

    def in_code(self, program: Program) -> Findings:
        wraps = [wrap for wrap in program.events(Wrap) if wrap.is_ddp]
        # Networks that take turns leave each other's parameters without a gradient.
        if len({wrap.inner.core for wrap in wraps}) > 1:
            return
        for wrap in wraps:
            # What an option decides is the business of whoever starts the program.
            always = wrap.find_unused is True and wrap.static is False
            if not always or _is_needed(program, wrap):
                continue
            # In a program that was not understood, nothing may be said about what is not needed.
            if trained_after(program, wrap, wrap) is None:
                continue
            yield self.found(
                wrap.location,
                f"Each step searches the graph of {name_of(wrap.wrapper)} for parameters without a gradient, and "
                "nothing here leaves any without one.",
                remedy=REMEDY,
            )

    def in_run(self, recording: Recording) -> Findings:
        for together in wrapped_together(recording):
            found = [_found(rank, wrap) for rank, wrap in together]
            looked_at, at = min(len(each) for each in found), together[0][1].place
            if looked_at >= ENOUGH and at is not None and not any(any(each.values()) for each in found):
                yield self.found(
                    at,
                    "Each step searches the graph for parameters without a gradient. "
                    f"Of the searches, {looked_at} were looked at on each rank: none has found any.",
                    remedy=REMEDY,
                )

    def could_show(self, recording: Recording) -> bool:
        found = [_found(*each) for together in wrapped_together(recording) for each in together]
        return bool(found) and all(len(each) >= ENOUGH for each in found)


def _found(rank: Process, wrap: Wrapped) -> dict[int, int]:
    """The iterations whose search was looked at, with the bytes of parameters that were found unused."""
    return {each.iteration: each.unused for each in rank.searches if each.wrapper == wrap.id}


def _is_needed(program: Program, wrap: Wrap) -> bool:
    """Some parameters may be without a gradient in some steps."""
    # Whatever concerns a part of the model concerns the search.
    held = program.within(wrap.inner)
    flags = any(flag.order > wrap.order and flag.module.core in held for flag in program.events(GradientFlag))
    added = any(part.order > wrap.order and part.parent in held for part in program.events(PartAdded))
    # A step that calls a part of the model alone uses nothing of the rest.
    apart = any(call.graph and call.module.core in held - {wrap.inner.core} for call in program.events(Forward))
    unused = any(part.module in held for part in program.events(UnusedPart))
    return flags or added or apart or unused
