"""A sharded model is told not to reduce its gradients, and never to do so again.

## What goes wrong

`set_requires_gradient_sync(False)` holds until it is called again: in each backward from there on, a model that
`fully_shard` (FSDP2) has sharded adds up the gradients of this rank (this process, one for each GPU) beside the
parameters, and reduces none. What the optimizer looks at, `parameter.grad`, stays `None`. No error is raised: each step
changes nothing, the loss does not go down, and the whole gradients take the memory that sharding had saved.

## Fix

Call it in each iteration with whether this is the last batch before the step:
`model.set_requires_gradient_sync((i + 1) % 4 == 0)`, before the forward. Where each batch is followed by a step, leave
it out. Unsafe, because the training changes; that is the point.

## Silent when

Some call of it, of this model, of a part of it or of something unknown, may say `True`; it was called for the model
without its parts (`recurse=False`); no optimizer that steps holds the model; a framework is in charge.

## Sources

https://docs.pytorch.org/docs/stable/distributed.fsdp.fully_shard.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.events.training_step import Backward, GradientSync, OptimizerStep
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.gradient_use import stepped_after
from gpudoctor.lint.questions.loop_rounds import same_round
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.repair.repair import Delete, Repair, Replace, Source
from gpudoctor.rule import Findings, Program, Recording, Rule


class GradientSyncNeverRestored(Rule):
    code = "GPU933"
    severity = Severity.ERROR
    fix_safety = Safety.UNSAFE
    shows_when = ("ranks.optimizers.sharded",)
    needs = (GradientSync,)

    def in_code(self, program: Program) -> Findings:
        # A notebook is started by itself, and may be one of several processes all the same.
        program = program.of_ranks
        if not program.absence():
            return
        for off in program.events(GradientSync):
            if off.call != CALL or not off.never or _may_be_restored(program, off):
                continue
            used = _used_after(program, off)
            if used is None:
                continue
            backward, step = used
            yield self.found(
                off.location,
                f"The gradients of {name_of(off.target)} are never reduced: this switches it off, and nothing switches "
                f"it on before {name_of(step.optimizer, 'the optimizer')} steps, which finds no gradient and changes "
                "nothing.",
                remedy=f"Call it in each iteration, before the forward, with whether {name_of(step.optimizer)} steps "
                "after this batch.",
                because=[("the backward", backward.location), ("the step", step.location)],
                needs=[each for each in off.condition if each.atom.switch],
                repair=_reduce_before(off, backward, step),
            )

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            for each in rank.optimizers:
                seen = [check for check in rank.checks if check.optimizer == each.number]
                empty = [check for check in seen if check.without_gradient == each.parameters]
                place = each.backward or each.place
                if each.sharded and len(empty) == len(seen) >= _ENOUGH and rank.backwards and place is not None:
                    yield self.found(
                        place,
                        f"After {rank.backwards} backwards none of the {each.parameters} parameters of this "
                        f"{each.type} had a gradient: the sharded model was told not to reduce them.",
                        remedy="Call `set_requires_gradient_sync(True)` before the forward of the last batch of each "
                        "step.",
                    )


CALL = "set_requires_gradient_sync"


def _may_be_restored(program: Program, off: GradientSync) -> bool:
    """Some call that reaches a part of the model is not known to switch it off."""
    parts = program.within(off.target)
    others = (each for each in program.events(GradientSync) if each.call == CALL and not each.never)
    return any(not each.target.is_model or parts & program.within(each.target) for each in others)


def _used_after(program: Program, off: GradientSync) -> tuple[Backward, OptimizerStep] | None:
    """A backward through the model from there on, and the step that finds none of its gradients."""
    core = off.target.core
    for backward in program.events(Backward):
        calls = program.calls_in_graph(backward) if backward.order > off.order else ()
        if not any(core in program.within(call.module) for call in calls):
            continue
        step = stepped_after(program, backward, core)
        # A batch that is switched off for leaves it so for those behind.
        left = off.condition.difference(step.condition).difference(backward.condition) if step is not None else ()
        if step is not None and all(each.atom.switch or each.atom.divergence & Divergence.BATCH_INDEX for each in left):
            return backward, step
    return None


def _reduce_before(off: GradientSync, backward: Backward, step: OptimizerStep) -> Repair | None:
    """Ask what decides whether a step follows, where that is asked in the same iteration; else leave the call out."""
    # What stands under a test of its own would leave that with nothing in it.
    if off.condition.difference(step.condition):
        return None
    tests = [each for each in step.condition.difference(off.condition) if each.atom.place is not None]
    asks = len(tests) == 1 and tests[0].holds and same_round(off, step)
    place = tests[0].atom.place if asks else None
    if place is not None:
        return Repair("Reduce the gradients before each step", (Replace(off.location, (Source(place),), part="0"),))
    return Repair("Leave the gradients to be reduced", (Delete(off.location),))


_ENOUGH = 2
"""Looks at the parameters that must have been taken."""
