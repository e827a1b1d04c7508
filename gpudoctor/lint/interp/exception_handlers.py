"""Which handlers take an exception: a question about the classes of both."""

from __future__ import annotations

import ast
from collections.abc import Iterable

from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.function import Class, Library, library_name_of
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.process import exception
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.manifest.compiled import error_above

_IMPORT_ERRORS = frozenset({"ImportError", "ModuleNotFoundError"})
_PREFIX = "builtins."


def error_named(m: Evaluator, node: ast.expr | None) -> str:
    """Python's own exception that `raise` names; empty where it is another one, or not known."""
    named = node.func if isinstance(node, ast.Call) else node
    # Anything else is made somewhere, and would be made once more.
    if not isinstance(named, (ast.Name, ast.Attribute)):
        return ""
    with m.events_suppressed():
        name = library_name_of(m.evaluate(named).single).removeprefix(_PREFIX)
    return name if exception(name) is not None else ""


def reached(m: Evaluator, handlers: list[ast.ExceptHandler], errors: Iterable[str]) -> list[ast.ExceptHandler]:
    """The handlers that may run where the block surely ends in one of these errors: Python takes the first one that
    fits."""
    raised = set(errors)
    if not raised or "" in raised:
        return [handler for handler in handlers if not cannot_happen(handler)]
    found: list[ast.ExceptHandler] = []
    for handler in handlers:
        taken = {_takes(m, handler, error) for error in raised}
        if taken != {False}:
            found.append(handler)
        if taken == {True}:
            break
    return found


def _takes(m: Evaluator, handler: ast.ExceptHandler, error: str) -> bool | None:
    """It catches this exception of Python's; None where that is not known."""
    if handler.type is None:
        return True
    with m.events_suppressed():
        kinds = [kind for value in m.evaluate(handler.type) for kind in _kinds(value)]
    answers = {_is_above(kind, error) for kind in kinds}
    return True if True in answers else None if None in answers or not answers else False


def _kinds(value: Value) -> list[Value]:
    return [kind for item in value.items for kind in item] if isinstance(value, TupleOf) else [value]


def _is_above(kind: Value, error: str) -> bool | None:
    # What a program defines itself is above none of Python's own.
    if isinstance(kind, Class):
        return False
    if not isinstance(kind, Library):
        return None
    above, raised = exception(kind.name.removeprefix(_PREFIX)), exception(error)
    if above is not None and raised is not None:
        return issubclass(raised, above)
    # `socket.error` is another name of one that Python has.
    return None if raised is not None and issubclass(raised, OSError) else False


def errors_taken(m: Evaluator, handler: ast.ExceptHandler) -> tuple[str, ...]:
    """The exceptions that a handler names, Python's own and those of stubs, with which it takes those below them."""
    if handler.type is None:
        return ("BaseException",)
    with m.events_suppressed():
        kinds = [kind for value in m.evaluate(handler.type) for kind in _kinds(value)]
    names = (library_name_of(kind).removeprefix(_PREFIX) for kind in kinds)
    return tuple(name for name in names if exception(name) is not None or error_above(name))


def cannot_happen(handler: ast.ExceptHandler) -> bool:
    """An import is assumed to succeed: the program is read as it is meant to run."""
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    names = {kind.id for kind in kinds if isinstance(kind, ast.Name)}
    return bool(names) and names <= _IMPORT_ERRORS
