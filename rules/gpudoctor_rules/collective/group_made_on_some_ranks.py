"""A process group is made by its members only, or by each rank with other members.

## What goes wrong

`dist.new_group(ranks)` must be called by every rank (every process of the job), in the same order and with the same
ranks, also by those that are not to be members. Inside `if rank in ranks:` only the members call it, and wait until the
others come: the job hangs until a timeout (`Timed out after 1801 seconds waiting for clients`). Where each rank passes
the members of its own group only, the ranks of different groups meet under one name: the job hangs or connects the
wrong ranks.

## Fix

Let all ranks make all groups, in one loop over lists that are the same everywhere, and let each keep the one that it
is in. Equal groups of neighbours: `dist.new_subgroups(group_size)`. No automatic fix.

## Silent when

The other ranks call it on their side of the test as well; `use_local_synchronization=True` is given, which asks the
members alone; a rank makes a group for itself alone; the members are not known.

## Sources

pytorch/pytorch#25390, pytorch/pytorch#38375, pytorch/pytorch#130102,
https://docs.pytorch.org/docs/stable/distributed.html#torch.distributed.new_group; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.diagnostic import Location, Severity
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.event_context import ranks_in_words
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import STUCK
from gpudoctor_rules.collective._sides import reached_alone, story

AMONG_MEMBERS = "use_local_synchronization"


class GroupMadeOnSomeRanks(Rule):
    code = "GPU508"
    severity = Severity.ERROR
    errors = STUCK
    stops = True
    shows_when = ("distributed", "ended_well")
    of_ranks = True
    needs = (Collective,)
    looks_at = ((Collective, "makes_group"),)

    def in_code(self, program: Program) -> Findings:
        # A group of one process is made at once.
        # Groups that ask their members alone need nobody else.
        making = [event for event in program.events(Collective) if _is_for_all(event)]
        for place, events, _ in reached_alone(making, lambda event: event.call):
            # Where the call itself is guarded, what members it names matters no more.
            yield self.found(
                at=place,
                message=f"`new_group` is called by {ranks_in_words(events[0])}: deadlock, because every rank must call "
                "it, also those that are not to be members.",
                remedy="Make the group on all ranks, outside of the test, and use it only where the rank is a member.",
                because=story(events),
            )
        for event in making:
            # A rank that is told apart by its members is a mistake without any test.
            if _names_own_members(event):
                yield self.found(
                    at=event.location,
                    message="Each rank calls `new_group` with members that depend on its own rank. All ranks must make "
                    "the same groups in the same order: as it is, different groups meet under one name.",
                    remedy="Loop over the members of all groups on all ranks, and keep the group that this rank is in.",
                    # The rank is mostly asked for by the caller.
                    because=[("called from here", call) for call in event.context.calls[-2:]],
                )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.collective._stuck import standstill

        remedy = "Call `new_group` on all ranks, in the same order, also on those that are no members."
        yield from standstill(self, recording, remedy)
        # Gloo goes on without the others.
        for place, came in _made_by_some(recording) if recording.ended_well else ():
            yield self.found(
                place,
                f"{recording.named(came)} made this group, and the other ranks did not call `new_group` for it: they "
                "must, also those that are no members. The next group that all make is not one and the same, then, and "
                "some backends wait here.",
                remedy=remedy,
            )


def _made_by_some(recording: Recording) -> Iterator[tuple[Location, list[int]]]:
    """Where some ranks called `new_group` and others made fewer groups, and those that called it."""
    made = {each.rank or 0: [one.place for one in each.subgroups if one.of_all] for each in recording.ranks}
    # A rank may make a group for itself alone, and the others may call that, too.
    if len({len(each.subgroups) for each in recording.ranks}) < 2 or recording.others_elsewhere:
        return
    if len({len(places) for places in made.values()}) < 2:
        return
    for place in sorted({place for places in made.values() for place in places if place is not None}):
        times = {rank: places.count(place) for rank, places in made.items()}
        if len(set(times.values())) > 1:
            yield place, [rank for rank, number in times.items() if number == max(times.values())]
            return


def _is_for_all(event: Collective) -> bool:
    return event.makes_group and AMONG_MEMBERS not in event.arguments


def _names_own_members(event: Collective) -> bool:
    # What unread code makes of a rank may be the same list everywhere.
    return bool(event.members & Divergence.RANK) and not event.members & Divergence.UNREAD
