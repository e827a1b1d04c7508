"""Records as JSON, and back: a known `Field` is its value, a missing one says why."""

from __future__ import annotations

import enum
import sys
import types
import typing
from collections.abc import Iterable
from functools import cache
from typing import Any, TypeVar, Union

from gpudoctor.probe.inventory.field import Absence, Field
from gpudoctor.record import fields

T = TypeVar("T")
_MISSING = "not_available"
_KIND = "kind"


def to_plain(value: object) -> Any:
    """What `json.dumps` can write of a record, with everything below it."""
    if isinstance(value, Field):
        return to_plain(value.value) if value.known else {_MISSING: value.why_not, _KIND: value.absence.value}
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, tuple | list):
        return [to_plain(each) for each in value]
    if isinstance(value, dict):
        return {str(key): to_plain(each) for key, each in value.items()}
    if value is None or isinstance(value, str | int | float | bool):
        return value
    return {each.name: to_plain(getattr(value, each.name)) for each in _fields(value)}


def from_plain(kind: type[T], data: Any) -> T:
    """The record of class `kind` that `to_plain` has written. Keys that are not known are passed over."""
    made: T = _read(kind, data)
    return made


def _read(kind: Any, data: Any) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin is Field:
        if isinstance(data, dict) and _MISSING in data:
            return Field(None, data[_MISSING], Absence(data.get(_KIND, Absence.FAILED.value)))
        return Field(_read(arguments[0], data))
    if origin in (Union, types.UnionType):
        return None if data is None else _read(next(each for each in arguments if each is not type(None)), data)
    if origin is tuple:
        kinds: Iterable[Any] = arguments[:1] * len(data) if arguments[-1] is Ellipsis else arguments
        return tuple(_read(each, one) for each, one in zip(kinds, data, strict=True))
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return kind(data)
    if kind in (str, int, bool, float):
        return data
    return kind(**{name: _read(each, data[name]) for name, each in _kinds(kind).items() if name in data})


@cache
def _kinds(kind: type) -> dict[str, Any]:
    hints = typing.get_type_hints(kind, vars(sys.modules[kind.__module__]))
    return {each.name: hints[each.name] for each in _record_fields(kind)}


def _fields(value: object) -> Iterable[Any]:
    return fields(value)  # type: ignore[arg-type]


def _record_fields(kind: type) -> Iterable[Any]:
    return fields(kind)
