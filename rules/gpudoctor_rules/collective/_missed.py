"""Which of the steps of all ranks some miss: a rank that leaves its loop or function, or one that calls what the others
do not come to."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from gpudoctor.lint.events.collective import Collective, LeaveLoop
from gpudoctor.lint.events.event_context import Event, Loop
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.process import InitGroup
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Condition, Literal
from gpudoctor.lint.questions.asked_in_tests import asks_for_one_round
from gpudoctor.lint.questions.loop_counters import in_last_round_of
from gpudoctor.rule import Program
from gpudoctor_rules.collective._sides import Alone, reached_alone
from gpudoctor_rules.collective._together import JointStep


def missed_by(leaving: LeaveLoop, steps: Iterable[JointStep]) -> JointStep | None:
    """What the rank that leaves does not take part in: the next such step that all others come to, or the first that
    they may come to. It may be one of a later round."""
    # Asked once: a program may leave its loops at hundreds of places, and each is held against each step.
    stay, options = _of_those_who_stay(leaving), leaving.choices
    missed = [
        step for step in steps if _skips(leaving, step.event, stay) and not options.excludes(step.event.condition)
    ]
    # A later step is met first; one that stands before it is reached in the next round.
    missed.sort(key=lambda step: (step.event.order < leaving.order, step.event.order))
    # `if args.evaluate: gather(...)` stands before the next backward, and may be left out.
    sure = (step for step in missed if _is_met(step.event, leaving))
    return next(sure, missed[0] if missed else None)


def _is_met(step: Event, leaving: LeaveLoop) -> bool:
    """All that do not leave come there."""
    stays = {each.negated() for each in leaving.condition}
    return stays.issuperset(step.condition.difference(leaving.condition))


def called_instead(program: Program, leaving: LeaveLoop, missed: JointStep) -> Collective | None:
    """The collective that a rank calls before it leaves, in place of the one that it misses."""
    # `if first_time: start(); all_gather(p); continue` before `work(); all_gather(p)`: each rank calls one.
    for event in program.events(Collective):
        same_call = isinstance(missed.event, Collective) and event.call == missed.event.call
        if same_call and event.order < leaving.order and _on_its_way(event, leaving, missed):
            return event
    return None


def _on_its_way(event: Collective, leaving: LeaveLoop, missed: JointStep) -> bool:
    """Who leaves has called it, perhaps in a helper, whose tests are those of the other call."""
    own = event.context.frames[: len(leaving.context.frames)] == leaving.context.frames
    extra = event.condition.difference(leaving.condition)
    return own and event.condition.implies(leaving.condition) and missed.event.condition.implies(extra)


def _skips(leaving: LeaveLoop, step: Event, stay: Condition) -> bool:
    later = step.order > leaving.order
    # Outside of loops no test comes out anew: `if demo: return` leaves nobody at what stands under `else`.
    if leaving.loop is None and step.condition.excludes(stay):
        return False
    # After the end of the program nothing more is called.
    if leaving.how == "exit":
        return later
    # A step in a deeper call counts as well: the function that was left would have made it.
    if (
        leaving.how == "return"
        and later
        and step.context.frames[: len(leaving.context.frames)] == leaving.context.frames
    ):
        return True
    there = _round_of(leaving.loop, step) if leaving.loop is not None else None
    if leaving.loop is None or there is None:
        return False
    # A round that is cut short misses what comes later in it; a loop that is left misses every later round, but what is
    # done in one round alone, as where `step + 1 == len(loader)`, lies behind it.
    if later and there == _round_of(leaving.loop, leaving):
        return True
    # Nobody makes a round after the last one.
    if in_last_round_of(leaving.loop, leaving.condition):
        return False
    once = {guard.atom.place for guard in leaving.condition if asks_for_one_round(guard)}
    alike = (guard.atom.place for guard in step.condition if asks_for_one_round(guard))
    return leaving.how != "continue" and once.isdisjoint(alike)


def _of_those_who_stay(leaving: LeaveLoop) -> Condition:
    """What all have passed before the test that parts them."""
    parting = {*leaving.rank_guards, *leaving.local_guards}
    return Condition(frozenset(guard for guard in leaving.condition if guard not in parting))


def _round_of(loop: Loop, event: Event) -> int | None:
    return next((each.pass_ for each in event.loops if each.identity == loop.identity), None)


def lonely_collectives(program: Program) -> list[Alone[Collective]]:
    """The collectives of all ranks that some ranks only get to, by the place where their authors act."""
    members = _tests_of_members(program)
    calls = [
        event
        for event in program.events(Collective)
        # To make a group has a rule of its own. Another one may have just those members that get here.
        if event.of_all_ranks and not event.uneven and not event.makes_group
        if not (event.rank_guards and all(guard in members for guard in event.rank_guards))
        if not (event.rank_guards and _may_be_met(program, event))
    ]
    # Who is served by code that was not read may still be the partner of what was read.
    return [each for each in reached_alone(calls, _kind) if not all(_is_served(program, event) for event in each[1])]


def _may_be_met(program: Program, event: Collective) -> bool:
    """A limit ended what was followed inside of the same function, before anything else in which all ranks take part:
    the call of the others may stand behind it."""
    stop = next((each for each in program.stops if each.order > event.order), None)
    if stop is None or event.context.frames[-1] not in stop.context.frames:
        return False
    between = (each for each in program.events(Collective, Wrap, Backward) if event.order < each.order < stop.order)
    return all(each.rank_guards for each in between)


def _tests_of_members(program: Program) -> list[Literal]:
    """Who passes these makes the group, and says how many that are: the other ranks have left before, and are none of
    its members."""
    made = [event for event in program.events(InitGroup) if event.world_size is not None]
    return [guard for event in made for guard in event.rank_guards]


def _is_served(program: Program, event: Collective) -> bool:
    """A loop of these ranks alone, in which they wait for what code that was not read lets the others call: the handler
    of a page, `button.click(fn=generate)`, sends out what is to be done."""
    waits = [list(program.during(loop, Collective)) for loop in event.loops if not loop.source]
    theirs = [guard for guard in event.rank_guards for calls in waits if all(guard in each.condition for each in calls)]
    return any(guard.negated() in each.condition for guard in theirs for each in program.events(Escape))


# By name: a `broadcast` does not answer an `all_reduce`, though either may seem to work.
def _kind(event: Collective) -> Hashable:
    return event.call
