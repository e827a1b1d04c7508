"""A collective call is reached by some ranks only, so the ranks that call it wait for the others without end.

## What goes wrong

A *rank* is one process of the training program. `barrier`, `all_reduce`, `broadcast`, `all_gather` and their kind are
*collective*: each rank of the process group must call them, in the same order. Where only rank 0 does, for example
inside the `if rank == 0:` that prints or saves, it waits for partners who never come. The job stands still until the
watchdog ends it, by default after ten minutes with NCCL (`Watchdog caught collective operation timeout: WorkNCCL(...)`)
and thirty with gloo (`Connection closed by peer` where the others have finished). It can be worse: the call pairs with
the next collective of the other ranks, and numbers are mixed up silently.

## Bad

    import os

    import torch
    import torch.distributed as dist

    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    loss = torch.ones(1, device="cuda")
    if dist.get_rank() == 0:
        dist.all_reduce(loss)
        print("loss", loss.item() / dist.get_world_size())
    dist.destroy_process_group()

## Good

    import os

    import torch
    import torch.distributed as dist

    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    dist.init_process_group("nccl")
    loss = torch.ones(1, device="cuda")
    dist.all_reduce(loss)
    if dist.get_rank() == 0:
        print("loss", loss.item() / dist.get_world_size())
    dist.destroy_process_group()

## Fix

None is applied. Move the collective in front of the test on the rank, or behind it, and keep only what one rank must
do (print, save, log) inside.

## Silent when

The other ranks make the same call on their side of the test (`if rank == 0: broadcast(...)`, `else: broadcast(...)`),
or before or after it (the pair of barriers around work that one rank does first); the call names a process group of
its own; it is point to point (`send`, `recv`); the test asks for the world, not for the rank (`is_initialized()`).

## Sources

pytorch/tutorials#2049, huggingface/accelerate#2785, deepspeedai/DeepSpeed#2993, allenai/allennlp#4693; run on two CPU
ranks with torch 2.13.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Severity
from gpudoctor.lint.program import Program, who
from gpudoctor.lint.values.base import NONE
from gpudoctor.lint.values.event import Collective, LeaveLoop
from gpudoctor.rule import Rule
from gpudoctor_rules.collective._sides import reached_alone, story
from gpudoctor_rules.collective._stuck import stuck
from gpudoctor_rules.collective._together import called_instead, missed_by, steps_together

if TYPE_CHECKING:
    from gpudoctor.run.recording import Recording

ELSEWHERE = frozenset({"monitored_barrier", "new_group", "save_state", "get_state_dict"})
"""Calls that have a rule of their own, that are meant to be called unevenly, or that wait for sharded models only."""


class CollectiveOnSomeRanks(Rule):
    """A collective call is reached by some ranks only, so the ranks that call it wait for the others without end."""

    code = "GPU501"
    name = "collective-on-some-ranks"
    severity = Severity.ERROR
    stops = True
    shows_in_run = True

    def in_code(self, program: Program) -> Iterator[Finding]:
        # In one process a collective returns at once, whoever calls it.
        if not program.world.several_processes:
            return
        calls = [event for event in program.events(Collective) if _of_all_ranks(event)]
        instead = _in_place_of_others(program) if any(event.rank_guards for event in calls) else ()
        for place, events, _ in reached_alone((event for event in calls if event not in instead), _kind):
            event = events[0]
            through = "" if place == event.location else "through this call "
            yield self.found(
                at=place,
                message=f"`{event.call}` is reached {through}by {who(event)}: deadlock, because the other "
                "ranks never call it.",
                remedy="Call it on all ranks, outside of the test on the rank, and keep only the printing or saving "
                "inside.",
                because=story(events),
            )

    def in_run(self, recording: Recording) -> Iterator[Finding]:
        left = stuck(recording)
        if left is not None and left.code == self.code:
            yield self.found(
                left.at,
                left.message,
                remedy="Call it on all ranks, outside of the test on the rank, and keep only the printing or saving "
                "inside.",
                because=left.because,
            )

    def could_show(self, recording: Recording) -> bool:
        return recording.distributed and recording.ended_well


def _in_place_of_others(program: Program) -> list[Collective]:
    """Calls on a way that leaves before the one that they stand for."""
    together = list(steps_together(program))
    ways_out = [leaving for leaving in program.events(LeaveLoop) if leaving.rank_guards]
    missed = [(leaving, step) for leaving in ways_out if (step := missed_by(leaving, together)) is not None]
    return [call for leaving, step in missed if (call := called_instead(program, leaving, step)) is not None]


def _of_all_ranks(event: Collective) -> bool:
    """It is for the default group, of which every rank is a member."""
    # A group of its own may have just those members that get here.
    return event.call not in ELSEWHERE and (event.group is None or event.group.all(lambda group: group == NONE))


# By name: a `broadcast` does not answer an `all_reduce`, though either may seem to work.
def _kind(event: Collective) -> Hashable:
    return event.call
