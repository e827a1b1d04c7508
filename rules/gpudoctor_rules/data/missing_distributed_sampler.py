"""Every rank trains on the whole data set, because the loader has no sampler that shards it.

## What goes wrong

Training on several GPUs runs the same program once for each GPU; each such process is called a rank. A `DataLoader`
knows nothing of that. Without a `DistributedSampler` each rank reads the whole data set. No error is raised. An epoch
takes as long as on one GPU, and where all ranks are seeded alike they compute the same batch at the same time: N GPUs
do the work of one.

## Fix

Three edits that belong together: make a `DistributedSampler`, give it to the loader in place of `shuffle=True`, and
call `set_epoch` at the start of each epoch. Unsafe, because the data that each rank sees changes; that is the point.
The batch size of the loader is that of one rank, so the batch of all ranks together is N times as large. A loader that
a Trainer of Transformers is given in the place of its own goes through `self.accelerator.prepare(loader)`.

## Silent when

The loader feeds no `backward()`; the data set is split by rank beforehand, or each batch where it is used; it is
iterable, draws its items at random whatever the index, or is of a kind that is not known; a framework such as
Accelerate or Lightning shards the loader, or a Trainer makes it, or DeepSpeed of `training_data`; the loader was made
by code that could not be read; it is iterated once, in a fixed order, as in a benchmark. A warning only where training
counts steps and not epochs: a random batch on each rank may be what is wanted.

## Sources

https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler,
innnky/so-vits-svc#70, clovaai/voxceleb_trainer#98, speechbrain/speechbrain#1517.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.events.data_loading import BatchCut, Iterate, MakeLoader
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.questions.whole_data import goes_over_all
from gpudoctor.lint.repair.repair import (
    Always,
    Before,
    Code,
    Counter,
    Either,
    First,
    Fresh,
    Holds,
    Imported,
    RemoveArgument,
    Repair,
    RepairStep,
    SetArgument,
    Source,
)
from gpudoctor.lint.repair.snippets import own
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._passes import (
    LearningPass,
    escapes,
    first_name,
    repeating_loop,
    trained_together,
    trained_with,
    unused_samplers,
    where_averaged,
)


class MissingDistributedSampler(Rule):
    code = "GPU301"
    severity = Severity.ERROR
    shows_when = ("all_read_data",)
    fix_safety = Safety.UNSAFE
    of_ranks = True
    needs = (Iterate,)

    def in_code(self, program: Program) -> Findings:
        # Frameworks replace the sampler when they prepare the loader.
        if not program.launched_in_several or not program.whole or program.shared_out:
            return
        # Its sampler exists and was not passed: that is GPU307, with a better remedy.
        forgotten = {data for sampler in unused_samplers(program) for data in sampler.dataset or ()}
        for loader, training in trained_with(program).items():
            averaged = trained_together(program, training)
            # Without a wrapper the ranks train apart, and each may want all of the data.
            if (
                averaged is None
                or program.cut_before(training.backward)
                or not _reads_everything(program, loader, training)
                # Any common data set is enough: the loader may choose between two.
                or any(data in forgotten for data in loader.dataset or ())
            ):
                continue
            data, shares = first_name(loader.dataset, "its data set"), own(program, "shares_by")
            yield self.found(
                at=loader.place,
                message=f"`{loader.label}` has no distributed sampler: every rank trains on all of {data}, "
                "so more GPUs do not shorten the epoch.",
                remedy=f"Pass it on: `{shares}` gives each rank its share."
                if shares
                else f"{_leave_out(program)}Make a `DistributedSampler` of {data}, pass `sampler=sampler` instead "
                "of `shuffle=True`, and call `sampler.set_epoch(epoch)` at the start of each epoch.",
                because=[*where_averaged(averaged), ("the ranks train on these batches", training.start.location)],
                # Drawn by `next(...)`, steps are counted and not epochs: a random batch on each rank may be meant.
                severity=Severity.WARNING if training.start.loop is None else None,
                repair=None if shares or _leave_out(program) else _share_out(program, loader, training),
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.data._seen import whole_on_every_rank

        for each in whole_on_every_rank(recording):
            if not each.shared_elsewhere and not each.custom and each.at is not None:
                yield self.found(
                    each.at,
                    f"In its first pass every rank drew {each.share}: the ranks train "
                    "on the same samples, so more GPUs do not shorten the epoch.",
                    remedy="Pass `sampler=DistributedSampler(dataset)` instead of `shuffle=True`, and call "
                    "`sampler.set_epoch(epoch)` at the start of each epoch.",
                    because=[("the ranks train on these batches", each.training.place)],
                )


def _share_out(program: Program, loader: Loader, training: LearningPass) -> Repair | None:
    """Make the sampler, hand it over, and tell it the epoch."""
    group = next(iter(program.events(InitGroup)), None)
    # A helper makes other loaders with the same call, and those that are only evaluated are to keep all of their data.
    made = [each.loader for each in program.events(MakeLoader) if each.loader.place == loader.place]
    kept = [each for each in made if each not in trained_with(program)]
    if group is None or loader.takes_data_as != "dataset" or (kept and not _told_apart(kept, loader)):
        return None
    at, data = loader.place, loader.dataset.single if loader.dataset is not None else None
    given: list[Code] = [(Source(at, "0", named=True),), (Source(at, "dataset", named=True),)]
    known = Either((*given, (Holds(data),)) if data is not None else tuple(given))
    # Data that are made where they are passed get a name, and are made once.
    named = Fresh(loader.label.replace("_loader", "_set") if "_loader" in loader.label else "dataset", at)
    name: Code = (named, " = ", Either(((Source(at, "0"),), (Source(at, "dataset"),))))
    first = (Before(at, (name,)), SetArgument(at, "dataset", (named,), 0))
    title = "Give each rank its shard by a `DistributedSampler`"
    only: Code = (" if ", Source(at, "shuffle"), " else None") if kept else ()
    otherwise = Repair(title, (*first, *_sharing(program, loader, training, group, (named,), only)))
    return Repair(title, tuple(_sharing(program, loader, training, group, (known,), only)), otherwise=otherwise)


def _told_apart(kept: Iterable[Loader], trained: Loader) -> bool:
    """`shuffle` is given to the loader that is trained on, and refused to the others of the same call."""
    return trained.shuffles() and all(each.keeps_order for each in kept)


def _sharing(
    program: Program, loader: Loader, training: LearningPass, group: InitGroup, data: Code, only: Code
) -> Iterator[RepairStep]:
    at = loader.place
    label = loader.label if loader.label.isidentifier() else ""
    name = label.replace("loader", "sampler") if "loader" in label else "sampler"
    made: Code = (Imported("torch.utils.data.DistributedSampler"), "(", *data, ")", *only)
    # Where no group is made the sampler could not be, either.
    yield Before(at, ((Always(group.location), Fresh(name, at), " = ", *made),))
    yield SetArgument(at, "sampler", (Fresh(name, at),), 3, lacking=True)
    yield RemoveArgument(at, "shuffle", 2, if_given=True)
    epochs = repeating_loop(program, training.start)
    if epochs is not None:
        known: Code = (Always(at), Fresh(name, at))
        sampler = Either((known, (Holds(loader), ".sampler")))
        yield First(epochs.location, ((sampler, ".set_epoch(", Counter(epochs.location), ")"),))


def _leave_out(program: Program) -> str:
    """What Lightning was told that keeps it from sharing the data out."""
    told = {name for each in program.in_charge for name in each.given.keywords}
    switch = next((name for name in ("use_distributed_sampler", "replace_sampler_ddp") if name in told), None)
    return f"Leave out `{switch}=False`. Or: " if switch else ""


def _reads_everything(program: Program, loader: Loader, training: LearningPass) -> bool:
    """All of the data set lies before each rank, on the paths on which it trains."""
    # Who else has it may have given it a share.
    if escapes(program, loader) or not goes_over_all(loader, training.when):
        return False
    # All ranks read the same batch, and each goes on with rows of its own.
    if training.start.loop is not None and any(program.during(training.start.loop, BatchCut)):
        return False
    # One pass in a fixed order is a benchmark, mostly over numbers that each rank has made up for itself.
    return (
        loader.shuffles(training.when)
        or training.start.loop is None
        or repeating_loop(program, training.start) is not None
    )
