"""Ranks read different files, so one of them runs out of batches while the others still wait for it.

## What goes wrong

`DistributedDataParallel` averages gradients in every backward, in which all ranks (processes, one for each GPU) must
take part. Where a stream gives each rank files of its own, one rank has fewer samples than another and leaves the loop
first. The others stand in the all-reduce of the next batch until it times out, after 10 minutes with NCCL: `Watchdog
caught collective operation timeout`; with gloo they end with `Connection closed by peer`. It happens at the end of the
first epoch, and only with data whose files differ in length.

## Fix

`with model.join():` around the loop, which lets a rank that has finished take part in the all-reduces of the others;
or as many steps on each rank, counted beforehand. No automatic fix.

## Silent when

The loop stands under `join`, may end early, or holds a collective of its own, with which ranks may agree to stop; the
class has a length, may leave its loops early, never ends, or yields single samples, of which ranks have nearly the same
number; a `DistributedSampler` or a framework shards the data. A run is silent where a rank left the loop before its
data came to an end (GPU503).

## Sources

pytorch/pytorch#22584, microsoft/PyMarlin#80, https://docs.pytorch.org/tutorials/advanced/generic_join.html.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.data import Dataset
from gpudoctor.lint.events.collective import Collective, LeaveLoop
from gpudoctor.lint.events.data_loading import Streamed
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import STUCK
from gpudoctor_rules.data._passes import LearningPass, escapes, synchronised, trained_with

REMEDY = "Put the loop under `with model.join():`, or make as many steps on each rank."
LETS_GO = frozenset({"join", "Join"})


class UnevenBatches(Rule):
    code = "GPU316"
    severity = Severity.ERROR
    errors = STUCK
    stops = True
    shows_when = ("distributed", "ended_well")
    of_ranks = True
    needs = (Streamed,)

    def in_code(self, program: Program) -> Findings:
        if not program.distributed or not program.whole or program.cut_short or program.shared_out:
            return
        by_pieces = {event.source: event.by_rank for event in program.events(Streamed) if event.by_pieces}
        for loader, training in trained_with(program).items():
            stream = loader.dataset.restrict(training.when).single if loader.dataset is not None else None
            averaged = synchronised(program, training)
            if averaged is None or not isinstance(stream, Dataset) or stream not in by_pieces:
                continue
            if not (loader.sharded or by_pieces[stream]):
                continue
            if loader.opaque or loader.managed or escapes(program, loader, stream) or _is_agreed(program, training):
                continue
            yield self.found(
                training.start.location,
                f"Each rank reads its own pieces of the data from `{loader.label}`, and may have fewer batches than "
                "another: the others then wait for it in the all-reduce of their next batch.",
                remedy=REMEDY,
                because=[
                    ("this stream gives each rank its own pieces", stream.place),
                    ("the ranks wait for each other in this model", averaged.location),
                ],
                doubt="The pieces may happen to hold as many samples each.",
            )

    def in_run(self, recording: Recording) -> Findings:
        apart = recording.uneven
        if apart is not None and apart.going_on.place is not None:
            batches = apart.over.batches
            more = "more, and waits for it in the next one"
            if apart.going_on.ended:
                more = f"{apart.going_on.batches}, and waits for it in the steps that only it makes"
            yield self.found(
                apart.going_on.place,
                f"Rank {apart.short} came to the end of its data after {batches} batch{'' if batches == 1 else 'es'}; "
                f"rank {apart.longer} had {more}.",
                remedy=REMEDY,
                because=[
                    ("the batches come from this loader", apart.going_on.made),
                    *((f"rank {each.rank} is here", each.place) for each in recording.hang),
                ],
            )


def _is_agreed(program: Program, training: LearningPass) -> bool:
    """The loop is under `join`, counts steps, or talks to the other ranks."""
    loop = training.start.loop
    if loop is None or LETS_GO & set(training.backward.context.contexts):
        return True
    return any(program.during(loop, Collective, LeaveLoop))
