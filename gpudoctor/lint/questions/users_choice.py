"""What a line takes from the user's choice, whatever a launch file of the project chooses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.events.process import SettingRead

if TYPE_CHECKING:
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.program import Program


def by_choice(program: Program, event: Event) -> bool:
    """A setting is read in its line: a launch file that starts one process says `--gpus 0`, and others say more."""
    line = event.location.path, event.location.line
    return any((each.location.path, each.location.line) == line for each in program.events(SettingRead))
