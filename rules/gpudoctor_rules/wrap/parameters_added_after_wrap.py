"""Layers or parameters are put into a model that is wrapped already.

## What goes wrong

`DistributedDataParallel` registers the parameters when it is made. New ones are not sent from rank 0, so that every
rank begins with different values, and their gradients are never averaged: silently, each rank trains its own copy.
Where a layer is replaced, the wrapper still waits for the gradients of the old one, and the second step ends with
`RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.`

## Fix

Finish the model, then wrap it; make the optimizer after that. No automatic fix: what is built in between may need the
wrapper.

## Silent when

The new part has no parameters, or is not known to have any; it is frozen; the model is wrapped again before it is
trained; the wrapper is not trained after it.

## Sources

https://docs.pytorch.org/docs/stable/notes/ddp.html (the reducer is built when the wrapper is made).
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.events.model import GradientFlag, PartAdded, Wrap
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import CrashText, DriftText, Findings, Program, Rule
from gpudoctor_rules._error_texts import UNUSED
from gpudoctor_rules.wrap._later import before_wrap, ddp_around, trained_after

_REMEDY = "Change the model first, and wrap it then."


class ParametersAddedAfterWrap(Rule):
    code = "GPU115"
    severity = Severity.ERROR
    errors = UNUSED
    shows_when = ("distributed", "ended_well")
    needs = (PartAdded,)
    crash = CrashText(
        "Expected to have finished reduction in the prior iteration",
        because="a parameter that was wrapped is not part of the model any more",
        remedy=_REMEDY,
        # Which parameters lack a gradient, and since when, the error does not say.
        when="suspected",
    )
    drift = DriftText("the wrapper does not know what was added after it was made", _REMEDY)

    def in_code(self, program: Program) -> Findings:
        for added in program.events(PartAdded):
            # A part that has a wrapper of its own is averaged by that one.
            if not added.parameters or isinstance(added.part, Wrapper):
                continue
            # `program.within` knows later parts too, so that a part of a new part counts.
            wrap = ddp_around(program, added.parent, added)
            if wrap is None or _is_frozen(program, added):
                continue
            if trained_after(program, wrap, added) is None:
                continue
            yield self.found(
                added.location,
                f"{name_of(wrap.wrapper)} is a `DistributedDataParallel` already when its model gets {_what(added)}: "
                + _harm(added, wrap),
                remedy=f"Finish the model {before_wrap(program, wrap) or 'first, and wrap it then'}.",
                because=[("wrapped here", wrap.location)],
                cause=wrap.location,
                by=added,
            )


def _what(added: PartAdded) -> str:
    # `model.scale = nn.Parameter(...)` gives the module parameters of its own.
    new = "new parameters" if added.part == added.parent else f"a new `{added.name}`"
    return new if added.name else "new layers"


def _harm(added: PartAdded, wrap: Wrap) -> str:
    # A wrapper that searches for unused parameters gets over the old ones.
    if added.replaced and wrap.find_unused is False:
        return "it waits for the gradients of the old one, and the second step ends with a `RuntimeError`."
    return "each rank starts with different values there, their gradients are not averaged, and the ranks drift apart."


def _is_frozen(program: Program, added: PartAdded) -> bool:
    """The new part is told to take no gradient: itself, or with all of the model once it is there."""
    return any(
        flag.on is False
        and (flag.module == added.part or (flag.order > added.order and added.part in program.within(flag.module)))
        and not flag.condition.excludes(added.condition)
        for flag in program.events(GradientFlag)
    )
