"""Ranks that wait at a barrier while others do something."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.program import only_some_ranks

if TYPE_CHECKING:
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.program import Program


def others_wait(program: Program, event: Event) -> bool:
    """The last barrier before it is for some ranks only: the others come there later, or went ahead."""
    barriers = [each for each in program.events(Collective) if each.order < event.order and each.waits]
    return bool(barriers) and only_some_ranks(barriers[-1])
