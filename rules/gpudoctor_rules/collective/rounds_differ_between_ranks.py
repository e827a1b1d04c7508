"""Ranks make different numbers of iterations of a loop, and something in it waits for all of them.

## What goes wrong

A window slides over images of different sizes, a long sequence is cut into chunks: the loop makes more iterations on
the rank (the process, one for each GPU) that has the larger sample. What stands in it needs all ranks each time: the
`backward()` of a DDP model, a collective, a forward of FSDP, and a forward of DDP where gradients are recorded and the
model has buffers, which are broadcast then, also in evaluation mode. The extra iterations of one rank meet whatever the
others do next, gradients of different samples among it, or nobody: then the job hangs until the watchdog ends it
(`Watchdog caught collective operation timeout: WorkNCCL(...)`, with gloo `Connection closed by peer`). With samples of
one size it never happens.

Or rank 0 alone reads the checkpoint: `if rank == 0: first_epoch = state["epoch"]`. It trains from there on, and the
others begin at 0: when rank 0 is done, they wait for it in the next `backward()`.

## Fix

No automatic fix. Agree on the number of iterations first, `dist.all_reduce(rounds, op=dist.ReduceOp.MAX)`, and let all
ranks make as many; or, in an evaluation, call the model inside the wrapper, under `torch.no_grad()`. Let every rank
read the checkpoint, or broadcast the epoch.

## Silent when

The number of iterations is the same on all ranks, as far as is known: it is a setting, was reduced or broadcast, or is
the size of a batch; the loader stacks several samples, which then are of one size, and no `collate_fn` is given; each
rank has the same data; gradients are not recorded, and the forward of a DDP model is all that would wait: it broadcasts
nothing then, but for the first one; the loop stands in DDP's `join()`; rank 0 sends what it has read to the others.

## Sources

pytorch/pytorch#22584, https://docs.pytorch.org/docs/stable/notes/ddp.html; run on two CPU ranks with torch 2.13: a
model with batch norm hangs in `eval()` as well, and under `no_grad` it does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.event_context import Event, Loop
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.loop_bounds import goes_by_size, parting_bound
from gpudoctor.lint.questions.loop_rounds import batch_loop
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import STUCK
from gpudoctor_rules.collective._together import JointStep, steps_together


class RoundsDifferBetweenRanks(Rule):
    code = "GPU517"
    severity = Severity.WARNING
    errors = STUCK
    stops = True
    shows_when = ("distributed", "ended_well")
    of_ranks = True
    needs = (Backward, Collective, Forward)

    def in_code(self, program: Program) -> Findings:
        if not program.presence():
            return
        told: set[Location] = set()
        steps = [*_forwards(program), *steps_together(program)]
        for step in sorted(steps, key=lambda each: each.event.order):
            yield from self._begun_apart(step, told)
            loop = _own_loop(step.event)
            if loop is None or loop.location in told or "join" in step.event.context.contexts:
                continue
            told.add(loop.location)
            place = _acting_place(program, step.event, loop)
            yield self.found(
                place,
                f"Each rank makes as many iterations as its own sample needs, and {step.name} needs every rank: the "
                "one with more iterations waits there forever.",
                remedy="Let all ranks make the same number of iterations: reduce it first, with `op=dist.ReduceOp.MAX`."
                + _way_inside(step.event),
                because=[
                    ("this loop asks how large the sample is", loop.location),
                    (f"{step.name} needs every rank", step.event.location),
                ],
                doubt="All samples may happen to be of one size.",
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.collective._stuck import standstill

        return standstill(self, recording, "Let all ranks make the same number of iterations.")

    def _begun_apart(self, step: JointStep, told: set[Location]) -> Findings:
        """`if rank == 0: begin = checkpoint["epoch"]`, then `for epoch in range(begin, epochs)`."""
        loop, asked = next(((loop, test) for loop in step.event.loops if (test := parting_bound(loop))), (None, None))
        if loop is None or asked is None or loop.location in told or "join" in step.event.context.contexts:
            return
        told.add(loop.location)
        yield self.found(
            loop.location,
            f"This loop makes other iterations where `{asked!r}` than on the other ranks, and {step.name} needs every "
            "rank: those with more iterations wait there forever.",
            remedy="Let every rank read what rank 0 has read, or send it: `dist.broadcast_object_list`.",
            because=[
                ("only there it gets another value", asked.atom.place),
                (f"{step.name} needs every rank", step.event.location),
            ],
            doubt="Both values may happen to be the same.",
        )


def _forwards(program: Program) -> Iterator[JointStep]:
    """Calls of a wrapped model in which something is exchanged."""
    for event in program.events(Forward):
        wrapper = event.module
        if not isinstance(wrapper, Wrapper) or not program.by_every_rank(event):
            continue
        copies = [each for each in wrapper.chain if each.kind is WrapperKind.DDP]
        # After a forward without gradients DDP has no news of buffers to broadcast.
        shared = bool(copies) and event.buffers is True and event.graph and not event.context.evaluating
        asked_for = all(each.sends_buffers for each in copies)
        if wrapper.wrapped_by(WrapperKind.FSDP) or (shared and asked_for):
            yield JointStep(f"the forward of {name_of(wrapper, 'the model')}", event)


def _own_loop(event: Event) -> Loop | None:
    """The loop around it, within a pass over this rank's data, that goes by the size of a sample."""
    around = batch_loop(event)
    if around is None or around.over is None:
        return None
    size = around.over.batch_size
    alone = size is None or size.all(lambda each: each.is_none or each.in_python == 1)
    # Several samples are stacked, and so of one size, unless somebody pads or packs them.
    if not alone and not around.over.custom_collate:
        return None
    inner = event.loops[event.loops.index(around) + 1 :]
    return next((loop for loop in inner if goes_by_size(loop)), None)


def _acting_place(program: Program, event: Event, loop: Loop) -> Location:
    """The loop, or the call that leads there from the file with the pass over the data: a helper in another one is
    right for those who hand over a model that waits for nobody."""
    around = batch_loop(event)
    start = next((each for each in program.events(Iterate) if around is not None and each.loop == around), None)
    if start is None or start.location.path == loop.location.path:
        return loop.location
    return parting(event, start)


def _way_inside(event: Event) -> str:
    """In an evaluation each rank can call its own copy."""
    if not isinstance(event, Forward) or event.training is not False or event.module.wrapped_by(WrapperKind.FSDP):
        return ""
    return " In an evaluation, call the model inside the wrapper."
