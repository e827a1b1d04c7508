"""A sampler that knows nothing of ranks gives each of them all of the data.

## What goes wrong

`SubsetRandomSampler`, `WeightedRandomSampler` and samplers of a project pick from the whole data set. Under
`DistributedDataParallel` each rank (each process, one for each GPU) has one of its own, so each goes through all of
the data in each epoch: with 8 GPUs an epoch takes as long as with one, and sees every sample 8 times. With the same
seed on all ranks they even draw the same batches at the same time. No error is raised.

## Fix

A `DistributedSampler` over `Subset(dataset, indices)` instead of a `SubsetRandomSampler`. With a
`WeightedRandomSampler` let each rank draw `len(dataset) // world_size` samples, from a generator that is seeded with
its rank. A sampler of your own takes every n-th index, beginning at its rank. No automatic fix.

## Silent when

`__iter__` or what the sampler holds depends on the rank, begins at a number that it was given or picks with `%`, or
could not be read; the sampler draws forever, or a number of samples that is not the length of the data set; steps are
counted and not epochs; a framework shards the data; the data set is split by rank already.

## Sources

pytorch/pytorch#77154, crosszamirski/WS-DINO#1, Lightning-AI/pytorch-lightning#12866, huggingface/accelerate#2865.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.data import Loader, Sampler
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.data_loading import Iterate, Streamed
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.questions.made_of import is_length
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._passes import (
    escapes,
    repeating_loop,
    trained_together,
    trained_with,
    where_averaged,
)

TORCH = "torch.utils.data."
SUBSET, WEIGHTED = f"{TORCH}SubsetRandomSampler", f"{TORCH}WeightedRandomSampler"


class CustomSamplerNotSharded(Rule):
    code = "GPU311"
    severity = Severity.ERROR
    shows_when = ("all_read_data",)
    of_ranks = True
    needs = (Iterate,)

    def in_code(self, program: Program) -> Findings:
        if not program.launched_in_several or not program.whole or program.shared_out:
            return
        alike: set[Value] = {event.source for event in program.events(Streamed) if event.same_on_ranks}
        for loader, training in trained_with(program).items():
            averaged = trained_together(program, training)
            sampler = _only_sampler(loader, training.when)
            if averaged is None or sampler is None or loader.opaque or loader.managed or loader.sharded:
                continue
            if escapes(program, loader, sampler) or not _goes_over_all(sampler, loader, alike):
                continue
            if program.cut_before(training.backward):
                continue
            # Where steps are counted, a batch drawn at random on each rank may be meant.
            if training.start.loop is None or repeating_loop(program, training.start) is None:
                continue
            drawn = sampler.made_by == WEIGHTED
            yield self.found(
                at=sampler.place,
                message=f"`{sampler.label}` knows nothing of ranks: each rank "
                + ("draws as many samples as there are in all" if drawn else "goes through all of the data")
                + ", so more GPUs do not shorten the epoch.",
                remedy=_remedy(sampler),
                because=[
                    ("which this loader asks for the order", loader.place),
                    *where_averaged(averaged),
                    ("the ranks train on these batches", training.start.location),
                ],
                # With other seeds the ranks at least draw other samples.
                severity=Severity.WARNING if drawn else None,
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.data._seen import whole_on_every_rank

        for each in whole_on_every_rank(recording):
            if each.custom and not each.shared_elsewhere and each.at is not None:
                yield self.found(
                    each.at,
                    f"In its first pass every rank drew {each.share}: "
                    f"`{each.training.sampler}` gives all ranks the same.",
                    remedy="Let the sampler yield every `world_size`-th place, from `rank` on.",
                )


def _only_sampler(loader: Loader, when: Condition) -> Sampler | None:
    """The one sampler that picks the indices on the paths of this pass."""
    found = [
        value
        for given in (loader.sampler, loader.batch_sampler)
        for value in (given.restrict(when) if given is not None else ())
        if not value.is_none
    ]
    only = found[0] if len(found) == 1 else None
    if not isinstance(only, Sampler):
        return None
    # A batch sampler of torch hands the indices of the one inside on; another may share them out.
    return only.base if only.inner is None or only.made_by == f"{TORCH}BatchSampler" else None


def _goes_over_all(sampler: Sampler, loader: Loader, alike: set[Value]) -> bool:
    if any(data.sharded or data.iterable for data in loader.dataset or ()):
        return False
    if sampler.made_by == SUBSET:
        return sampler.distributed is False
    if sampler.made_by == WEIGHTED:
        # A number of its own may be the share of a rank.
        return sampler.count is not None and sampler.count.all(is_length)
    return sampler in alike and sampler.distributed is None


def _remedy(sampler: Sampler) -> str:
    if sampler.made_by == SUBSET:
        return "Make a `DistributedSampler` of `Subset(dataset, indices)` instead."
    if sampler.made_by == WEIGHTED:
        return "Draw `len(dataset) // world_size` samples on each rank, with a generator seeded with the rank."
    return "Let it take every n-th index, beginning at the rank: `indices[rank::world_size]`."
