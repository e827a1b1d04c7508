"""Ranks call their collectives in different orders, so calls are matched that do not belong together.

## What goes wrong

Collectives carry no names: the first one that a rank (a process, one for each GPU) calls meets the first one of the
others, the second the second. Where one side of a test on the rank reduces and then broadcasts, and the other does it
the other way round, an `all_reduce` meets a `broadcast`: with NCCL both wait forever or exchange garbage, with gloo
they end in `Is there a distributed collective mismatch in your code?`. Two of one kind and of one size meet quietly,
and each adds up what belongs to the other. So does a loop over a set of texts: Python seeds the hash of texts anew for
each process, so that one rank sums `loss` while another sums `accuracy`.

## Fix

Put the calls in one order, best on one path that all ranks take; iterate over `sorted(names)` instead of a set. No
automatic fix.

## Silent when

Both sides call the same in the same order, or not the same at all (that is another mistake), as where each has a group
of its own; it is not known which groups or tensors the calls name, or calls of several groups go on in the background;
a set is sorted first, holds numbers, or it is not known what it holds.

## Sources

Lightning-AI/pytorch-lightning#19106, https://docs.python.org/3/reference/datamodel.html#object.__hash__,
https://docs.pytorch.org/docs/stable/distributed.html#collective-functions; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Sequence
from itertools import combinations
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Location, Severity
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import MISMATCH, STUCK

if TYPE_CHECKING:
    from gpudoctor.run.recording import Process
    from gpudoctor.run.recording.call_counts import RecordedCollective

Side = tuple[Hashable, ...]


class CollectivesInDifferentOrder(Rule):
    code = "GPU512"
    severity = Severity.ERROR
    errors = (*MISMATCH, *STUCK)
    stops = True
    shows_when = ("distributed", "ended_well")
    of_ranks = True
    needs = (Collective,)
    looks_at = ((Collective, "rank_guards"), (Collective, "unordered"))

    def in_code(self, program: Program) -> Findings:
        # Alone, any order will do.
        yield from self._swapped(program)
        for event in program.events(Collective):
            loop = next((each for each in event.loops if each.unordered), None)
            # For barriers it does not matter which one meets which.
            if loop is None or event.waits or event.makes_group:
                continue
            yield self.found(
                at=event.location,
                message=f"`{event.call}` is called in the order of a set of texts, which differs from "
                "process to process: the ranks exchange different things with each other.",
                remedy="Iterate over the set in an order that is the same everywhere: `sorted(...)`.",
                because=[("the set is iterated over here", loop.location)],
            )

    def in_run(self, recording: Recording) -> Findings:
        from gpudoctor_rules.collective._stuck import standstill

        yield from standstill(self, recording, "Call the collectives in one order on all ranks.")
        met = (_crossed(self, recording, *two) for two in combinations(recording.ranks, 2))
        yield from next(filter(None, met), ())

    def could_show(self, recording: Recording) -> bool:
        # What one call is given is not told from what it is given in another round.
        met = (two for ranks in combinations(recording.ranks, 2) for two in _meetings(*ranks))
        at_one = {here.place for here, there in met if here.place is not None and here.place == there.place}
        return super().could_show(recording) and not any(recording.suspects(self.code, place) for place in at_one)

    def _swapped(self, program: Program) -> Findings:
        sides = _sides(program)
        for (where, guard), mine in sides.items():
            # Each pair of sides is looked at once.
            theirs = sides.get((where, guard.negated()), []) if guard.holds else []
            at = next((each for how in (_first_apart, _first_crossed) if (each := how(mine, theirs)) is not None), None)
            if at is None:
                continue
            here, there = theirs[at].call, mine[at].call
            of_another = " with another tensor" if _call(theirs[at]) == _call(mine[at]) else " in another group"
            yield self.found(
                at=theirs[at].location,
                message=f"Here some ranks call `{here}` while the others call `{there}`"
                f"{of_another if here == there else ''}: on the two sides of "
                "a test on the rank, the same collectives stand in different orders.",
                remedy="Put them into the same order on both sides, or call them once, outside of the test.",
                because=[("the ranks diverge here", guard.atom.place), ("the others are here then", mine[at].location)],
            )


def _first_apart(mine: Sequence[Collective], theirs: Sequence[Collective]) -> int | None:
    """Where two sides that call the same differ first: there they stand still, and the rest is never reached. Where
    one side lacks a call, it is the missing partner that is reported."""
    calls, others = [*map(_call, mine)], [*map(_call, theirs)]
    if Counter(calls) != Counter(others):
        return None
    return next((index for index, call in enumerate(calls) if call != others[index]), None)


def _first_crossed(mine: Sequence[Collective], theirs: Sequence[Collective]) -> int | None:
    """Where two sides with the same calls give a tensor that the other side gives to another of them."""
    given, others = [each.one for each in mine], [each.one for each in theirs]
    if [*map(_call, mine)] != [*map(_call, theirs)]:
        return None
    met = (at for at, one in enumerate(given) if one is not None and given.count(one) == others.count(one) == 1)
    return next((at for at in met if others[at] != given[at]), None)


def _call(event: Collective) -> Hashable:
    return event.call, event.among


def _crossed(rule: Rule, recording: Recording, first: Process, second: Process) -> Sequence[Finding]:
    """Calls of two functions that have met each other, and have met again the other way round, or calls that lint has
    found to stand in another order.

    Sides of one test are no two functions: there ranks may take turns, as where one gives a value and the others zeros.
    """
    met: set[tuple[Location, Location]] = set()
    for here, there in _meetings(first, second):
        if here.place is None or there.place is None or here.place == there.place:
            continue
        met.add((here.place, there.place))
        again = here.function != there.function and (there.place, here.place) in met
        suspected = any(recording.suspects(rule.code, place) for place in (here.place, there.place))
        if again or suspected:
            found = rule.found(
                here.place,
                f"When rank {first.rank} calls `{here.name}` here, rank {second.rank} calls another one. Both are as "
                "large, so that nothing stops, and what belongs to one is added to the other.",
                remedy="Call the collectives in one order on all ranks.",
                because=[(f"rank {second.rank} is here then", there.place)],
                doubt="" if suspected else "Ranks may take turns: one gives its value here, the others zeros there.",
            )
            return (found,)
    return ()


def _meetings(first: Process, second: Process) -> Iterator[tuple[RecordedCollective, RecordedCollective]]:
    """Calls that have met each other, and are alike for all that can be seen of them."""
    theirs = {_number(each): each for each in second.collectives if _mixes(each)}
    for here in first.collectives:
        there = theirs.get(_number(here)) if _mixes(here) else None
        if there is not None and (here.name, here.elements) == (there.name, there.elements):
            yield here, there


def _number(each: RecordedCollective) -> Hashable:
    return each.group, each.number


def _mixes(each: RecordedCollective) -> bool:
    """All ranks give a value for each other: what one of them sends may come from another line than it is met at."""
    return each.name.startswith(_MIXING) and bool(each.function) and not each.of_wrapper


_MIXING = ("all_reduce", "all_gather", "_all_gather", "reduce_scatter", "_reduce_scatter", "all_to_all")


def _sides(program: Program) -> dict[tuple[Side, Literal], list[Collective]]:
    """The collectives on each side of each test on the rank, in their order, apart for each call of a function."""
    found: dict[tuple[Side, Literal], list[Collective]] = {}
    # Sides of sides are left alone.
    guarded = [(each, each.rank_guards[0]) for each in program.events(Collective) if len(each.rank_guards) == 1]
    sides: dict[Hashable, set[Literal]] = {}
    for event, guard in guarded:
        for loop in event.loops:
            sides.setdefault(loop.identity, set()).add(guard)
    for event, guard in guarded:
        if event.among is not None:
            # A loop of one side, as over what is another list there, is called with all its rounds.
            common = (loop for loop in event.loops if sides[loop.identity] != {guard} or loop.times is None)
            rounds = tuple((loop.identity, loop.pass_) for loop in common)
            found.setdefault(((event.context.frames, rounds), guard), []).append(event)
    return found
