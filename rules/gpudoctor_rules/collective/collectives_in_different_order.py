"""Ranks call their collectives in different orders, so calls are matched that do not belong together.

## What goes wrong

Collectives carry no names: the first one that a rank (a process, one for each GPU) calls meets the first one of the
others, the second the second. Where one side of a test on the rank reduces and then broadcasts, and the other does it
the other way round, an `all_reduce` meets a `broadcast`: with NCCL both wait forever or exchange garbage, with gloo
they end in `Is there a distributed collective mismatch in your code?`. A loop over a set of texts does the same more
quietly: Python seeds the hash of texts anew for each process, so that one rank sums `loss` while another sums
`accuracy`.

## Fix

Put the calls in one order, best on one path that all ranks take; iterate over `sorted(names)` instead of a set. No
automatic fix.

## Silent when

Both sides call the same in the same order, or not the same at all (that is another mistake), as where each has a group
of its own; it is not known which groups the calls name, or calls of several groups go on in the background; a set is
sorted first, holds numbers, or it is not known what it holds.

## Sources

Lightning-AI/pytorch-lightning#19106, https://docs.python.org/3/reference/datamodel.html#object.__hash__,
https://docs.pytorch.org/docs/stable/distributed.html#collective-functions; run on two CPU ranks with torch 2.13.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.rule import Findings, Program, Recording, Rule
from gpudoctor_rules._error_texts import MISMATCH, STUCK

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

        return standstill(self, recording, "Call the collectives in one order on all ranks.")

    def _swapped(self, program: Program) -> Findings:
        sides = _sides(program)
        for (where, guard), mine in sides.items():
            # Each pair of sides is looked at once.
            theirs = sides.get((where, guard.negated()), []) if guard.holds else []
            calls, others = [(each.call, each.among) for each in mine], [(each.call, each.among) for each in theirs]
            # Where one side lacks a call, it is the missing partner that is reported.
            if calls == others or Counter(calls) != Counter(others):
                continue
            # The first that do not fit stand still, and the rest is never reached.
            at = next(index for index, call in enumerate(calls) if call != others[index])
            here, there = theirs[at].call, mine[at].call
            yield self.found(
                at=theirs[at].location,
                message=f"Here some ranks call `{here}` while the others call `{there}`"
                f"{' in another group' if here == there else ''}: on the two sides of "
                "a test on the rank, the same collectives stand in different orders.",
                remedy="Put them into the same order on both sides, or call them once, outside of the test.",
                because=[("the ranks diverge here", guard.atom.place), ("the others are here then", mine[at].location)],
            )


def _sides(program: Program) -> dict[tuple[Side, Literal], list[Collective]]:
    """The collectives on each side of each test on the rank, in their order, apart for each call of a function."""
    found: dict[tuple[Side, Literal], list[Collective]] = {}
    for event in program.events(Collective):
        guards = event.rank_guards
        # Sides of sides are left alone.
        if len(guards) == 1 and event.among is not None:
            rounds = tuple((loop.identity, loop.pass_) for loop in event.loops)
            found.setdefault(((event.context.frames, rounds), guards[0]), []).append(event)
    return found
