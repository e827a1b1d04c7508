"""Names that a process has made from its own clock, or from what else it alone has read."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping

from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import (
    Attribute,
    CallResult,
    ClockReading,
    Item,
    MethodResult,
    Operation,
    OwnReading,
    Setting,
    Widened,
    each_of,
    names_day,
)
from gpudoctor.lint.domain.value import Unknown, Value, text_of
from gpudoctor.lint.events.files import FileEvent
from gpudoctor.lint.events.host_waits import ClockRead
from gpudoctor.lint.events.process import ArgumentDeclared, ReadOwn
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.program import Program

_STEPS = 12
"""How many calls may lie between what was read and the name that is made of it."""


def readings_in_path(program: Program, event: FileEvent) -> Iterator[Hashable]:
    """The identities of the readings (`ReadOwn`, `ClockRead`) that a path was made from."""
    defaults = {each.name: value for each in program.events(ArgumentDeclared) for value in each.default or ()}
    for path in event.path or ():
        yield from _readings_in(path, defaults)


def apart_by_clocks_alone(program: Program, event: FileEvent) -> bool:
    """Ranks have one path, but for the time that each has asked its own clock: often they get the same. No test on the
    way there is about a setting that may be too many things: it may be the rank."""
    if any(isinstance(part, Widened) for test in event.condition for part in provenance_of(test)):
        return False
    clocks = {each.identity for each in program.events(ClockRead)}
    clocks |= {each.identity for each in program.events(ReadOwn) if each.clock}
    parts = [part for path in event.path or () for part in path.in_text if part.divergence]
    found = [set(_readings_in(part, {})) for part in parts]
    return bool(found) and all(each and each <= clocks for each in found)


def _readings_in(path: Value, defaults: Mapping[str, Value]) -> Iterator[Hashable]:
    """What was read for this name; nothing where ranks are to have names of their own, or may have agreed on one."""
    if path.divergence & (Divergence.RANK | Divergence.UNREAD):
        return
    for part in path.in_text:
        source: Value | None = part
        for _ in range(_STEPS):
            if not isinstance(source, Unknown):
                break
            term = source.term
            if isinstance(term, (OwnReading, ClockReading)):
                yield term.occurrence
                break
            # `name += "_x"` under one test after another comes to too many names to keep each.
            if isinstance(term, Widened):
                for each in each_of(source):
                    yield from _readings_in(each, defaults)
                break
            source = defaults.get(term.name) if isinstance(term, Setting) else _made_of(source)


def _made_of(value: Unknown) -> Value | None:
    """What a text was made of, step by step: `now().strftime("%H")[:4]`."""
    match value.term:
        case Item(of) | Attribute(of) | MethodResult(of):
            return _only(of)
        # All ranks start on one day.
        case CallResult(Unknown(Attribute(_, "strftime")), ((ValueSet() as form,), _)) if names_day(
            text_of(form.single) or "%f"
        ):
            return None
        case CallResult(Unknown() as method):
            return _made_of(method)
        case CallResult(str(), (ValueSet() as first, *_)):
            return _only(first.single)
        case Operation(_, left, right):
            return left if left.divergence else right
    return None


def _only(value: Value | None) -> Value | None:
    """Of a text the part that ranks may disagree about."""
    return next((each for each in value.in_text if each.divergence), None) if value is not None else None
