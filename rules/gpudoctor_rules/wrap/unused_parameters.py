"""A layer of a wrapped model is never used by its `forward`.

## What goes wrong

`DistributedDataParallel` waits for the gradient of every parameter that takes one. Those of a layer that no step uses
get none, and the second step ends with `RuntimeError: Expected to have finished reduction in the prior iteration before
starting a new one. This error indicates that your module has parameters that were not used in producing loss.`
A layer that `forward` calls under `no_grad` alone gets none either, as the encoder of the keys in a contrast: it must
be frozen before the wrap.
Lightning's `manual_backward` asks for all of them each time: that of one network of a GAN leaves out the other.

## Fix

Drop the layer, or freeze it before the wrap (`model.old_head.requires_grad_(False)`). Where other steps need it, give
the wrapper `find_unused_parameters=True`. No automatic fix: which of these is meant only you know.

## Silent when

The wrapper looks for unused parameters, is given `static_graph`, or is that of apex; the layer is frozen; it is used on
some path, also where an argument would choose it, called from elsewhere, in a list or under another name, or shares its
weights; `forward` does something that could not be followed, or is not a function of the project. Parameters that only
some steps leave out are not seen.

## Sources

pytorch/pytorch#43259, open-mmlab/mmdetection#2153, open-mmlab/mmsegmentation#3737.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.module import Module, WrapperKind
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.model import Forward, GradientFlag, UnusedPart, Wrap
from gpudoctor.lint.events.training_step import Backward, MakeOptimizer
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import UNUSED
from gpudoctor_rules.wrap._later import ddp_around, how_to_search, trained_after

_TEXTS = (
    "Expected to have finished reduction in the prior iteration",
    "LightningModule has parameters that were not used in producing the loss",
)
"""Lightning words it in its own way."""


class UnusedParameters(Rule):
    code = "GPU112"
    severity = Severity.WARNING
    errors = (
        *UNUSED,
        "Parameter indices which did not receive grad for rank 0: 2 3",
        "RuntimeError: It looks like your LightningModule has parameters that were not used in producing the loss "
        "returned by training_step.",
    )
    stops = True
    shows_when = ("distributed", "ended_well")
    needs = (UnusedPart, Backward)

    def in_code(self, program: Program) -> Findings:
        for unused in program.events(UnusedPart):
            if not _has_parameters(program, unused.part):
                continue
            # A model without the wrapper trains on: nobody waits for anything.
            wrap = ddp_around(program, unused.module, unused)
            if wrap is None or (wrap.handed_to is None and program.managed_by) or not _waits(wrap):
                continue
            if _has_another_use(program, unused):
                continue
            if trained_after(program, wrap, wrap) is None:
                continue
            yield self.found(
                unused.location,
                f"`{unused.name}` has parameters, and `{unused.method}` {_left(unused)}: `DistributedDataParallel` "
                "waits for their gradients, and the second step ends with a `RuntimeError`.",
                remedy=_remedy(program, unused, wrap),
                because=[(f"{name_of(wrap.wrapper)} is wrapped here", wrap.location)],
            )

        yield from self._left_out(program)

    def _left_out(self, program: Program) -> Findings:
        """Lightning's `manual_backward` prepares the wrapper for all parameters, and this loss is of one network."""
        for backward in program.events(Backward) if program.launched_in_several else ():
            calls = list(program.calls_in_graph(backward)) if backward.managed and backward.complete else []
            if not calls or backward.uses_parameters or not backward.loops:
                continue
            wrap = ddp_around(program, calls[0].module, backward)
            if wrap is None or not _waits(wrap) or any(each.module.wrapped_by(WrapperKind.DDP) for each in calls):
                continue
            reached = frozenset().union(*(program.within(each.module) for each in calls))
            part = next((each for each in _optimized(program, wrap) if not program.within(each) & reached), None)
            if part is None or part in program.escaped:
                continue
            yield self.found(
                backward.location,
                f"{name_of(part)} has no part in this loss: `DistributedDataParallel` waits for the gradients of all "
                "parameters, and the next backward ends with a `RuntimeError`.",
                remedy=f"{how_to_search(program, wrap).capitalize()}.",
                because=[(f"{name_of(part)} is made here", part.place)],
            )
            return

    def in_run(self, recording: Recording) -> Findings:
        # Which parameters lack a gradient, and since when, the error does not say.
        if not (recording.suspected & {"GPU114", "GPU115", "GPU507"} or recording.frozen_in_wrapper):
            for text in _TEXTS:
                yield from self.crashed(
                    recording,
                    text,
                    because="some parameters had no part in the loss, and DDP waits for their gradients",
                    remedy="Remove the layers that are not used, or give the wrapper `find_unused_parameters=True`.",
                )


def _left(unused: UnusedPart) -> str:
    return "calls it under `no_grad` alone" if unused.without_graph else "never uses it"


def _remedy(program: Program, unused: UnusedPart, wrap: Wrap) -> str:
    freeze = f"`{unused.name}.requires_grad_(False)`"
    if unused.without_graph:
        return f"Freeze it before the wrap: {freeze}."
    return f"Drop `{unused.name}`, freeze it before the wrap, or {how_to_search(program, wrap)}."


def _optimized(program: Program, wrap: Wrap) -> Iterator[Module]:
    """The parts of a model that optimizers step, and nobody freezes."""
    frozen = [flag.module.core for flag in program.events(GradientFlag) if flag.on is not True]
    inside = program.within(wrap.inner)
    for made in program.events(MakeOptimizer):
        for part in sorted((each.core for each in made.optimizer.modules), key=name_of):
            if not isinstance(part, Module) or part not in inside or not _has_parameters(program, part):
                continue
            if not any(each in program.within(part) or part in program.within(each) for each in frozen):
                yield part


def _waits(wrap: Wrap) -> bool:
    """The wrapper expects a gradient for every parameter."""
    # `args.find_unused` may be either.
    return wrap.find_unused is False and wrap.static is False and not wrap.opaque and wrap.certain


def _has_parameters(program: Program, part: Value) -> bool:
    # An activation or a dropout may be left over without any harm.
    return any(isinstance(each, Module) and each.parameters is True for each in program.within(part))


def _has_another_use(program: Program, unused: UnusedPart) -> bool:
    """It is called from elsewhere, or told to take no gradient."""
    held = program.within(unused.part)
    # A loss may call the layer beside the model; its gradient arrives all the same.
    called = any(call.module.core in held for call in program.events(Forward))
    frozen = any(
        flag.on is not True and (unused.part in program.within(flag.module) or flag.module.core in held)
        for flag in program.events(GradientFlag)
    )
    return called or frozen or unused.part in program.escaped
