"""One rank goes through data while the others already wait in a collective, which may time out.

## What goes wrong

A collective waits for all ranks (processes, one for each GPU), but not forever: NCCL ends the job after 10 minutes
(30 before torch 2.2) with `Watchdog caught collective operation timeout: WorkNCCL(OpType=ALLREDUCE, ...,
Timeout(ms)=600000)`, gloo after 30. While rank 0 alone prepares or evaluates data, all other GPUs stand in the next
collective, idle; with more data, a slower disk or a larger model the limit is reached, and a training that has worked
until then dies.

This is advice and not among the rules that are on by default: how long the pass takes cannot be seen in the code, and
a short one is well placed on one rank.

## Fix

Shard the data over the ranks with a `DistributedSampler`; or give the group the time that it needs:
`init_process_group(..., timeout=timedelta(hours=2))`. No automatic fix.

## Silent when

The group is given a timeout; all ranks go through data there, each in its branch; no collective follows that all ranks
take part in; a framework is in charge. A run speaks where the others were ended by their limit, or waited for a minute.

## Sources

NVIDIA/nccl#708, pytorch/pytorch#107177, pytorch/pytorch#124950.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.acting_place import under_the_test
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.data_loading import Iterate
from gpudoctor.lint.events.event_context import ranks_in_words
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.questions.names import name_of
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import GLOO_TIMEOUT, NCCL_TIMEOUT

if TYPE_CHECKING:
    from gpudoctor.run.recording import Pass, Process
    from gpudoctor.run.recording.process_ends import Crash


REMEDY = "Shard the pass over the ranks, or give `init_process_group` a `timeout`."
LONG = 60.0
"""Seconds of waiting that are worth a word: a tenth of what NCCL allows."""
LIMIT = ("Timed out waiting", "wait timeout", "collective operation timeout")


class SlowRank0BeforeCollective(Rule):
    code = "GPU412"
    severity = Severity.INFO
    errors = (*NCCL_TIMEOUT, *GLOO_TIMEOUT)
    stops = True
    needs = (Iterate,)

    def in_code(self, program: Program) -> Findings:
        if not program.presence() or not program.whole:
            return
        # Who gives a timeout has thought of it.
        if any(group.timed for group in program.events(InitGroup)):
            return
        seen: set[object] = set()
        for event in program.events(Iterate):
            if ranks_in_words(event) != "rank 0 only" or program.on_both_sides(event) or event.location in seen:
                continue
            waiting = _next_of_all(program, event)
            if waiting is None:
                continue
            seen.add(event.location)
            yield self.found(
                under_the_test(event, event.rank_guards),
                f"Rank 0 alone iterates over {name_of(event.loader, 'its data')} here, and the others wait for it in "
                f"`{waiting.call}`: after 10 minutes NCCL ends the job.",
                remedy=REMEDY,
                because=[("it goes through them here", event.location), ("the others wait here", waiting.location)],
            )

    def in_run(self, recording: Recording) -> Findings:
        if not recording.distributed or any(group.timeout for rank in recording.ranks for group in rank.groups):
            return
        for busy, passed in _alone(recording):
            ended = next((crash for rank, crash in recording.crashes() if _is_limit(rank, crash, busy, passed)), None)
            waited = max((_waited(rank, busy, passed) for rank in recording.ranks if rank is not busy), default=0.0)
            if passed.place is None or (ended is None and waited < LONG):
                continue
            end = "were ended when their time was over" if ended else f"waited {waited:.0f} s for it in a collective"
            yield self.found(
                passed.place,
                f"Rank {busy.rank} alone went through {passed.batches} batches here, "
                f"for {passed.until - passed.began:.0f} s, and the others {end}.",
                remedy=REMEDY,
                because=[("here they were ended", ended.place)] if ended else [],
            )
            return

    def could_show(self, recording: Recording) -> bool:
        return recording.distributed and bool(_alone(recording)) and all(rank.over for rank in recording.ranks)


def _alone(recording: Recording) -> list[tuple[Process, Pass]]:
    """Passes without training that one rank made while no other had one."""
    found = []
    for rank in recording.ranks:
        theirs = [each for other in recording.ranks if other is not rank for each in other.passes]
        # Who waits for the others inside of it is not what they wait for.
        kept = [each for each in rank.evaluations if each.ended and not _meets(rank, each)]
        found += [(rank, each) for each in kept if not any(_overlap(each, other) for other in theirs)]
    return found


def _meets(rank: Process, passed: Pass) -> bool:
    return any(passed.began < each.began < passed.until for each in rank.collectives)


def _overlap(one: Pass, other: Pass) -> bool:
    return one.began < other.until and other.began < one.until


def _is_limit(rank: Process, crash: Crash, busy: Process, passed: Pass) -> bool:
    """Another rank waited for too long while the pass went on."""
    told = any(text in crash.text for text in LIMIT)
    return told and rank is not busy and passed.began < crash.at <= passed.until + LATE


LATE = 5.0
"""Seconds that a rank may take to fail, in which the pass may come to its end."""


def _waited(rank: Process, busy: Process, passed: Pass) -> float:
    """How long this rank stood in a collective that it began during the pass, before the busy one joined it."""
    joined = {(each.group, each.number, each.name): each.began for each in busy.collectives}
    waits = [
        joined.get((each.group, each.number, each.name), 0.0) - each.began
        for each in rank.collectives
        if passed.began < each.began < passed.until
    ]
    return max(waits, default=0.0)


def _next_of_all(program: Program, event: Iterate) -> Collective | None:
    """The next collective, where all ranks come to it."""
    later = (each for each in program.events(Collective) if each.order > event.order and not each.makes_group)
    found = next((each for each in later if not _inside(each, event)), None)
    return found if found is not None and not found.rank_guards else None


def _inside(each: Collective, event: Iterate) -> bool:
    return event.loop is not None and any(loop.identity == event.loop.identity for loop in each.loops)
