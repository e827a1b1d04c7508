"""A distributed sampler that shuffles is never told the epoch, so every epoch has the order of the first.

## What goes wrong

A `DistributedSampler` gives each rank (each process, one for each GPU) its own shard of the data. So that the shards
do not overlap, all ranks shuffle with the same seed, and the only thing that changes it is `set_epoch`. Without that
call each epoch replays the order of the first one, on every rank: the same samples, in the same batches, on the same
GPU. No error is raised; training sees less variety, and the result is worse than on one GPU.

## Fix

Call `set_epoch` as the first statement of the loop over the epochs, with the number of the epoch, the same one on all
ranks. Safe: nothing but the order of the data changes, and it becomes what shuffling was meant to be.

## Silent when

`shuffle=False`; the data is read once; the data set draws its items, whatever the index; the loader only evaluates, or
nothing is trained; the sampler counts epochs itself, or is one of the project whose seed is not the epoch; somebody
calls `set_epoch`, in whichever file; a framework that does so is in charge; the sampler was passed to code that could
not be read.

## Sources

pytorch/pytorch#31771, huggingface/transformers#3721, kan-bayashi/ParallelWaveGAN#177,
https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.distributed.DistributedSampler.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Safety, Severity
from gpudoctor.lint.events.data_loading import Iterate, MakeSampler
from gpudoctor.lint.events.training_step import MakeOptimizer, OptimizerStep
from gpudoctor.lint.repair.repair import Always, Code, Counter, Either, First, Holds, Imported, Repair
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._epochs import Repeated, repeated_samplers, told_instead


class MissingSetEpoch(Rule):
    code = "GPU302"
    severity = Severity.WARNING
    # The call only changes a seed that all ranks share.
    fix_safety = Safety.SAFE
    needs = (Iterate,)

    def in_code(self, program: Program) -> Findings:
        # A notebook is started by itself, and may be one of several processes all the same.
        program = program.of_ranks
        # What is only evaluated, with gradients or without, may be read in any order.
        if program.whole and not program.managed_by and not program.has(MakeOptimizer, OptimizerStep):
            return
        loops: dict[Location, list[Repeated]] = {}
        for each in repeated_samplers(program):
            # Told too late, or told to the wrong one, is GPU306: it says what to change in the call.
            if not each.told and told_instead(program, each) is None:
                loops.setdefault(each.epochs.location, []).append(each)
        for each, *others in loops.values():
            elsewhere = [(other, at) for other in others if (at := other.sampler.place) != each.sampler.place]
            yield self.found(
                # The loop is where the line is missing; the sampler may stand in another file.
                at=each.epochs.location,
                message=f"{each.subject[:1].upper()}{each.subject[1:]} is never told the epoch: on every rank, each "
                "epoch replays the order of the first one.",
                remedy=f"Call {each.call} at the start of each epoch, with its number.",
                because=[
                    ("the sampler is made here, and shuffles", each.sampler.place),
                    (f"it picks the samples of `{each.loader}`", each.training.loader.place),
                    ("whose batches are read here in each epoch", each.training.start.location),
                    *((f"{other.subject} is not told either", at) for other, at in elsewhere),
                ],
                doubt=each.doubt,
                needs=each.needs,
                repair=_tell(program, each),
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.data._seen import same_order_again

        for first, second in same_order_again(recording):
            if not second.told and second.place is not None:
                yield self.found(
                    second.place,
                    "The second pass over the data had the same order as the "
                    "first one on every rank: the sampler is never told the epoch.",
                    remedy="Call `sampler.set_epoch(epoch)` at the start of each epoch.",
                    because=[("the loader is made here", first.made)],
                )

    def could_show(self, recording: Recording) -> bool:
        from gpudoctor_rules.data._seen import shuffled_passes

        return any(len(shuffled_passes(rank)) > 1 for rank in recording.ranks)


def _tell(program: Program, each: Repeated) -> Repair:
    loop, kept = each.epochs.location, each.training.loader.keeps_sampler_as
    loader: Code = (Holds(each.training.loader), ".batch_sampler" if each.batched else "", f".{kept}")
    sampler = Either(((Holds(each.sampler),), loader))
    call: Code = (sampler, ".set_epoch(", Counter(loop), ")")
    # Made on some ways only, as under `if args.distributed:`, it is another sampler on the others, or None.
    made = next((event for event in program.events(MakeSampler) if event.sampler == each.sampler), None)
    title = "Call `set_epoch` in each epoch"
    # Nothing tells an own sampler from what stands in for it in one process.
    if made is None:
        return Repair(title, (First(loop, ((Always(each.sampler.place), *call),)),))
    sure: Code = (*map(Always, (*made.context.calls, made.location)), *call)
    kind = Imported("torch.utils.data.DistributedSampler")
    asked: Code = ("if isinstance(", sampler, ", ", kind, "):\n\t", *call)
    return Repair(title, (First(loop, ((Either((sure, asked)),),)),))
