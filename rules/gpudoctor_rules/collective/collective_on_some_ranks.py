"""A collective call is reached by some ranks only, so the ranks that call it wait for the others forever.

## What goes wrong

A *rank* is one process of the training program. `barrier`, `all_reduce`, `broadcast`, `all_gather` and the like are
*collective*: each rank of the process group must call them, in the same order. Where only rank 0 does, for example
inside the `if rank == 0:` that prints or saves, it waits for ranks that never join it. The job hangs until the watchdog
ends it, by default after ten minutes with NCCL (`Watchdog caught collective operation timeout: WorkNCCL(...)`) and
thirty with gloo (`Connection closed by peer` where the others have finished). It can be worse: the call pairs with the
next collective of the other ranks, and numbers are mixed up silently.

## Fix

No automatic fix. Move the collective in front of the test on the rank, or after it, and keep only what one rank must do
(print, save, log) inside.

## Silent when

The other ranks make the same call on their side of the test (`if rank == 0: broadcast(...)`, `else: broadcast(...)`),
or before or after it (the pair of barriers around work that one rank does first); the call names a process group of
its own; it is point to point (`send`, `recv`); the test asks for the world, not for the rank (`is_initialized()`); a
`while` loop of these ranks alone waits there for code that was not read on the others, such as the handlers of a page.

## Sources

pytorch/tutorials#2049, huggingface/accelerate#2785, deepspeedai/DeepSpeed#2993, allenai/allennlp#4693; run on two CPU
ranks with torch 2.13.
"""

from __future__ import annotations

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.event_context import ranks_in_words
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import MISMATCH, STUCK
from gpudoctor_rules.collective._missed import lonely_collectives
from gpudoctor_rules.collective._sides import left_at, parted_by, story


class CollectiveOnSomeRanks(Rule):
    code = "GPU501"
    severity = Severity.ERROR
    errors = (
        *STUCK,
        *MISMATCH,
        "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued "
        "collectives.",
    )
    stops = True
    shows_when = ("distributed", "ended_well")
    of_ranks = True
    needs = (Collective,)
    looks_at = ((Collective, "rank_guards"),)

    def in_code(self, program: Program) -> Findings:
        # In one process a collective returns at once, whoever calls it.
        for place, events, _ in lonely_collectives(program):
            event = events[0]
            through = "" if place == event.location else "through this call "
            yield self.found(
                at=place,
                message=f"`{event.call}` is reached {through}by {ranks_in_words(event)}: deadlock, because the other "
                "ranks never call it.",
                remedy="Call it on all ranks, outside of the test on the rank, and keep only the printing or saving "
                "inside.",
                because=story(events),
                cause=left_at(event),
                needs=parted_by(events),
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.collective._stuck import standstill

        return standstill(
            self,
            recording,
            "Call it on all ranks, outside of the test on the rank, and keep only the printing or saving inside.",
        )
