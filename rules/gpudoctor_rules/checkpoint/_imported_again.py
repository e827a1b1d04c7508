"""Processes that write what the one that starts them has written already."""

from __future__ import annotations

from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.process import Spawn
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.rule import Program


def importing(program: Program, event: Event) -> Spawn | None:
    """What starts processes each of which does this again when it imports the program; None where none does."""
    told_apart = event.condition.divergence & (Divergence.RANK | Divergence.UNREAD)
    # New processes know `__main__.py` and do not import it again, and nothing imports a notebook.
    imported = event.context.on_import and not program.entry.endswith(("__main__.py", ".ipynb"))
    if not program.whole or not program.spawned or not imported or told_apart:
        return None
    return next((spawn for spawn in program.events(Spawn) if spawn.imports and spawn.guarded), None)
