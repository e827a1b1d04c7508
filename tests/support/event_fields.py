"""What the fields of events hold: what their annotations say, for which rules ask no more."""

import contextlib
import importlib
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

import gpudoctor.lint.domain
import gpudoctor.lint.events
from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interp.execution_state import ExecutionState


@contextlib.contextmanager
def events_hold_what_their_fields_say() -> Iterator[None]:
    """Inside, each event that is logged is held to its annotations; what differs is an error at the end."""
    wrong = set[str]()
    emit = ExecutionState.emit

    def checked(state: ExecutionState, kind: type[Event], /, *, at: Location | None = None, **fields: object) -> None:
        for name, kinds in _allowed_in(kind).items():
            held = fields.get(name)
            # `frozenset[Loader | Mark]` is said of each that it holds, and so is `ValueSet[Device | Unknown]`.
            of = held if isinstance(held, (frozenset, ValueSet)) else [held] if name in fields else []
            wrong.update(f"{kind.__name__}.{name}: {type(each).__name__}" for each in of if not isinstance(each, kinds))
        emit(state, kind, at=at, **fields)

    ExecutionState.emit = checked  # type: ignore[assignment]
    try:
        yield
    finally:
        ExecutionState.emit = emit  # type: ignore[method-assign]
    assert not wrong, sorted(wrong)


_OF_EACH = (frozenset, ValueSet)


@cache
def _allowed_in(kind: type[Event]) -> dict[str, tuple[type, ...]]:
    """The classes of values that each field allows which names any."""
    hints = get_type_hints(kind, localns=_names())
    return {name: kinds for name, hint in hints.items() if (kinds := _kinds(hint))}


@cache
def _names() -> dict[str, Any]:
    """What the annotations of events may name, of which much is imported for type checkers alone."""
    found: dict[str, Any] = {"Location": Location}
    for package in (gpudoctor.lint.domain, gpudoctor.lint.events):
        for module in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            found |= vars(importlib.import_module(module.name))
    return found


def _any_of(hint: object) -> tuple[object, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else ()


def _kinds(hint: object) -> tuple[type, ...]:
    """The classes that an annotation allows; none where it names no kind of value."""
    parts = _any_of(hint) or (hint,)
    parts = [part for each in parts for part in (get_args(each) if get_origin(each) in _OF_EACH else (each,))]
    kinds = [kind for each in parts for kind in (_any_of(each) or (each,)) if isinstance(kind, type)]
    narrow = any(each.__module__.startswith("gpudoctor.lint.domain") and each is not Value for each in kinds)
    return tuple(kinds) if narrow else ()
