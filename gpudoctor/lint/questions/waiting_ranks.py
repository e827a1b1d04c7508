"""Ranks that wait at a barrier while others do something, or have not begun."""

from __future__ import annotations

from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.event_context import Event, only_some_ranks
from gpudoctor.lint.program import Program


def others_wait(program: Program, event: Event) -> bool:
    """The last barrier before it is for some ranks only: the others come there later, or went ahead."""
    last: Collective | None = None
    for each in program.events(Collective):
        if each.order < event.order and each.waits and not each.condition.excludes(event.condition):
            # `if rank > 0: barrier()`, then `if rank == 0: barrier()`: with the second one all go on.
            met = last is not None and last.condition.excludes(each.condition)
            last = each if only_some_ranks(each) and not met else None
    return last is not None


def others_begin_later(program: Program, event: Event) -> bool:
    """The framework starts the other processes only behind it, unless a launcher does: one has done it before them."""
    begun = next((each for each in program.events(Collective) if each.effect.starts), None)
    return begun is not None and event.order < begun.order and not program.documented.launchers_naming_it()
