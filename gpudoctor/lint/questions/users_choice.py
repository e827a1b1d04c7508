"""What a line takes from the user's choice, whatever a launch file of the project chooses."""

from __future__ import annotations

from gpudoctor.lint.domain.symbols import Compares, asked_of
from gpudoctor.lint.domain.value import Const, Unknown, Value
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.process import SettingRead
from gpudoctor.lint.flow.condition import Atom, Literal
from gpudoctor.lint.program import Program


def by_choice(program: Program, event: Event, handed_on: bool = False) -> bool:
    """A setting is read in its line: a launch file that starts one process says `--gpus 0`, and others say more.

    With `handed_on`, also in the line of the call that leads there: `select_device(args.device)`."""
    places = (event.location, *(event.context.calls[-1:] if handed_on else ()))
    lines = {(place.path, place.line) for place in places}
    return any((each.location.path, each.location.line) in lines for each in program.events(SettingRead))


def more_than_one(number: Value | None) -> list[Literal]:
    """What it takes for a number that the user chooses to be more than one: of most, the default is 1."""
    if not isinstance(number, Unknown):
        return []
    return [Literal(Atom(Compares("==", number, Const(1)), text=f"{number.label} == 1", switch=True), False)]


def takes_unset(program: Program, event: Event) -> bool:
    """Its path takes a setting that is no option of the command line, and off until somebody sets it."""
    unset = {key for key, option in program.options.items() if not option.flag.startswith("-")}
    return any(program.comes_to(each) is False and not unset.isdisjoint(asked_of(each)) for each in event.condition)
