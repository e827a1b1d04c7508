"""A state that is spread over all ranks is asked for by some of them, which wait for the others forever.

## What goes wrong

With FSDP, ZeRO and DeepSpeed each rank (each process, one for each GPU) holds a part of the parameters or of the
optimizer's state. To make a whole state of it, or to write all parts, every rank must take part. Behind a test
such as `if rank == 0:`, where saving usually stands, rank 0 waits for parts that nobody sends: the job hangs
until the watchdog ends it (`Watchdog caught collective operation timeout: WorkNCCL(... OpType=ALLGATHER ...)`), with
gloo `Timed out waiting`.

## Fix

Ask for the state on all ranks, and write it on one. What writes parts itself (`torch.distributed.checkpoint.save`,
DeepSpeed's `save_checkpoint`) is called on all ranks and needs no guard. No automatic fix.

## Silent when

The other ranks make the same call on their side of the test; the model is not sharded; the state is one that is not
gathered, such as `state_dict()` of a model that `fully_shard` has sharded in place; it is not known whether a tensor is
sharded, as with the loss of `loss_parallel`, which each rank has whole.

## Sources

pytorch/pytorch#73383, pytorch/pytorch#122903, huggingface/accelerate#3250, pytorch/ignite#2623; run on two CPU ranks
with torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.events.acting_place import calls_behind
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.event_context import ranks_in_words
from gpudoctor.lint.events.files import Save, ShardedState
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import STUCK

OF_A_MESH = "full_tensor"
"""All ranks of a mesh call it, which may be those that have one place along another one."""


class ShardedStateOnSomeRanks(Rule):
    code = "GPU605"
    severity = Severity.ERROR
    errors = STUCK
    stops = True
    shows_when = ("distributed", "ended_well")
    of_ranks = True
    needs = (Save, ShardedState)
    looks_at = ((Save, "collective"), (ShardedState, "rank_guards"))

    def in_code(self, program: Program) -> Findings:
        # Alone, a rank has all parts.
        # Where all ranks wait for each other, whatever each has of the state, that is GPU501.
        waited = {(each.location, each.call) for each in program.events(Collective)}
        together = [
            each
            for each in program.events(ShardedState, Save)
            if _takes_all_ranks(each) and (each.location, _name(each)) not in waited
        ]
        told: set[Location] = set()
        for event in together:
            if not event.rank_guards or event.location in told or _is_answered(event, together):
                continue
            told.add(event.location)
            # What is written in parts needs no guard at all.
            writes = isinstance(event, Save)
            behind = calls_behind(event, event.rank_guards)
            through = "behind this call " if behind else ""
            yield self.found(
                at=behind[0] if behind else event.location,
                message=f"`{_name(event)}` is called {through}by {ranks_in_words(event)}. Every rank holds a part of "
                f"the state and must {'write it' if writes else 'send it'}: deadlock, because the other ranks never "
                "call it.",
                remedy="Call it on all ranks, without a test on the rank."
                if writes
                else "Call it on all ranks, and keep only the writing of the file inside of the test.",
                because=[
                    *(("only some ranks pass here", guard.atom.place) for guard in event.rank_guards),
                    *(("called from here", call) for call in event.context.calls[-2:]),
                    ("and here it happens", event.location),
                ],
            )

    def in_run(self, recording: Recording) -> Findings:
        for rank, at in _asking(recording):
            others = [each for each in recording.hang if each.rank != rank]
            # Who is busy with something of its own may only be slow, and come later.
            if any(each.collective is None for each in others) and self.code not in recording.suspected:
                return
            yield self.found(
                at,
                f"Rank {rank} waits here for the parts of a sharded state that the others hold, and "
                f"{'they are elsewhere' if others else 'they have ended'}.",
                remedy="Call it on all ranks, and keep only the writing of the file inside of the test.",
                because=[(f"rank {each.rank} is here", each.place) for each in others],
            )
            return


def _asking(recording: Recording) -> Iterator[tuple[int | None, Location]]:
    """The ranks that ask for a state, and where, while others do not or have gone."""
    asking = [each for each in recording.hang if each.asks_for_state]
    if len(asking) < len(recording.ranks):
        yield from ((each.rank, each.place) for each in asking if each.place is not None)
    crashes = list(recording.crashes())
    # With gloo a rank notices that the others have ended, which with NCCL it does not.
    if all(crash.lost_connection for _, crash in crashes) and len(crashes) < len(recording.ranks):
        for rank, crash in crashes:
            if crash.place is not None and crash.asks_for_state:
                yield rank.rank, crash.place


def _takes_all_ranks(event: ShardedState | Save) -> bool:
    if event.call == OF_A_MESH and not all(guard.atom.ranks for guard in event.rank_guards):
        return False
    return event.gathers if isinstance(event, ShardedState) else event.waits


def _is_answered(event: ShardedState | Save, others: list[ShardedState | Save]) -> bool:
    """The ranks on the other side of a test make the same call, there or behind it."""
    # `if rank == 0: save(model.state_dict())`, `else: model.state_dict()` is legal, if odd.
    sides = {guard.negated() for guard in event.rank_guards}
    return any(_name(other) == _name(event) and not sides.isdisjoint(other.condition.literals) for other in others)


def _name(event: ShardedState | Save) -> str:
    return event.call.rpartition(".")[2]
