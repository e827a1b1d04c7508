"""All ranks set one seed, and draw the same random numbers for their noise or their augmentation.

## What goes wrong

`torch.manual_seed(42)` on every rank (each process, one for each GPU) puts all generators into the same state, and
those of the loaders' workers too, which are seeded from it. The n-th sample of each rank then gets the same noise, as
of diffusion or of dequantisation, and the same time step as the n-th sample of every other one: a batch of 8 GPUs has
an eighth of the noise and of the time steps that it seems to have, and its gradient varies accordingly. Images are
cropped, flipped and coloured alike as well, and dropout drops the same units. The samples differ, so training works,
and no error is raised: what is lost is what more GPUs were to bring. That is why this counts as lost speed, and breaks
no build.

That augmentation is alike is advice, and reported only where this rule is selected: how much is lost depends on the
model and the data, and mostly it is little. Where ranks draw whole batches at random, GPU806 speaks.

## Fix

`torch.manual_seed(seed + rank)`, or `set_seed(seed, device_specific=True)` of Accelerate, or the former in
`on_fit_start` of a model of Lightning: DDP gives the weights of rank 0 to all others. What must be the same on all
ranks, such as a random split, then needs a generator of its own (GPU308). No automatic fix for that reason.

## Silent when

Some seed depends on the rank, or may; a generator is given; what is drawn has nothing to do with a batch, such as a
coin that all ranks toss together, or is drawn in a `forward` in more than one dimension, as masks of dropped layers
are; nothing in torchvision's transforms is random, or a function prepares the workers; a sampler or a framework other
than `DistributedSampler` shards the data. A run sees what the training process draws itself, for its batches or in its
steps: of batches that workers make it says nothing.

## Sources

https://docs.pytorch.org/docs/stable/notes/randomness.html, facebookresearch/detr#297, facebookresearch/deit#150,
open-mmlab/mmdetection#1083.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.data_loading import Augments, DrawsNoise
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.process import SeedSet
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.questions.loop_rounds import batch_loop
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._passes import samplers_of, synchronised, trained_with

if TYPE_CHECKING:
    from gpudoctor.run.recording import Pass, Process
    from gpudoctor.run.recording.random_facts import GeneratorStates

REMEDY = "Give each rank its own: `torch.manual_seed(seed + rank)`."
BY_ACCELERATE = "Give each rank its own: `accelerate.utils.set_seed(seed, device_specific=True)`."
BY_FABRIC = "Give each rank its own: `fabric.seed_everything(seed + fabric.global_rank)`."
BY_LIGHTNING = "Give each rank its own: `torch.manual_seed(seed + self.global_rank)` in `on_fit_start` of the model."
ENOUGH = 4
"""Steps in which the generators are in equal states, from which on that is no chance."""
_GENERATORS = {
    "torch": "torch's generator",
    "cuda": "the GPU's generator",
    "numpy": "numpy's generator",
    "python": "Python's generator",
}


class SameAugmentationOnAllRanks(Rule):
    code = "GPU315"
    severity = Severity.PERF
    advises_if_named = True
    of_ranks = True
    needs = (Augments, DrawsNoise)

    def in_code(self, program: Program) -> Findings:
        together = program.launched_in_several and not program.managed_by - program.leaving("seeds")
        seed = _common_seed(program) if together else None
        if seed is None:
            return
        noise = _noise(program) if program.whole else None
        if noise is not None:
            draw, backward = noise
            yield self.found(
                seed.location,
                "All ranks set this same seed: the noise for the n-th sample of each rank is that for the n-th sample "
                "of every other.",
                remedy=_remedy(program),
                because=[
                    ("this is drawn for each batch", draw.location),
                    ("the ranks train with it", backward.location),
                ],
            )
        elif program.presence() and program.absence():
            yield from self._augmented(program, seed)

    def _augmented(self, program: Program, seed: SeedSet) -> Findings:
        augments = next(program.events(Augments), None)
        if augments is None:
            return
        for loader, training in trained_with(program).items():
            samplers = samplers_of(loader, training.when) or []
            # Its workers may get other seeds on each rank.
            prepared = loader.worker_init or not loader.by_process
            if prepared or synchronised(program, training) is None or not any(s.shares for s in samplers):
                continue
            yield self.found(
                seed.location,
                "All ranks set this same seed: the n-th sample of each rank is augmented as that of every other.",
                remedy=REMEDY,
                severity=Severity.INFO,
                because=[
                    ("this transform draws at random", augments.location),
                    ("the ranks train on these batches", training.start.location),
                ],
            )
            return

    def in_run(self, recording: Recording) -> Findings:
        # Most of what is drawn alike is dropout and augmentation, which is mere advice.
        if self.code not in recording.suspected:
            return
        passes = _first_passes(recording)
        told = _drawn_for_batches(passes) or _drawn_in_steps(recording.ranks)
        if not passes or not told:
            return
        seed = recording.ranks[0].seeds[-1] if recording.ranks[0].seeds else None
        at = (seed.place if seed is not None else None) or passes[0].place
        # The same samples on all ranks are another mistake, and a greater one.
        if at is not None and len({each.places for each in passes}) == len(passes):
            yield self.found(
                at,
                f"All ranks drew the random numbers of their first {told}",
                remedy=REMEDY,
                because=[("the batches are made here", passes[0].made)],
            )

    def could_show(self, recording: Recording) -> bool:
        drawn = (_changing(rank.generators) for rank in recording.ranks)
        return any(each.noise for each in _first_passes(recording)) or (recording.distributed and any(drawn))


def _remedy(program: Program) -> str:
    if "accelerate" in program.frameworks:
        return BY_ACCELERATE
    if "lightning" not in program.managed_by:
        return REMEDY
    return BY_FABRIC if any(each.one_by_one for each in program.in_charge) else BY_LIGHTNING


def _noise(program: Program) -> tuple[DrawsNoise, Backward] | None:
    """What each rank draws for its own batches, and the backward of that step."""
    for draw in program.events(DrawsNoise):
        if "forward" in draw.context.contexts and not draw.one_each:
            continue
        loop = batch_loop(draw)
        learning = (each for each in program.events(Backward) if loop is not None and batch_loop(each) == loop)
        backward = next((each for each in learning if each.order > draw.order), None)
        if backward is None or program.cut_before(backward):
            continue
        if program.by_every_rank(draw) and not draw.context.evaluating:
            return draw, backward
    return None


def _drawn_for_batches(passes: Sequence[Pass]) -> str:
    """What is to be said where the first batches were made from the same random numbers; empty where they were not."""
    count = min((len(each.noise) for each in passes), default=0)
    if not count or len({each.noise[:count] for each in passes}) > 1:
        return ""
    return f"{count} batches from one state of the generator: the n-th sample of each was augmented alike."


def _drawn_in_steps(ranks: Sequence[Process]) -> str:
    """The same of what the steps themselves drew."""
    count = min((len(each.generators) for each in ranks), default=0)
    for kind in _changing(ranks[0].generators[:count]) if count >= ENOUGH else ():
        if len({tuple(each.states.get(kind) for each in rank.generators[:count]) for rank in ranks}) == 1:
            return (
                f"{count} steps from one state of {_GENERATORS[kind]}: the noise for the n-th sample of each is that "
                "for the n-th sample of every other."
            )
    return ""


def _changing(states: Sequence[GeneratorStates]) -> list[str]:
    """The generators from which something is drawn in each step."""
    kinds = [kind for kind in _GENERATORS if all(kind in each.states for each in states)]
    return [kind for kind in kinds if len({each.states[kind] for each in states}) == len(states) > 1]


def _first_passes(recording: Recording) -> list[Pass]:
    """The first training pass of each rank, where every rank has one and they share the data out."""
    if not recording.distributed or not all(rank.wraps and rank.training_passes for rank in recording.ranks):
        return []
    return [rank.training_passes[0] for rank in recording.ranks]


def _common_seed(program: Program) -> SeedSet | None:
    """The seed of torch that all ranks surely have in common; none where some generator may differ."""
    seeds = list(program.events(SeedSet))
    asked = any(event.sets_seed for event in program.events(Escape))
    if asked or not all(program.by_every_rank(each) and each.seed and not each.seed.maybe for each in seeds):
        return None
    return next((each for each in reversed(seeds) if "torch" in each.of), None)
