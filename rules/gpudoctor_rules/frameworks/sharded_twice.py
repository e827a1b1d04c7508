"""Data that is sharded already is passed to Accelerate, which shards it again.

## What goes wrong

`accelerator.prepare` makes a loader of its own, which gives each rank (each process, one for each GPU) every N-th batch
of what it is given. Where a `DistributedSampler`, `split_dataset_by_node` or the stream itself has given each rank its
shard before, what is left is a shard of a shard: on 2 GPUs half of the data is never seen, on 8 GPUs seven eighths.
Nothing is reported; the epoch is merely short. A stream is read by rank 0 alone where `dispatch_batches` is left to
Accelerate, and then it is the shard of rank 0 that all are given.

## Fix

Leave the sampler, or the split, to Accelerate: `DataLoader(dataset, shuffle=True)`. Unsafe: the epoch becomes as many
times longer, and what counted its batches counts others.

## Silent when

The loader is not prepared; the sampler is told that there is one replica; Fabric or Lightning's `Trainer` prepares it,
which leave a `DistributedSampler` alone; it is not certain that the sampler or the data set shards anything. A run sees
it of a `DistributedSampler` and of `split_dataset_by_node`, and not of a stream that looks at the rank itself.

## Sources

huggingface/accelerate#3547, https://huggingface.co/docs/accelerate/concept_guides/internal_mechanism.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.domain.data import Dataset, Loader, Sampler
from gpudoctor.lint.domain.value import Values
from gpudoctor.lint.events.data_loading import Streamed
from gpudoctor.lint.events.knowledge import Prepare
from gpudoctor.lint.questions.names import in_code, name_of
from gpudoctor.lint.repair.repair import RemoveArgument, Repair, RepairStep, SetArgument
from gpudoctor.rule import Findings, Program, Recording, Rule

SHARDING = ("accelerate.Accelerator",)
"""What shards whatever it is given, that of a Trainer too."""
GivenShare = tuple[str, "Location", "Repair | None"]


class ShardedTwice(Rule):
    code = "GPU901"
    severity = Severity.ERROR
    fix_safety = Safety.UNSAFE
    of_ranks = True
    needs = (Prepare,)

    def in_code(self, program: Program) -> Findings:
        told: set[Loader] = set()
        for event in program.events(Prepare):
            loader = event.given
            if not isinstance(loader, Loader) or event.managed.class_name not in SHARDING or loader in told:
                continue
            shared = _shared_by(program, event, loader)
            # What was prepared before is handed on as it is.
            if shared is None or loader.managed:
                continue
            told.add(loader)
            what, place, repair = shared
            # A Trainer makes the loader where it trains, of a sampler of the program's.
            own = loader.place != event.location
            yield self.found(
                loader.place if own else place,
                f"{name_of(loader, 'the loader') if own else 'The loader'} has each rank read its own shard, by "
                f"{what}, and `{in_code(event.managed, 'accelerator')}.{event.call}` shards that again: most of the "
                "data is never seen.",
                remedy="Give the loader all of the data, as `DataLoader(dataset, shuffle=True)`: `prepare` shards it.",
                because=[("each rank is given its shard here", place), ("the loader is prepared here", event.location)],
                repair=repair if own else None,
            )

    def in_run(self, recording: Recording) -> Findings:
        for each in recording.ranks[0].shared_again if recording.ranks else ():
            place = each.made or each.place
            if place is not None:
                yield self.found(
                    place,
                    f"A `{each.by}` has sharded the data over {each.replicas} ranks, and the loader was prepared "
                    f"for {each.processes}: each of them sees a shard of a shard.",
                    remedy="Leave the sampler, or the split, to `prepare`.",
                    because=[("the loader is prepared here", each.place)],
                )

    def could_show(self, recording: Recording) -> bool:
        # A stream that knows its rank looks like any other.
        return recording.distributed and any(
            each.prepared and not each.iterable for rank in recording.ranks for each in rank.passes
        )


def _shared_by(program: Program, event: Prepare, loader: Loader) -> GivenShare | None:
    """What gives each rank its shard before, and how that is left out."""
    sampler = _sampler(loader.sampler, event)
    if sampler is not None:
        return f"the sampler {name_of(sampler, '')}".rstrip(), sampler.place, _without_sampler(loader, sampler)
    batches = _sampler(loader.batch_sampler, event)
    if batches is not None:
        return f"the batch sampler {name_of(batches, '')}".rstrip(), batches.place, None
    data = loader.dataset.restrict(event.condition).single if loader.dataset is not None else None
    if not isinstance(data, Dataset):
        return None
    split = any(each.source == data and each.by_rank for each in program.events(Streamed))
    # One of the project's own that is told the rank may do something else with it.
    if split or (data.sharded and data.cls is None):
        return f"{name_of(data, 'the data set')}", data.place, None
    return None


def _sampler(given: Values | None, event: Prepare) -> Sampler | None:
    """The sampler, if it surely shards the data on the way to where the loader is prepared."""
    found = given.restrict(event.condition) if given is not None else None
    only = found.single if found is not None else None
    return only if isinstance(only, Sampler) and only.base.shares else None


def _without_sampler(loader: Loader, sampler: Sampler) -> Repair:
    steps: list[RepairStep] = [RemoveArgument(loader.place, "sampler", 3)]
    if not sampler.base.in_order:
        steps.append(SetArgument(loader.place, "shuffle", ("True",), 2))
    return Repair("Leave the sampler to Accelerate", tuple(steps))
