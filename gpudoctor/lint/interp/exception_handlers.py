"""Handlers that catch errors of all kinds, and after which nobody is told that there was one."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.value import Const
from gpudoctor.lint.events.collective import LeaveLoop
from gpudoctor.lint.events.knowledge import Escape

if TYPE_CHECKING:
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.interp.position import PathExit

CATCH_ALL = frozenset({"Exception", "BaseException"})
SHOW_ERRORS = ("traceback.", "logging.", "builtins.", "loguru.", "warnings.", "sys.stderr", "sys.stdout")
"""Who shows an error tells the launcher nothing."""


def catches_all(handler: ast.ExceptHandler) -> bool:
    """Errors of any kind come here."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in CATCH_ALL) for kind in kinds)


def swallows_errors(
    handler: ast.ExceptHandler, side: PathExit | None, left: list[PathExit], events: list[Event]
) -> bool:
    """The handler goes on (`side`), or ends the function (`left`) or the process, and keeps nothing of the error."""
    ends = any(isinstance(event, LeaveLoop) and event.how == "exit" for event in events)
    # A `raise` under a test may be the one for errors that count.
    if any(isinstance(each, (ast.Raise, ast.Global, ast.Nonlocal)) for each in ast.walk(handler)):
        return False
    # `failed = True`, `return 1` and `queue.put(error)` may tell somebody.
    kept = side is not None and len(side.writes) > (1 if handler.name else 0)
    told = any(isinstance(event, Escape) and not event.into.startswith(SHOW_ERRORS) for event in events)
    answered = any(not each.value.all(lambda value: value == Const(None)) for each in left)
    return (side is not None or bool(left) or ends) and not (kept or told or answered)
