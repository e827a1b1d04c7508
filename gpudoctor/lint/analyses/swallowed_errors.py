"""Handlers that catch errors of all kinds, and after which nobody is told that there was one."""

from __future__ import annotations

import ast

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import Const
from gpudoctor.lint.events.collective import LeaveLoop
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.process import Caught, Swallowed
from gpudoctor.lint.interface.hooks import HOOKS, Handled, told
from gpudoctor.lint.interface.library_call import LibraryContext
from gpudoctor.lint.source.syntax_walk import nodes_of, walk

CATCH_ALL = frozenset({"Exception", "BaseException"})
SHOW_ERRORS = ("traceback.", "logging.", "builtins.", "loguru.", "warnings.", "sys.stderr", "sys.stdout")
"""Who shows an error tells the launcher nothing."""


def _catches_all(handler: ast.ExceptHandler) -> bool:
    """Errors of any kind come here."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(kind is None or (isinstance(kind, ast.Name) and kind.id in CATCH_ALL) for kind in kinds)


@told(HOOKS.handled)
def _note_swallowed(do: LibraryContext, handled: Handled, place: Location) -> None:
    if handled.errors and (handled.goes_on or handled.returned):
        # Who names the error, or passes over it, has expected it.
        reports = _catches_all(handled.handler) and bool(nodes_of(ast.Call, handled.handler))
        do.emit(
            Caught, at=place, errors=handled.errors, tried=handled.tried, reports=reports, leaves=not handled.goes_on
        )
    if _catches_all(handled.handler) and _swallows(handled):
        do.emit(Swallowed, at=place, since=handled.since, until=handled.until)


def _swallows(handled: Handled) -> bool:
    """The handler goes on, or ends the function or the process, and keeps nothing of the error."""
    ends = any(isinstance(event, LeaveLoop) and event.how == "exit" for event in handled.events)
    # A `raise` under a test may be the one for errors that count.
    if any(isinstance(each, (ast.Raise, ast.Global, ast.Nonlocal)) for each in walk(handled.handler)):
        return False
    # `failed = True`, `return 1` and `queue.put(error)` may tell somebody.
    kept = handled.writes > (1 if handled.handler.name else 0)
    told = any(isinstance(event, Escape) and not event.into.startswith(SHOW_ERRORS) for event in handled.events)
    answered = any(not values.all(lambda value: value == Const(None)) for values in handled.returned)
    return (handled.goes_on or bool(handled.returned) or ends) and not (kept or told or answered)
