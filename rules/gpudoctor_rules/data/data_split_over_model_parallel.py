"""Ranks that work on one forward together are given different batches.

## What goes wrong

With tensor parallelism each rank (each process, one for each GPU) has a part of each layer, and the ranks of one
group add up what their parts make of one batch. With context parallelism each has a part of one sequence. A
`DistributedSampler` that is told nothing deals the data out among all ranks of the world, so that the ranks of such a
group read different batches: what they add up belongs to different samples, each compares the sum with labels of its
own, and parameters that every rank has whole drift apart. So do ranks that shuffle with different seeds, which a run
shows. No error is raised, as all shapes fit.

## Fix

Count groups, not ranks: `DistributedSampler(dataset, num_replicas=mesh["dp"].size(),
rank=mesh["dp"].get_local_rank())` with the dimension of the mesh along which data is shared. Where all ranks are one
group, leave the sampler out and give all ranks the same seed, so that they draw the same order. No automatic fix.

## Silent when

The sampler is told `num_replicas` or `rank` that come from a mesh, from a group or from a computation; the dimension
is known to have one rank, or has one unless the user asks for more; the model that learns from the batches has no part
that was given to `parallelize_module`; the ranks call a collective between a batch and its backward, which may bring
the batches of a group together; a framework deals the data out.

## Sources

https://docs.pytorch.org/docs/stable/distributed.tensor.parallel.html,
https://docs.pytorch.org/tutorials/intermediate/TP_tutorial.html, pytorch/torchtitan.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.domain.rank import RankKind, SizeKind
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.model import ForwardShared
from gpudoctor.lint.events.option_defaults import left_out
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules.data._passes import LearningPass, samplers_of, trained_with

if TYPE_CHECKING:
    from gpudoctor.api.pack import Sampler, Values
    from gpudoctor.run.recording import Pass

FROM_MESH = (
    "Shard the data along the other dimension of the mesh: "
    '`DistributedSampler(..., num_replicas=mesh["dp"].size(), rank=mesh["dp"].get_local_rank())`.'
)
FOR_ALL = "Leave the sampler out, and give all ranks the same seed: each batch is for all of them."


class DataSplitOverModelParallel(Rule):
    code = "GPU321"
    severity = Severity.ERROR
    shows_when = ("ranks.cut_up", "ranks.training_passes")
    of_ranks = True
    needs = (ForwardShared,)

    def in_code(self, program: Program) -> Findings:
        if not program.presence() or program.shared_out:
            return
        for loader, training in trained_with(program).items():
            together = _together(program, training)
            if together is None or loader.managed or _brings_together(program, training):
                continue
            for sampler in samplers_of(loader, training.when) or ():
                if _counts_all_ranks(sampler):
                    what = "sequences" if together.module is None else "layers"
                    yield self.found(
                        at=sampler.place,
                        message=f"`{sampler.label}` gives each rank different samples, but the ranks that share the "
                        f"{what} work on one batch together: what they add up belongs to different samples.",
                        remedy=FOR_ALL if together.by_all else FROM_MESH,
                        because=[
                            (f"the {what} are split here", together.location),
                            ("the ranks train on these batches", training.start.location),
                        ],
                    )

    def in_run(self, recording: Recording) -> Findings:
        firsts = {rank.rank: rank.training_passes[0] for rank in recording.ranks if rank.training_passes}
        for cut in recording.ranks[0].cut_up if recording.distributed else ():
            # What they exchange before the first backward may be their batches.
            seen = [rank for rank in cut.ranks if rank in firsts and firsts[rank].exchanged_first == 0]
            apart = next((rank for rank in seen if _differ(firsts[seen[0]], firsts[rank])), None)
            place = None if apart is None else firsts[apart].made or firsts[apart].place
            if place is not None:
                yield self.found(
                    place,
                    f"Ranks {seen[0]} and {apart} each have a part of the same layers, and drew different samples for "
                    "one batch: what they add up belongs to different samples.",
                    remedy=FOR_ALL if len(cut.ranks) == len(recording.ranks) else FROM_MESH,
                    because=[("the layers are split here", cut.place)] if cut.place is not None else (),
                )


def _differ(one: Pass, other: Pass) -> bool:
    """They drew other samples, or in another order, as far as both have come."""
    return any(here != there for here, there in zip(one.places or (), other.places or (), strict=False))


def _together(program: Program, training: LearningPass) -> ForwardShared | None:
    """What makes several ranks work on one forward of this pass."""
    called = frozenset().union(*(program.within(each.module) for each in program.calls_in_graph(training.backward)))
    for event in program.events(ForwardShared):
        if _is_one(program, event.ways) or event.condition.excludes(training.when):
            continue
        loop = training.start.loop
        inside = loop is not None and any(each.identity == loop.identity for each in event.loops)
        if inside if event.module is None else not called.isdisjoint(program.within(event.module)):
            return event
    return None


def _brings_together(program: Program, training: LearningPass) -> bool:
    """Ranks call each other between a batch and its backward: they may hand each other their batches."""
    start, loop = training.start, training.start.loop
    between = (each for each in program.events(Collective) if start.order < each.order < training.backward.order)
    return any(loop is None or loop.identity in {around.identity for around in each.loops} for each in between)


def _is_one(program: Program, ways: Values | None) -> bool:
    """There is one rank along the dimension, or unless the user says otherwise."""
    return ways is not None and ways.any(lambda each: left_out(each, program.options).in_python == 1)


def _counts_all_ranks(sampler: Sampler) -> bool:
    """It deals the data out among all ranks of the world."""
    if not sampler.shares:
        return False
    rank, replicas = sampler.rank, sampler.replicas
    if rank is not None and not rank.all(lambda each: each.counts(RankKind.GLOBAL)):
        return False
    return replicas is None or replicas.all(lambda each: each.counts(SizeKind.WORLD))
