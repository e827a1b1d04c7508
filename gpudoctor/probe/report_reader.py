"""A report from the JSON that an earlier probe wrote, with a word on the first place where it is no such thing."""

from __future__ import annotations

import enum
import math
import types
from collections.abc import Mapping
from typing import Any, Union, get_args, get_origin, get_type_hints

from gpudoctor.errors import UsageError
from gpudoctor.probe.report_json import read_document
from gpudoctor.probe.results import ProbeReport
from gpudoctor.record import fields


class _WrongError(Exception):
    """What is wrong, and in front of it the way that leads there."""


def read_report(path: str) -> ProbeReport:
    """The report in this file.

    Raises UsageError, which names the file and what is wrong, where it is no output of a probe.
    """
    try:
        report: ProbeReport = _record(ProbeReport, read_document(path), "")
    except _WrongError as wrong:
        raise UsageError(f"{path}: is no output of `gpudoctor probe --output-format json`: {wrong}") from None
    return report


def _value(kind: Any, found: Any, at: str) -> Any:
    """What was found, as the type that the field declares."""
    origin = get_origin(kind)
    if origin in (Union, types.UnionType):
        return _one_of(get_args(kind), found, at)
    if origin is tuple:
        return _tuple(get_args(kind), found, at)
    if origin is list:
        return [_value(get_args(kind)[0], each, f"{at}[{i}]") for i, each in enumerate(_checked(found, list, at))]
    if origin is Mapping:
        of = get_args(kind)[1]
        return {name: _value(of, each, f"{at}.{name}") for name, each in _checked(found, dict, at).items()}
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _member(kind, found, at)
    if kind is float:
        # What JSON has no number for is written as null.
        return math.nan if found is None else float(_checked(found, (int, float), at))
    if kind in (int, str, bool):
        return _checked(found, kind, at)
    return _record(kind, found, at)


def _record(kind: Any, found: Any, at: str) -> Any:
    """A record from its entries. Names that are not known come from a later version, which may add some."""
    entries = _checked(found, dict, at or "the document")
    hints = get_type_hints(kind)
    known = {each.name for each in fields(kind)}
    values = {
        name: _value(hints[name], value, f"{at}.{name}" if at else name)
        for name, value in entries.items()
        if name in known
    }
    try:
        return kind(**values)
    except TypeError as error:  # "... missing 2 required positional arguments: 'name' and 'verdict'"
        raise _WrongError(f"{at or 'the document'} lacks{str(error).rpartition(':')[2]}") from None


def _one_of(kinds: tuple[Any, ...], found: Any, at: str) -> Any:
    if found is None and type(None) in kinds:
        return None
    rest = [kind for kind in kinds if kind is not type(None)]
    if len(rest) == 1:
        return _value(rest[0], found, at)
    for kind in rest:
        if type(found) is (get_origin(kind) or kind):
            return _value(kind, found, at)
    # A whole number is a float to JSON, too.
    if float in rest and type(found) is int:
        return float(found)
    raise _WrongError(f"{at} is {_shown(found)}")


def _tuple(kinds: tuple[Any, ...], found: Any, at: str) -> tuple[Any, ...]:
    entries = _checked(found, list, at)
    if kinds[-1] is Ellipsis:
        return tuple(_value(kinds[0], each, f"{at}[{i}]") for i, each in enumerate(entries))
    if len(entries) != len(kinds):
        raise _WrongError(f"{at} has {len(entries)} entries instead of {len(kinds)}")
    return tuple(_value(kind, each, f"{at}[{i}]") for i, (kind, each) in enumerate(zip(kinds, entries, strict=True)))


def _member(kind: type[enum.Enum], found: Any, at: str) -> enum.Enum:
    for each in kind:
        if each.value == found:
            return each
    raise _WrongError(f"{at} is {_shown(found)}, and none of {', '.join(str(each.value) for each in kind)}")


def _checked(found: Any, kind: type | tuple[type, ...], at: str) -> Any:
    if isinstance(found, kind) and (kind is bool or not isinstance(found, bool)):
        return found
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a whole number"}
    wanted = names.get(kind, "a number") if isinstance(kind, type) else "a number"
    raise _WrongError(f"{at} is {_shown(found)} and not {wanted}")


def _shown(found: Any) -> str:
    text = repr(found) if not isinstance(found, (dict, list)) else {dict: "an object", list: "a list"}[type(found)]
    return text if len(text) <= 40 else f"{text[:37]}..."
