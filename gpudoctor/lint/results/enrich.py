"""What is said of each finding after the rules have spoken, whichever rule it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpudoctor.diagnostic import Finding, Location, Related, Severity
from gpudoctor.lint.domain.module import WrapperKind
from gpudoctor.lint.domain.symbols import IsTrue, Widened, WrittenSwitch
from gpudoctor.lint.domain.value import Unknown, Value, single_of
from gpudoctor.lint.events.acting_place import entered
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.model import Wrap
from gpudoctor.lint.events.option_defaults import flags_in, is_emptied, only_where, only_with
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.program import Program
from gpudoctor.lint.questions.users_choice import more_than_one
from gpudoctor.record import fields, replace


def told(findings: Sequence[Finding], program: Program) -> Iterator[Finding]:
    """The findings of one rule, as they are reported for this program."""
    switches = tuple(_switches_of(program))
    for finding in _at_their_callers(findings, program):
        if _is_of_one_process(finding, program) or _is_of_no_text(finding, program):
            continue
        led = _doubted(_led_to(_in_its_world(finding, program), program), program)
        led = _where_options_lead(led, program)
        yield replace(led, related=(*led.related, *switches)) if switches else led


def _switches_of(program: Program) -> Iterator[Related]:
    """Where the author says that there are several processes."""
    for key, holds in program.assumptions.switches.items():
        match key:
            case IsTrue(Unknown(WrittenSwitch(name, at))) if holds:
                yield Related(f"several processes train where `{name}` is `True`", at)


def _at_their_callers(findings: Sequence[Finding], program: Program) -> Iterator[Finding]:
    """Each mistake once: in a helper that does right for other callers, at the call."""
    wrong = {event.led_there for event, _ in filter(None, map(_blamed, findings))}
    told: set[tuple[Location, Location]] = set()
    for finding in findings:
        blamed = _blamed(finding)
        if blamed is None:
            yield finding
            continue
        event, guarded = blamed
        others = [each for each in program.at(event.location) if type(each) is type(event)]
        # What one process alone may do says nothing of several.
        alone = program.by_one_process(event)
        others = [each for each in others if program.by_one_process(each) is alone]
        right = (each for each in others if each.led_there not in wrong and (each.rank_guards or not guarded))
        place = entered(event, right)
        if finding.location == event.location != place:
            happens = Related("and here it happens", event.location)
            finding = replace(
                _doubted(finding, program),
                location=place,
                related=(*(each for each in finding.related if each.location != place), happens),
                cause=finding.cause or event.location,
                # It would change the helper, which is right.
                repair=None,
            )
        if (finding.location, event.location) not in told:
            told.add((finding.location, event.location))
            yield replace(finding, by=None)


def _blamed(finding: Finding) -> tuple[Event, bool] | None:
    event, guarded = finding.by or (None, False)
    return (event, guarded) if isinstance(event, Event) else None


def _doubted(finding: Finding, program: Program) -> Finding:
    """Likely at most, where the program was cut or a value behind it was given up; and no error of a run that nobody is
    seen to begin."""
    doubt = _doubt_at(finding.location, [each.location for each in finding.related], program)
    unsure = doubt == _NOT_STARTED and finding.severity is Severity.ERROR
    return replace(finding, doubt=finding.doubt or doubt, severity=Severity.WARNING if unsure else finding.severity)


_NOT_STARTED = "No program that was read gets here."


def _doubt_at(place: Location, related: Sequence[Location], program: Program) -> str:
    """Why what happens there is not sure although it was seen, as a sentence; empty where it is. `related` are the
    other places that a finding names."""
    # pytest calls the functions of a test.
    if not program.has_entry and not program.only_tests:
        return _NOT_STARTED
    if program.stops:
        return "The program was not followed to its end: what comes later may change this."
    if any(map(_holds_too_many, program.at(place))):
        return "One of its values may be too many things to follow each of them."
    if not program.guesses:
        return ""
    named = {place, *related, *(each for event in program.at(place) for each in _made_at(event))}
    found = next((guess for at, guess in program.guesses.items() if at in named), None)
    return f"`{found.name}` is taken for {found.means} by its name." if found is not None else ""


def _holds_too_many(event: Event) -> bool:
    """A value of it stands for more alternatives than are followed one by one."""
    held = (getattr(event, each.name) for each in fields(event))
    return any(each.any(lambda value: isinstance(value.term, Widened)) for each in held if isinstance(each, ValueSet))


def _made_at(event: Event) -> Iterator[Location]:
    """Where the values of an event were made, and what a loader goes over."""
    for name in (each.name for each in fields(event)):
        held = getattr(event, name)
        for value in held if isinstance(held, ValueSet) else (held,):
            place = getattr(value, "place", None)
            if place is not None:
                yield place
            for inside in (getattr(value, "dataset", None), getattr(value, "sampler", None)):
                for part in inside if isinstance(inside, ValueSet) else ():
                    if getattr(part, "place", None) is not None:
                        yield part.place


def _is_of_one_process(finding: Finding, program: Program) -> bool:
    """`if args.submit: write(); return`, of an option that launch files give to a single process alone: whoever trains
    in several processes does not come by."""
    if not program.options_of_one:
        return False
    ways = program.ways_to(finding.location, [related.location for related in finding.related])
    return bool(ways) and all(any(_is_asked_of_one(each, program) for each in way) for way in ways)


def _is_of_no_text(finding: Finding, program: Program) -> bool:
    """`name = args.name or str(datetime.now())`, of an option that has a name by default."""
    asked = program.asked_at(finding.location, [related.location for related in finding.related])
    return any(is_emptied(each, program.options) for each in asked)


def _in_its_world(finding: Finding, program: Program) -> Finding:
    """A program that starts processes uses `DataParallel` where it starts none, whatever else was followed there."""
    if program.world is not LaunchWorld.SPAWN:
        return finding
    places = (finding.location, *(related.location for related in finding.related))
    wraps = (event for place in places for event in program.at(place) if isinstance(event, Wrap))
    alone = any(wrap.kind is WrapperKind.DATA_PARALLEL and program.by_one_process(wrap) for wrap in wraps)
    return replace(finding, world=LaunchWorld.SINGLE.value) if alone else finding


def _is_asked_of_one(literal: Literal, program: Program) -> bool:
    trains_without = literal.negated() in program.taken_on
    return trains_without and not program.options_of_one.isdisjoint(flags_in(literal, program.options))


def _where_options_lead(finding: Finding, program: Program) -> Finding:
    """With the options without which it does not happen: then it is no error of each run."""
    led = program.asked_at(finding.location, [related.location for related in finding.related])
    given = [each for each in finding.needs if isinstance(each, (Literal, Value)) and each not in program.taken_on]
    asked = list(dict.fromkeys([*led, *given, *_asked_of_trainer(program)]))
    unusual = [each for each in asked if program.comes_to(each) is False]
    # Of `amp and clip` the parts follow, and say more.
    parts = {part for each in unusual if isinstance(each, Literal) and each.holds for part in each.atom.every}
    told = [
        each for each in unusual if not (isinstance(each, Literal) and each.holds) or parts.isdisjoint(each.atom.every)
    ]
    texts = only_with(told, program.options, MOST_OPTIONS)
    # What the user must say anyway may be the usual one.
    severity = Severity.WARNING if texts and finding.severity is Severity.ERROR else finding.severity
    tests = dict.fromkeys([*led, *(each for each in given if isinstance(each, Literal))])
    texts = texts or only_where(tests, program.options)[:MOST_OPTIONS]
    if not texts:
        return replace(finding, needs=()) if finding.needs else finding
    flags = tuple(flags_in(each, program.options) for each in told)
    return replace(finding, message=" ".join((finding.message, *texts)), severity=severity, needs=flags)


def _asked_of_trainer(program: Program) -> list[Literal]:
    """`Trainer(devices=args.devices, strategy="ddp")` starts as many processes as the user says."""
    makers = [event for event in program.events(UseManaged) if event.several]
    counts = {single_of(event.given.keywords.get("devices")) for event in makers}
    if len(counts) != 1 or program.started_in_several:
        return []
    return more_than_one(next(iter(counts)))


MOST_OPTIONS = 2
"""Options that a finding names: one of them is mostly enough to be spared."""


def _led_to(finding: Finding, program: Program) -> Finding:
    """With a place in the file that was asked for, where it stands in others alone: the call that leads there."""
    places = [finding.location, *(related.location for related in finding.related)]
    if any(place.path == program.entry for place in places):
        return finding
    call = next((call for place in places if (call := _call_to(place, program)) is not None), None)
    if call is None:
        return finding
    return replace(finding, related=(Related("this call leads there", call), *finding.related))


def _call_to(place: Location, program: Program) -> Location | None:
    """The innermost call in the file of the entry, on the first way to what happens at a place."""
    for event in program.at(place):
        for call in reversed(event.context.calls):
            if call.path == program.entry:
                return call
    return None
