"""The seed is set in the process that starts the workers, and the workers train without any.

## What goes wrong

`mp.spawn` starts new processes, which import the program again and know nothing of what the parent has done. Seeds and
switches such as `cudnn.deterministic` that the parent has set before are lost: initial weights, dropout, augmentation
and the split of the data differ in each run, however carefully the seed was chosen, and on each rank. No error is
raised.

## Fix

Set the seed at the top of the function that `mp.spawn` runs: `torch.manual_seed(seed + rank)`. No automatic fix:
whether all ranks are to draw the same numbers is not known.

## Silent when

A worker sets any seed, or calls code that speaks of one and was not followed; the workers are forked and take over the
state of the parent; a framework takes care of seeds; the workers do not train, or make no process group, as actors that
share a model; the seed is set at the top of a file, which new processes execute as well.

## Sources

https://docs.pytorch.org/docs/stable/notes/randomness.html; pytorch/examples (imagenet), facebookresearch/moco and
facebookresearch/simsiam do it so.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.acting_place import parting
from gpudoctor.lint.events.knowledge import Escape, UseManaged
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import InitGroup, SeedSet, Spawn
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.rule import Findings, Program, Recording, Rule

if TYPE_CHECKING:
    from gpudoctor.run.recording import Process
    from gpudoctor.run.recording.random_facts import Seed


REMEDY = "Set it in the function that `mp.spawn` runs: `torch.manual_seed(seed + rank)`."


class SeedNotInWorkers(Rule):
    code = "GPU413"
    severity = Severity.WARNING
    shows_when = ("distributed", "trained")
    needs = (Spawn,)

    def in_code(self, program: Program) -> Findings:
        if not program.has(Spawn):
            return
        if not program.absence(knows=program.leaving("seeding")):
            return
        for seed in _left_in_parent(program)[:1]:
            spawn = next(program.events(Spawn))
            yield self.found(
                # A function that sets seeds is right, and called in the wrong process.
                parting(seed, spawn),
                "This seed is set in the process that starts the workers "
                "only: they are new processes, and train without any seed.",
                remedy=REMEDY,
                because=[("it is set here", seed.location), ("the workers are started here", spawn.location)],
            )

    def in_run(self, recording: Recording) -> Findings:
        for parent in recording.others:
            workers = [each for each in recording.ranks if each.parent == parent.pid and each.optimizers]
            if not workers or not parent.seeds or (at := parent.seeds[-1].place) is None:
                continue
            if not any(map(_seeded, workers)) and _strangers(workers, parent.seeds[-1]):
                found = " and ".join(str(each.optimizers[0].seed) for each in workers[:2])
                yield self.found(
                    at,
                    f"The seed {parent.seeds[-1].seed} was set in the process that starts the workers. They set none, "
                    f"and trained with what the system chose: {found}.",
                    remedy=REMEDY,
                )
                return


def _seeded(worker: Process) -> bool:
    """It has set a seed, of whichever generator and in whichever way, before it trained."""
    return worker.optimizers[0].seeded or any(each.step == 0 for each in worker.seeds)


def _strangers(workers: list[Process], seed: Seed) -> bool:
    """None of them has taken over the generator of its parent, as a fork would have."""
    return all(each.optimizers[0].seed != seed.seed for each in workers)


def _left_in_parent(program: Program) -> list[SeedSet]:
    """The seeds that the parent sets, where it alone does, and the workers that train are new processes."""
    seeds = list(program.events(SeedSet))
    if program.world is not LaunchWorld.SPAWN or not all(program.by_one_process(seed) for seed in seeds):
        return []
    # What stands at the top of a file is done by whoever imports it, the workers among them.
    if not all(seed.guarded for seed in seeds):
        return []
    # Forked processes take over the state of the generators; `Process` forks on Linux.
    if not all(spawn.start_method == "spawn" for spawn in program.events(Spawn)):
        return []
    # Actors that share the parent's model are no ranks: what they draw is mostly that of their environment.
    if not program.has(InitGroup, Wrap, UseManaged) and not program.may_begin_group:
        return []
    asked = any(event.sets_seed for event in program.events(Escape))
    trains = any(not program.by_one_process(event) for event in program.events(Backward))
    return seeds if trains and not asked else []
