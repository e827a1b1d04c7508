"""Lightning gives each rank its shard of what a random sampler draws, and each rank draws something else.

## What goes wrong

Lightning wraps a `WeightedRandomSampler`, or a `SubsetRandomSampler`, so that each rank (each process, one for each
GPU) takes every N-th of what it draws. That shards the samples only where all ranks draw the same list. Processes
that were not given a common seed draw different ones: some samples are then seen twice in an epoch, and others by
nobody. No error is raised.

## Fix

Call `seed_everything(42)` before the loader is made, or give the sampler a generator: `generator=torch.Generator()
.manual_seed(42)`. A seed for each rank may be set after that, for what else is drawn.

## Silent when

The program sets a seed that is the same on all ranks, or may do so in code that was not read; the sampler has a
generator; the `Trainer` uses one device, or is told `use_distributed_sampler=False`; a `RandomSampler`, which is what
`shuffle=True` means: Lightning puts a `DistributedSampler` in its place.

## Sources

https://lightning.ai/docs/pytorch/stable/common/trainer.html#use-distributed-sampler,
https://lightning.ai/docs/fabric/stable/api/fabric_methods.html#setup-dataloaders.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.data import DRAW_FROM_SOME, Loader, Sampler
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.knowledge import Prepare
from gpudoctor.lint.events.process import SeedSet
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.names import name_of
from gpudoctor.lint.questions.unseen_deeds import may_set_seed
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.frameworks._charge import LIGHTNING, taken_in_charge
from gpudoctor_rules.frameworks._learning import backward_in

KEEPS_SAMPLERS = "use_distributed_sampler"


class RandomSamplerDiffers(Rule):
    code = "GPU912"
    severity = Severity.WARNING
    of_ranks = True
    needs = (Prepare,)

    def in_code(self, program: Program) -> Findings:
        if not program.absence(knows={LIGHTNING}):
            return
        for event in program.events(Prepare):
            sampler = _sampler(event)
            charge = taken_in_charge(program, event.managed) if sampler is not None else None
            if sampler is None or charge is None or not charge.several or charge.alone:
                continue
            if charge.told(KEEPS_SAMPLERS) is False or KEEPS_SAMPLERS in event.told:
                continue
            if not _trains(program, event) or _have_common_seed(program, event):
                continue
            yield self.found(
                sampler.place,
                f"{name_of(sampler, 'the sampler')} draws a different list on each rank, and Lightning gives each rank "
                "every N-th of its own: some samples are seen twice in an epoch, and others never.",
                remedy="Call `seed_everything(42)` before, or give the sampler a `generator` with one seed for all "
                "ranks.",
                because=[("its loader is sharded here", event.location)],
            )

    def in_run(self, recording: Recording) -> Findings:
        if not recording.distributed:
            return
        for drawn in zip(*(rank.drawn for rank in recording.ranks), strict=False):
            place = drawn[0].place
            if len({each.digest for each in drawn}) > 1 and place is not None:
                yield self.found(
                    place,
                    f"This `{drawn[0].sampler}` drew a different list of {drawn[0].length} samples on each rank, of "
                    "which each took its shard.",
                    remedy="Call `seed_everything(42)` before, or give the sampler a `generator` with one seed for all "
                    "ranks.",
                )
                return

    def could_show(self, recording: Recording) -> bool:
        return recording.distributed and all(rank.drawn for rank in recording.ranks)


def _sampler(event: Prepare) -> Sampler | None:
    """What draws at random for the loader that is passed, with the generator of the process."""
    loader = event.given
    if not isinstance(loader, Loader) or event.managed.framework != LIGHTNING or loader.sampler is None:
        return None
    only = loader.sampler.restrict(event.condition).single
    if not isinstance(only, Sampler) or only.made_by not in DRAW_FROM_SOME or only.distributed:
        return None
    return only if only.by_process else None


def _trains(program: Program, event: Prepare) -> bool:
    passes = (each for each in program.events(Iterate) if each.loader == event.made)
    return any(backward_in(program, each) is not None for each in passes)


def _have_common_seed(program: Program, event: Prepare) -> bool:
    """The last seed before is one for all ranks, or may be."""
    seeds = [each for each in program.events(SeedSet) if "torch" in each.of and each.order < event.order]
    if not seeds:
        # A helper that was not read may set one.
        return may_set_seed(program)
    own = Divergence.RANK | Divergence.LOCAL
    return seeds[-1].seed is None or not seeds[-1].seed.surely & own
