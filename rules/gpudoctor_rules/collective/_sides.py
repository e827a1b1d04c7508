"""Sides of a test on the rank: what happens on one side only, and what meets its counterpart on the other."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from functools import reduce
from itertools import takewhile
from typing import TypeVar

from gpudoctor.diagnostic import Location
from gpudoctor.lint.events.acting_place import calls_behind
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.flow.condition import Atom, Condition, Divergence, Literal
from gpudoctor.lint.questions.loop_rounds import in_other_rounds

E = TypeVar("E", bound=Event)
MOST_PLACES = 6
"""A story that is longer is not read."""


def without_partner(events: Iterable[E], kind: Callable[[E], Hashable]) -> list[E]:
    """Of the events that only some ranks reach, those that no event of the same kind meets on the other ranks.

    `if rank != 0: barrier()` before a block and `if rank == 0: barrier()` after it are legal: every rank calls one.
    Partners are sought in the same call first, so that a helper with both sides keeps them to itself.
    """
    first: dict[Hashable, E] = {}
    for event in events:
        # What all ranks reach, at once or in turns, needs no partner.
        if any(not _takes_turns(guard) for guard in _leaves(event.rank_guards)):
            # The rounds of a loop repeat each other; how many were followed says nothing.
            alike = event.location, event.context.frames, frozenset(event.rank_guards), kind(event)
            first.setdefault(alike, event)
    # Near partners first, or two helpers with both sides inside would be matched crosswise.
    left, met = list(first.values()), list[tuple[E, E]]()
    for near in (True, False):
        left = _unmatched(left, met, kind, near)
    return [each for each in left if not any(_joins(each, a, b, kind) or _joins(each, b, a, kind) for a, b in met)]


def _unmatched(events: list[E], met: list[tuple[E, E]], kind: Callable[[E], Hashable], near: bool) -> list[E]:
    waiting: list[E] = []
    for event in events:
        partner = next((other for other in waiting if _meet(other, event, kind, near)), None)
        if partner is None:
            waiting.append(event)
        else:
            # One call meets one other: three barriers on one side and two on the other leave a rank waiting.
            waiting.remove(partner)
            met.append((partner, event))
    return waiting


def _joins(event: E, other: E, partner: E, kind: Callable[[E], Hashable]) -> bool:
    """It meets the same partner, where the other does not happen, as the step of another optimizer, or in another round
    of a loop of the partner's own: a rank that waits for what rank 0 sends answers as often as it is asked. The rounds
    of the other's loop repeat it, too: how many were followed says nothing."""
    again = event.location == other.location and event.condition.excludes(other.condition)
    mine = {loop.identity for loop in event.loops}
    rounds = any(loop.times is None and loop.identity not in mine for loop in partner.loops)
    return (again or rounds or _repeats(event, other)) and _meet(event, partner, kind, near=False)


def _repeats(event: Event, other: Event) -> bool:
    """The same calls lead there in another round of a loop."""
    return event.led_there == other.led_there and in_other_rounds(event, other)


def _meet(one: E, other: E, kind: Callable[[E], Hashable], near: bool) -> bool:
    # Frames are executions of a function, so two calls of one helper do not match here.
    if near and one.context.frames != other.context.frames:
        return False
    return kind(one) == kind(other) and _other_side(one, other)


def _other_side(one: Event, other: Event) -> bool:
    """The ranks at one event may be just those that are not at the other.

    What counts are the tests in the calls that the two have in common: sides of tests in different calls meet by
    chance only, and a helper that is called twice is no partner of itself.
    """
    pairs = zip(one.context.frames, other.context.frames, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    mine, theirs = _leaves(_guards_in(one, shared)), _leaves(_guards_in(other, shared))
    # Where no test is the same, as `rank < 4` beside `rank >= 4`, the two may still be all ranks: silent.
    told = [(a.holds, b.holds) for a in mine for b in theirs if _same_test(a, b)]
    return any(a != b for a, b in told) if told else bool(mine and theirs)


def _guards_in(event: Event, depth: int) -> tuple[Literal, ...]:
    """The tests on the rank that were open when the event's way left the first `depth` calls."""
    # The event lies in the shared calls itself: all its tests count.
    if depth >= len(event.context.conditions_at_entry):
        return event.rank_guards
    return event.context.conditions_at_entry[depth].depending_on(Divergence.RANK)


def _leaves(guards: Iterable[Literal]) -> list[Literal]:
    """The single tests on the rank, those inside `and` and `or` included."""
    found: list[Literal] = []
    for guard in guards:
        parts = [part for part in guard.atom.every + guard.atom.none if part.atom.divergence & Divergence.RANK]
        # `not (a or b)` is `not a and not b`: the answer goes down to the parts.
        found += _leaves(part if guard.holds else part.negated() for part in parts) if parts else [guard]
    return found


def parted_by(events: Sequence[Event]) -> list[Literal]:
    """What must be so besides the rank for the ranks to part there: `args.evaluate` in `args.evaluate and rank == 0`,
    and what leads to all of these events."""
    beside = [each for event in events for guard in event.rank_guards for each in _beside_the_rank(guard.atom)]
    return [*beside, *reduce(Condition.intersection, (event.condition for event in events))]


def _beside_the_rank(atom: Atom) -> Iterator[Literal]:
    for part in atom.every + atom.none:
        if part.atom.divergence & Divergence.RANK:
            yield from _beside_the_rank(part.atom)
        else:
            # Of `a and rank == 0` the other part decides while it fails, of `a or rank == 0` while it holds.
            yield part if atom.every else part.negated()


def left_at(event: Event) -> Location | None:
    """The test with which other ranks have left before: whoever changes it mends all that they miss."""
    guards = event.rank_guards
    return guards[0].atom.place if guards and not any(guard.holds for guard in guards) else None


def _takes_turns(guard: Literal) -> bool:
    """`index % world_size == rank`: another rank in each iteration of the loop."""
    return bool(guard.atom.divergence & Divergence.RANK and guard.atom.divergence & Divergence.BATCH_INDEX)


def _same_test(one: Literal, other: Literal) -> bool:
    """Both ask for the same ranks; rank 0 of the node stands for rank 0."""
    # `local_rank == 0` around and `rank == 0` inside are one side on a single node, the usual case.
    named = one.atom.ranks.removeprefix("local ")
    return one.atom == other.atom or (bool(named) and named == other.atom.ranks.removeprefix("local "))


Alone = tuple[Location, list[E], bool]
"""Events without a partner that one change mends: the call under the test, or the event itself where it stands there;
the events; whether the code that is called is right for its other callers."""


def reached_alone(events: Iterable[E], kind: Callable[[E], Hashable]) -> list[Alone[E]]:
    """The events that have no partner, by the place where their authors act: it may be reached in several wrong ways.

    It is not the helper that is wrong but the call that only some ranks make: that is the place then.
    """
    events = list(events)
    # Places are judged by all of their events: a helper may be called rightly once and wrongly once.
    alone = without_partner(events, kind)
    lonely = {(event.location, event.context.frames) for event in alone}
    fine = {event.location for event in events if (event.location, event.context.frames) not in lonely}
    groups: dict[Location, list[E]] = {}
    for event in alone:
        calls = calls_behind(event, event.rank_guards)
        groups.setdefault(calls[0] if calls else event.location, []).append(event)
    return [(place, found, any(each.location in fine for each in found)) for place, found in groups.items()]


def story(events: Iterable[Event]) -> list[tuple[str, Location | None]]:
    """The tests that let only some ranks pass, and the calls that lead from there to the events."""
    told: dict[Location, str] = {}
    for event in events:
        for guard in event.rank_guards:
            if (place := guard.atom.place) is not None:
                told.setdefault(place, _passed_by(guard))
        for call in calls_behind(event, event.rank_guards):
            told.setdefault(call, "this call leads there")
        told.setdefault(event.location, "and here it happens")
    return [(text, place) for place, text in list(told.items())[:MOST_PLACES]]


def _passed_by(guard: Literal) -> str:
    if not guard.atom.ranks:
        return "not every rank takes the same path here"
    return f"only {guard.atom.ranks} continues here" if guard.holds else f"{guard.atom.ranks} leaves here"
