"""What is said of each finding after the rules have spoken, whichever rule it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Confidence, Related, Severity
from gpudoctor.lint.events.acting_place import entered
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.program import needed
from gpudoctor.record import replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from gpudoctor.diagnostic import Finding, Location
    from gpudoctor.lint.program import Program


def told(finding: Finding, program: Program) -> Finding:
    """The finding, as it is reported for this program."""
    return _doubted(_where_options_lead(_led_to(finding, program), program), program)


def at_their_callers(findings: Iterable[Finding], program: Program) -> Iterator[Finding]:
    """The findings of one rule, each mistake once: in a helper that does right for other callers, at the call."""
    findings = list(findings)
    wrong = {event.led_there for event, _ in filter(None, map(_blamed, findings))}
    told: set[tuple[Location, Location]] = set()
    for finding in findings:
        blamed = _blamed(finding)
        if blamed is None:
            yield finding
            continue
        event, guarded = blamed
        others = (each for each in program.at(event.location) if type(each) is type(event))
        right = (each for each in others if each.led_there not in wrong and (each.rank_guards or not guarded))
        # What one process alone may do says nothing of several.
        alone = program.by_one_process(event)
        place = entered(event, (each for each in right if program.by_one_process(each) is alone))
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
    """Likely at most, where the program was cut or a value behind it was given up."""
    doubt = program.doubt_at(finding.location, *(each.location for each in finding.related))
    if not doubt or finding.confidence is Confidence.LIKELY:
        return finding
    return replace(finding, confidence=Confidence.LIKELY, doubt=doubt)


def _where_options_lead(finding: Finding, program: Program) -> Finding:
    """With the options without which it does not happen: then it is no error of each run."""
    texts = needed(program, finding)
    if not texts:
        return replace(finding, needs=()) if finding.needs else finding
    severity = Severity.WARNING if finding.severity is Severity.ERROR else finding.severity
    return replace(finding, message=" ".join((finding.message, *texts)), severity=severity, needs=())


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
