"""A new process group is made in each iteration of a loop.

## What goes wrong

`dist.new_group()` is no cheap handle: all ranks (processes) meet, connect to each other and, with NCCL, set up a
communicator that holds buffers on the GPU. Groups live until the process ends or they are destroyed, so that each
iteration takes longer and memory grows, until there are no more file descriptors or no more GPU memory. For a small sum
in each step the group costs more than the sum.

## Fix

Make the group once, before the loop, and keep it. The group of all ranks need not be made at all: it is the default.
No automatic fix.

## Silent when

The loop neither trains nor evaluates, such as one that makes a group for each part of a node; the group is made under a
test, as a cache that is empty at first.

## Sources

NVIDIA/Megatron-LM#6897, NVIDIA/nccl#604, https://docs.pytorch.org/docs/stable/distributed.html#groups; run on two
CPU ranks with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.questions.loop_rounds import in_every_round, trains
from gpudoctor.rule import Findings, Program, Recording, Rule


class GroupMadeInLoop(Rule):
    code = "GPU515"
    severity = Severity.PERF
    of_ranks = True
    shows_when = ("distributed", "ranks.steps > 2")
    needs = (Collective,)
    looks_at = ((Collective, "makes_group"),)

    def in_code(self, program: Program) -> Findings:
        # In one process a group costs nothing.
        for event in program.events(Collective):
            # Subgroups and device meshes are logged under the same name.
            if not event.makes_group:
                continue
            loop = _working_loop(program, event)
            if loop is not None:
                yield self.found(
                    at=event.location,
                    message="A new process group is made in every iteration of this loop: all ranks meet to connect, "
                    "and every group stays, with its memory.",
                    remedy="Make it once, before the loop, and use it again; the group of all ranks is there already.",
                    # The call may stand in a helper, far from the loop.
                    because=[("each iteration of this loop makes one", loop.location)],
                    by=event,
                )

    def in_run(self, recording: Recording) -> Findings:
        for rank in recording.ranks[:1]:
            for at in sorted({each.place for each in rank.subgroups if each.place is not None}):
                made = [each.step for each in rank.subgroups if each.place == at]
                # Groups for all parts of the job are made in one go.
                if len(set(made)) >= _ENOUGH and recording.distributed:
                    yield self.found(
                        at,
                        f"{len(made)} process groups were made here by step {made[-1]}: all ranks meet to connect, and "
                        "every group stays, with its memory.",
                        remedy="Make it once, before the loop, and use it again; the group of all ranks is there "
                        "already.",
                    )


_ENOUGH = 3
"""Steps between which the same line has made groups."""


def _working_loop(program: Program, event: Collective) -> Loop | None:
    """The innermost loop that trains or goes over batches, where each of its rounds makes a group."""
    # Loops inside of it only make several groups in one go.
    working = (loop for loop in reversed(event.loops) if loop.repeats and _works(program, loop))
    return next((loop for loop in working if in_every_round(program, event, loop)), None)


def _works(program: Program, loop: Loop) -> bool:
    # A loop over the parts of a node, before training begins, makes each group once.
    return loop.over is not None or trains(program, loop)
