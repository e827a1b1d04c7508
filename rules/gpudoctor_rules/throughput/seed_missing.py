"""No seed reaches the ranks that train, or all draw their batches with the same one.

## What goes wrong

Without a seed no two runs are alike: initial weights, dropout and augmentation differ, and whether a change has helped
cannot be told from chance. That no seed is set is advice, and reported only where this rule is selected.

Where each rank draws its batches at random by itself, as in `data[torch.randint(len(data), (64,))]`, one seed for all
ranks gives them all the same batches: as many GPUs as there are do the work of one. Of batches that are made up, as in
a benchmark, that is advice as well.

## Fix

`torch.manual_seed(seed + rank)` at the start of each process. DDP gives the weights of rank 0 to all others, so the
model may be made under it. What must be the same on all ranks, such as a split of the data, wants a generator of its
own: `generator=torch.Generator().manual_seed(seed)`. No automatic fix.

## Silent when

Something in the program mentions a seed and was not followed; a framework takes care of seeds; batches come from a
loader, whose sampler gives each rank a shard of its own; a generator is used.

## Sources

https://docs.pytorch.org/docs/stable/notes/randomness.html, karpathy/nanoGPT#22.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.events.data_loading import Iterate, MakeLoader, PickedAtRandom
from gpudoctor.lint.events.event_context import Event, only_some_ranks
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.process import InitGroup, SeedSet
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.questions.unseen_deeds import may_set_seed
from gpudoctor.rule import Findings, Program, Recording, Rule


class SeedMissing(Rule):
    code = "GPU806"
    severity = Severity.WARNING
    advises_if_named = True
    needs = (Backward, Forward, InitGroup, Iterate, MakeLoader, PickedAtRandom, SeedSet, Wrap)

    def in_code(self, program: Program) -> Findings:
        if not program.launched_in_several or not program.whole or program.cut_short:
            return
        if program.managed_by - program.leaving("seeding") or not program.has(Backward):
            return
        seeds = list(program.events(SeedSet))
        if not seeds:
            yield from self._none(program)
        # Seeds that only the parent sets are GPU413.
        elif program.world is not LaunchWorld.SPAWN or not all(map(program.by_one_process, seeds)):
            yield from self._the_same(program, seeds)

    def _none(self, program: Program) -> Findings:
        start: Event | None = next(program.events(InitGroup, Wrap), None)
        # A helper that was not followed may set one.
        if start is None or may_set_seed(program):
            return
        message = "No seed is set anywhere in this training: no two runs of it are alike."
        remedy = "Call `torch.manual_seed(seed + rank)` at the start of each process."
        yield self.found(start.location, message, remedy=remedy, severity=Severity.INFO)

    def _the_same(self, program: Program, seeds: list[SeedSet]) -> Findings:
        picked = next((each for each in program.events(PickedAtRandom) if not each.context.evaluating), None)
        drawn = _drawn(program, picked)
        # With generators of their own ranks may draw what they like.
        if drawn is None or program.may_name("Generator") or any(_may_differ(each) for each in seeds):
            return
        generators = picked.drawn_from if picked is not None else {"torch"}
        seeding = [next((each for each in reversed(seeds) if one in each.of), None) for one in sorted(generators)]
        if any(each is None for each in seeding) or (seed := seeding[-1]) is None:
            return
        how = f"`{seed.call}(seed + rank)`" if "." in seed.call else "`seed + rank`"
        yield self.found(
            seed.location,
            "All ranks set this same seed and then draw their batches at random: each of them trains on the same data.",
            remedy=f"Give each rank its own: {how}.",
            because=[("drawn here, alike on all ranks", drawn)],
            # What is made up costs nothing but time, as in a benchmark; of real data as many GPUs see what one would.
            severity=None if picked is not None else Severity.INFO,
        )

    def in_run(self, recording: Recording) -> Findings:
        first = [rank.optimizers[0] for rank in recording.ranks if rank.optimizers]
        if not recording.distributed or len(first) < len(recording.ranks):
            return
        seeds = [each.seed for each in first]
        at = recording.ranks[0].groups[0].place if recording.ranks[0].groups else first[0].place
        # Other libraries draw random numbers as well, and may have been given a seed.
        if self.code in recording.suspected and not any(each.seeded for each in first) and at is not None:
            yield self.found(
                at,
                f"Nobody had set a seed: rank 0 trained with {seeds[0]} and rank 1 with {seeds[1]}, which torch had "
                "chosen by chance. No two runs are alike.",
                remedy="Call `torch.manual_seed(seed + rank)` at the start of each process.",
                severity=Severity.INFO,
            )
        set_at = recording.ranks[0].seeds[-1].place if recording.ranks[0].seeds else None
        if all(each.seeded for each in first) and len(set(seeds)) == 1 and set_at and _the_same_inputs(recording):
            yield self.found(
                set_at,
                f"All ranks set the seed {seeds[0]}, and the batches that they drew then were the same on all of them, "
                f"in each of {len(recording.ranks[0].inputs)} steps that were looked at.",
                remedy="Give each rank its own: `torch.manual_seed(seed + rank)`.",
                severity=None if self.code in recording.suspected else Severity.INFO,
            )

    def could_show(self, recording: Recording) -> bool:
        return recording.trained and all(rank.optimizers for rank in recording.ranks)


def _the_same_inputs(recording: Recording) -> bool:
    """Drawn by the ranks themselves, other ones in each step, and alike on all ranks."""
    inputs = [rank.inputs for rank in recording.ranks]
    varied = all(inputs[0]) and len(set(inputs[0])) == len(inputs[0]) > 1
    return varied and len(set(inputs)) == 1 and not any(rank.training_passes for rank in recording.ranks)


def _drawn(program: Program, picked: PickedAtRandom | None) -> Location | None:
    """Where an input of a call that is learnt from was drawn at random, in a program without any loader."""
    # Noise that is alike beside batches that are not, as in a GAN, is no lost work.
    if program.has(MakeLoader, Iterate) or program.may_name("DataLoader"):
        return None
    learnt = {identity for backward in program.events(Backward) for identity in backward.forwards}
    for call in program.events(Forward):
        for value in call.inputs if call.identity in learnt else ():
            if not value.divergence & Divergence.LOCAL or value.batch_of is not None:
                continue
            if picked is not None:
                return picked.location
            if value.origin is TensorOrigin.FACTORY:
                return value.place
    return None


def _may_differ(seed: SeedSet) -> bool:
    """Ranks may have another seed each, or it is set on some of them only."""
    return seed.seed is None or only_some_ranks(seed) or bool(seed.seed.maybe)
