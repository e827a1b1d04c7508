"""Where the author of a program acts on an event that may lie deep in a helper: one of the calls that led there.

A helper that is right for its other callers is not what must change. The place is then the call in the function where
it was decided: under the test of the rank, where the loss was made, beside the evaluation.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.symbols import OneOf
from gpudoctor.lint.events.event_context import Event, Loop
from gpudoctor.lint.flow.condition import Divergence, Literal


def parting(event: Event, other: Event) -> Location:
    """Where the way to the event leaves the innermost call that it has in common with the way to another."""
    pairs = zip(event.context.frames, other.context.frames, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
    return _place_at(event, shared - 1) if shared else event.location


def entered(event: Event, right: Iterable[Event]) -> Location:
    """The call by which the way to the event comes to code that others, who do it right, call as well; the event
    itself, where it has no code in common with them but its own line."""
    mine = event.led_there
    # Of several others the one that shares most.
    shared = max((_shared_end(mine, other.led_there) for other in right), default=0)
    return mine[-1 - shared] if 0 < shared < len(mine) else event.location


def entered_in(event: Event, loop: Loop, right: Iterable[Event]) -> Location:
    """The same, where that call is made in the loop: who shares all of the loop shares what happens in it."""
    place = entered(event, right)
    if loop.frame not in event.context.frames:
        return event.location
    first = event.context.frames.index(loop.frame) + 1 - _frames_ahead(event)
    return place if place in event.context.calls[max(first, 0) :] else event.location


def _shared_end(mine: tuple[Location, ...], other: tuple[Location, ...]) -> int:
    pairs = zip(reversed(mine), reversed(other), strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def calls_behind(event: Event, tests: Iterable[Literal]) -> list[Location]:
    """The open calls that are made only where one of the tests came out so, outermost first.

    The first one stands under the test itself; there is none where the event does, or where the test is a decorator's.
    """
    asked = set(tests)
    made = [
        (at, path.literals) for at, path in enumerate(event.context.conditions_at_entry) if at >= _frames_ahead(event)
    ]
    behind = [at for at, known in made if not asked.isdisjoint(known)]
    if behind and _by_decorator(event, behind[0], asked):
        behind = behind[1:]
    return [event.context.calls[at - _frames_ahead(event)] for at in behind]


def under_the_test(event: Event, tests: Iterable[Literal]) -> Location:
    """What stands under the first of the tests: the event, or the call that leads to it."""
    return next(iter(calls_behind(event, tests)), event.location)


def _by_decorator(event: Event, at: int, asked: set[Literal]) -> bool:
    """The test stands around whatever function is given to it: that function must change, or how it is decorated."""
    tests = asked & event.context.conditions_at_entry[at].literals
    return event.context.called_by_decorator[at] or all(each.atom.place is None for each in tests)


def first_asked(test: Literal) -> Literal:
    """The test on data of this rank alone that a flag stands for: `stop = True` behind `if isnan(loss):`."""
    for part in test.atom.every + test.atom.none:
        if part.atom.divergence & Divergence.LOCAL:
            return first_asked(part)
    key = test.atom.key
    for binding in key.values.bindings if isinstance(key, OneOf) else ():
        for literal in binding.condition.depending_on(Divergence.LOCAL):
            # A flag may be made of another one; a test of itself is met where loops join.
            return literal if literal.atom == test.atom else first_asked(literal)
    return test


def _place_at(event: Event, depth: int) -> Location:
    """The call by which the way leaves its frame number `depth`, or the event, which lies in the last one."""
    following = depth + 1 - _frames_ahead(event)
    calls = event.context.calls
    # What a library calls by itself stands where the library is called, and not where the author calls anything.
    while 0 < following < len(calls) and calls[following] == calls[following - 1]:
        following += 1
    return calls[following] if 0 <= following < len(calls) else event.location


def _frames_ahead(event: Event) -> int:
    # The frame of the program itself was opened by no call, so there may be more frames than calls.
    return len(event.context.conditions_at_entry) - len(event.context.calls)
