"""One rank evaluates between the epochs, and the GPUs of all others wait for it.

## What goes wrong

Under `if rank == 0:` one process goes over the whole validation set. The others come to the next barrier, or to the
first gradient exchange of the next epoch, and wait there until it is done: with eight GPUs seven are idle. They
seem to be busy, since a GPU that waits in NCCL shows 100 % utilisation. If the evaluation takes longer than the timeout
of the process group (10 minutes with NCCL), the job ends:

    Watchdog caught collective operation timeout

## Fix

Let every rank evaluate its shard: give the validation loader `DistributedSampler(held_out, shuffle=False)`, sum the
results with `dist.all_reduce`, and print them on one rank. No automatic fix: the score has to be summed over the ranks.

## Silent when

The evaluation comes once, after the training; it is left after a few batches; the other ranks evaluate something else
meanwhile; the evaluation waits for them in a collective or in a wrapper (GPU501, GPU502); it is not certain that the
test before it asks for the rank; a framework is in charge.

## Sources

https://docs.pytorch.org/docs/stable/distributed.html, numenta/nupic.research#264.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.events.acting_place import calls_behind
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.event_context import Event, ranks_in_words
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.throughput._evaluation import Evaluation, evaluations


class IdleRanksDuringEvaluation(Rule):
    code = "GPU807"
    severity = Severity.PERF
    shows_when = ("distributed", "ranks.evaluations")
    of_ranks = True
    needs = (Iterate,)
    looks_at = ((Iterate, "rank_guards"),)

    def in_code(self, program: Program) -> Findings:
        if not program.presence():
            return
        evaluated = [*evaluations(program)]
        alone = [each for each in evaluated if each.start.rank_guards and not _hangs(program, each)]
        together = [*_together(program)] if alone else []
        told: set[Location] = set()
        for each in alone:
            waits = _waiting_for(each, together)
            # The other side of the test may have an evaluation of its own.
            if each.loop.location in told or waits is None or _others_busy(program, each, evaluated):
                continue
            told.add(each.loop.location)
            yield self.found(
                next(iter(calls_behind(each.start, each.start.rank_guards)), each.loop.location),
                f"{_who(each.start)} evaluates here, again and again, while the GPUs of the other ranks wait for it.",
                remedy="Let every rank evaluate its shard (`DistributedSampler(..., shuffle=False)`), and sum the "
                "results with `dist.all_reduce`.",
                because=[
                    ("it iterates over its batches here", each.loop.location),
                    *(("the others go on here", guard.atom.place) for guard in each.start.rank_guards[:1]),
                    (f"and wait at this {_name(waits)}", waits.location),
                ],
            )

    def in_run(self, recording: Recording) -> Findings:
        evaluating = [rank for rank in recording.ranks if rank.evaluations]
        if not recording.distributed or len(evaluating) != 1 or not all(rank.steps for rank in recording.ranks):
            return
        # Where a rank fails or hangs, its pass is cut off and looks like one without training.
        if recording.hang or any(rank.crash or rank.failures or not rank.over for rank in recording.ranks):
            return
        first = evaluating[0].evaluations[0]
        if first.place is not None:
            yield self.found(
                first.place,
                f"Rank {evaluating[0].rank} alone went over {first.batches} "
                "batches here without training, and the others waited for it.",
                remedy="Give each rank a shard of the evaluation data, and reduce the results.",
            )


def _hangs(program: Program, each: Evaluation) -> bool:
    """The evaluation waits for the other ranks: that is GPU501 or GPU502, which come first."""
    call, frames = each.call, each.start.context.frames
    wrapped = call.module.wrapped_by(WrapperKind.DDP, WrapperKind.FSDP)
    if wrapped and call.buffers is not False:
        return True
    return any(e.rank_guards and e.context.frames[: len(frames)] == frames for e in program.events(Collective))


def _who(event: Event) -> str:
    ranks = ranks_in_words(event)
    return ranks.replace(" only", " alone") if ranks != "some ranks only" else "part of the ranks"


def _waiting_for(each: Evaluation, together: list[Event]) -> Event | None:
    """What all ranks do together next, in a loop that comes by here again; None where it is the last evaluation."""
    around = [loop for loop in each.start.loops if loop.identity != each.loop.identity and loop.repeats]
    inside = {loop.identity for loop in around}
    shared = [e for e in together if any(loop.identity in inside for loop in e.loops) and not e.rank_guards]
    # What comes later is met first; what stands before it, in the next round.
    return min(shared, key=lambda e: (e.order < each.start.order, e.order), default=None)


def _together(program: Program) -> Iterator[Event]:
    """What all ranks do together: collectives, and backwards that average gradients."""
    for event in program.events(Collective, Backward):
        if event.rank_guards or (isinstance(event, Collective) and not event.of_all_ranks):
            continue
        calls = program.calls_in_graph(event) if isinstance(event, Backward) else []
        wrappers = (wrapper for call in calls if isinstance(call.module, Wrapper) for wrapper in call.module.chain)
        if isinstance(event, Collective) or any(wrapper.kind.synchronises for wrapper in wrappers):
            yield event


def _name(event: Event) -> str:
    return f"`{event.call}`" if isinstance(event, Collective) else "`backward`"


def _others_busy(program: Program, each: Evaluation, evaluated: list[Evaluation]) -> bool:
    return program.on_both_sides(each.start) or any(
        other.start.condition.excludes(each.start.condition) and other.start.rank_guards for other in evaluated
    )
