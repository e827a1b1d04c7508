"""Which checkpoint is the best is decided by the result of this rank's own shard of the validation set.

## What goes wrong

With a `DistributedSampler` each rank (each process, one for each GPU) validates its own shard. Where the result of that
shard is compared with the best one so far, rank 0 keeps the model that was best on an eighth of the data, on eight
GPUs, and may throw away the better one. Ranks also come to different answers: what follows from them, such as the next
learning rate or early stopping, differs between ranks. No error is raised.

## Fix

Sum the counts over the ranks before they are compared, on all ranks: `dist.all_reduce(right)`. No automatic fix.

## Silent when

The result went through a collective, a metric library that synchronises, or code that could not be read; each rank
evaluates the whole set; it is a training loss that is compared; a framework keeps the best checkpoint.

## Sources

Lightning-AI/pytorch-lightning#19045, Lightning-AI/pytorch-lightning#14302, bubbliiiing/yolov4-pytorch#1; run on two CPU
ranks with torch 2.13.
"""

from __future__ import annotations

import os
from collections.abc import Container
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.events.files import Save
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.asked_in_tests import shards_asked
from gpudoctor.lint.questions.loop_rounds import batch_loop
from gpudoctor.rule import Findings, Program, Recording, Rule

if TYPE_CHECKING:
    from gpudoctor.api.pack import Literal, Value
    from gpudoctor.run.recording import Pass, Process, Written


class BestChosenFromLocalMetric(Rule):
    code = "GPU609"
    severity = Severity.WARNING
    of_ranks = True
    needs = (Save,)
    looks_at = ((Save, "local_guards"),)

    def in_code(self, program: Program) -> Findings:
        if program.managed_by - program.leaving("checkpoints"):
            return
        trained = {loop.over for event in program.events(Backward) if (loop := batch_loop(event)) is not None}
        # A training loss of one rank is noise, and everybody knows that.
        told: set[tuple[str, int]] = set()
        for save in program.events(Save):
            for guard in save.local_guards if save.checkpoint and not save.collective else ():
                loader, place = _validated_by(guard, trained), guard.atom.place
                # One test of several parts is one mistake.
                if loader is None or place is None or (place.path, place.line) in told:
                    continue
                told.add((place.path, place.line))
                yield self.found(
                    at=place,
                    message=f"`{guard.atom.text}` tests a result of this rank's own shard of `{loader.label}`: "
                    f"one part of the data decides which model is kept as {save.path_shown('the best')}.",
                    remedy="Sum the counts over all ranks with `dist.all_reduce(counts)` before comparing them.",
                    because=[
                        ("each rank reads its own shard of this loader", loader.place),
                        ("and what it decides is written here", save.location),
                    ],
                    cause=loader.place,
                    needs=loader.shared_by_sampler or (),
                )

    def in_run(self, recording: Recording) -> Findings:
        # Whether the number decides, or something else does, is told by the code.
        if self.code not in recording.suspected or not recording.distributed:
            return
        for save in recording.ranks[0].saves:
            before = _evaluated_before(recording.ranks[0], save)
            # Any collective in between may have brought the results together.
            if before is None or save.exchanges != before.exchanges or save.place is None:
                continue
            seen = f", {len(before.places)} of {before.size} samples" if before.places and before.size else ""
            yield self.found(
                save.place,
                f"`{os.path.basename(save.path)}` was kept after step {save.step} by what this rank alone had seen of "
                f"the validation set{seen}: no rank had asked another since.",
                remedy="Sum the counts over all ranks with `dist.all_reduce(counts)` before comparing them.",
                because=[("each rank read its own shard here", before.place)],
            )
            return

    def could_show(self, recording: Recording) -> bool:
        return recording.distributed and any(_evaluated_before(recording.ranks[0], e) for e in recording.ranks[0].saves)


def _evaluated_before(rank: Process, save: Written) -> Pass | None:
    """The evaluation of a shard of the data that came between the last step and this save."""
    shares = (each for each in rank.evaluations if (each.replicas or 1) > 1 and each.first_step == save.step)
    return next(shares, None)


def _validated_by(guard: Literal, trained: Container[Value | None]) -> Loader | None:
    """The loader of whose shard the test asks, where that is one that is not trained with."""
    found = [each for each in shards_asked(guard) if isinstance(each, Loader) and each not in trained]
    # Several loaders may be in one number: the first in the source, so that runs agree.
    return min(found, key=lambda each: each.place, default=None)
