"""A loss is computed with parameters of the wrapped model directly, and no forward of the wrapper leads to it.

## What goes wrong

`DistributedDataParallel` prepares the averaging of gradients in its own `forward`. A loss that takes a weight out of
the model and computes with it, as in `F.linear(x, model.module.head.weight)`, gets right gradients in `backward()`, but
only on this rank (this process, one for each GPU): they are averaged with no other's. Each rank steps by its own data,
and the ranks drift apart. No error is raised.

## Fix

Move the computation into the `forward` of the model, and call the wrapper. No automatic fix.

## Silent when

The wrapper is called in the same iteration, as for a penalty on the weights beside the usual loss: DDP then averages
what comes to the parameters by any way; the loss does not depend on data, so that it is the same on all ranks; the
program reduces gradients itself; nothing steps with these gradients; the parameter is taken in a way that is not
followed.

## Sources

https://docs.pytorch.org/docs/stable/notes/ddp.html, OFA-Sys/Chinese-CLIP#13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.training_step import Backward, OptimizerStep
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.loop_rounds import same_round, within_round
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.questions.wrappings import Wrapping, wrappings
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.gradient._steps import reaches


class ParametersUsedOutsideForward(Rule):
    code = "GPU707"
    severity = Severity.ERROR
    shows_when = ("distributed", "trained")
    of_ranks = True
    needs = (Backward,)
    looks_at = ((Backward, "uses_parameters"),)

    def in_code(self, program: Program) -> Findings:
        if program.managed_by - program.leaving("forwards"):
            return
        for backward in program.events(Backward):
            loss = backward.loss
            if not loss.used:
                continue
            wrap = _wrap_of(program, backward, loss)
            # What is the same on all ranks has the same gradients there, averaged or not.
            if wrap is None or not loss.divergence & Divergence.LOCAL or _averaged(program, backward, wrap):
                continue
            if not any(_steps(program, step, backward, loss) for step in program.events(OptimizerStep)):
                continue
            yield self.found(
                backward.location,
                f"This loss uses parameters inside of {name_of(wrap.wrapper)}, and no call of the wrapper leads to it: "
                "their gradients stay on this rank, and the ranks train different models.",
                remedy="Do this computation in the `forward` of the model, and call the wrapper.",
                because=[("the loss is computed here", loss.place), ("the model is wrapped here", wrap.at.location)],
            )

    def in_run(self, recording: Recording) -> Findings:
        drift = recording.drift
        # A forward that goes past the wrapper looks the same; in a forward through it, gradients are averaged.
        if drift is None or self.code not in recording.suspected or recording.averages_by_hand:
            return
        if any(step.counts.get("forwards") for rank in recording.ranks for step in rank.steps):
            return
        if (at := drift.place) is not None:
            yield self.found(
                at,
                f"After step {drift.step} the ranks held different values in parameter {drift.name}, and no training "
                "forward had gone through the wrapper: gradients stay on their rank.",
                remedy="Do this computation in the `forward` of the model, and call the wrapper.",
                because=[("the model is wrapped here", wrap.place) for wrap in recording.ranks[0].wraps[:1]],
            )


def _wrap_of(program: Program, backward: Backward, loss: Value) -> Wrapping | None:
    """The DDP wrapper around the modules whose parameters are used."""
    for wrap in wrappings(program):
        made = wrap.at.order < backward.order and backward.condition.implies(wrap.at.condition)
        if made and wrap.kind is WrapperKind.DDP and loss.used & program.within(wrap.inner):
            return wrap
    return None


def _averaged(program: Program, backward: Backward, wrap: Wrapping) -> bool:
    """The wrapper was called in this round, which arms its averaging, or the program averages by hand."""
    core = wrap.inner.core
    called = any(call.module.core == core and same_round(call, backward) for call in program.events(Forward))
    by_hand = any(
        event.order > backward.order and not event.waits and within_round(event, backward)
        for event in program.events(Collective)
    )
    return called or by_hand


def _steps(program: Program, step: OptimizerStep, backward: Backward, loss: Value) -> bool:
    """An optimizer of these parameters steps afterwards."""
    optimizer = step.optimizer
    return (
        step.order > backward.order
        and not step.condition.excludes(backward.condition)
        and reaches(program, loss.used, optimizer)
    )
