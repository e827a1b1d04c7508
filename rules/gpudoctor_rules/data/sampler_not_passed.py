"""A distributed sampler is made and never given to a loader, so every rank trains on the whole data set.

## What goes wrong

A `DistributedSampler` does nothing by itself: a `DataLoader` has to be given it. Without that, `set_epoch` can be
called on it as often as one likes, and each rank (each process, one for each GPU) still reads the whole data set. No
error is raised. An epoch takes as long as on one GPU.

## Fix

Give it to the loader: `sampler=sampler` in place of `shuffle=True`. Unsafe, because each rank then sees different data;
that is the point.

## Silent when

The sampler reaches a loader in any way: by position, in a dictionary of options, inside a batch sampler, as a
list of its batches, or through code that could not be read; no loader over the same data set feeds a `backward()`.

## Sources

https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler, innnky/so-vits-svc#70.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Safety, Severity
from gpudoctor.lint.domain.data import Loader, Sampler
from gpudoctor.lint.events.data_loading import MakeSampler
from gpudoctor.lint.questions.whole_data import shares_nothing
from gpudoctor.lint.repair.repair import Holds, RemoveArgument, Repair, SetArgument
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._passes import LearningPass, trained_with, unused_samplers


class SamplerNotPassed(Rule):
    code = "GPU307"
    severity = Severity.ERROR
    shows_when = ("all_read_data",)
    fix_safety = Safety.UNSAFE
    needs = (MakeSampler,)

    def in_code(self, program: Program) -> Findings:
        # That no loader is given the sampler is an absence: everything must have been read.
        if program.shared_out or not program.absence(knows=program.frameworks):
            return
        passes = list(trained_with(program).values())
        for sampler in unused_samplers(program):
            # A sampler for data that nobody trains on harms nothing.
            training = next((each for each in passes if _goes_over_same_data(each, sampler)), None)
            if training is None:
                continue
            yield self.found(
                at=sampler.place,
                message=f"`{sampler.label}` is never given to a loader: every rank trains on all of the data that "
                f"`{training.loader.label}` reads.",
                remedy=f"Make `{training.loader.label}` with `sampler={sampler.label}` and without `shuffle=True`.",
                because=[
                    ("this loader reads the same data set without it", training.loader.place),
                    ("the ranks train on these batches", training.start.location),
                ],
                repair=_hand_over(sampler, training.loader),
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.data._seen import whole_on_every_rank

        for each in whole_on_every_rank(recording):
            if each.shared_elsewhere and each.at is not None:
                yield self.found(
                    each.at,
                    f"In its first pass every rank drew {each.share}, though a "
                    "`DistributedSampler` was made for this data: this loader does not use it.",
                    remedy="Pass it: `DataLoader(dataset, sampler=sampler, ...)`, without `shuffle`.",
                    because=[("the sampler is made here", each.shared_elsewhere.place)],
                )


def _hand_over(sampler: Sampler, loader: Loader) -> Repair:
    given = SetArgument(loader.place, "sampler", (Holds(sampler),), 3)
    alone = RemoveArgument(loader.place, "shuffle", 2, if_given=True)
    return Repair("Give the sampler to the loader", (given, alone))


def _goes_over_same_data(training: LearningPass, sampler: Sampler) -> bool:
    # The batches of the sampler may have been listed and cut before.
    given, when = (training.loader.sampler, training.loader.batch_sampler), training.start.condition
    if not all(shares_nothing(each, when) for each in given):
        return False
    # The data set is what joins the two; names say nothing about it.
    mine = set(sampler.dataset or ())
    return any(dataset in mine for dataset in training.loader.dataset or ())
