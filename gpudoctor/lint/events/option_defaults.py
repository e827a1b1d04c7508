"""What command line options are where the user leaves them out, and what tests come to then."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from gpudoctor.lint.domain.symbols import Compares, IsTrue, Operation, Setting, asked_of
from gpudoctor.lint.domain.value import Const, Truth, Unknown, Value
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.lint.events.process import ArgumentDeclared

Asked = Literal | Value
"""A test with the answer that it needs, or a value that must be true."""


@dataclass(frozen=True)
class Option:
    """A command line option: its flag, and what it is without it."""

    flag: str
    default: Any
    switch: bool = False
    """It takes no value: there or not."""


def options_of(declared: Iterable[ArgumentDeclared]) -> dict[str, Option]:
    """The options whose default is known, by the name of their attribute."""
    found: dict[str, list[Option | None]] = {}
    for event in declared:
        only = event.left_out
        flag = next((flag for flag in event.flags if flag.startswith("--")), "")
        known = Option(flag, only.value, event.switch) if isinstance(only, Const) and flag else None
        found.setdefault(event.name, []).append(known)
    # Declared twice with different defaults, it is not known which one holds.
    alike = {name: each[0] for name, each in found.items() if all(other == each[0] for other in each)}
    return {name: option for name, option in alike.items() if option is not None}


def comes_to(asked: Asked, options: Mapping[str, Option]) -> bool | None:
    """Whether it is so where every option is left out; None where that is not known."""
    if isinstance(asked, Literal):
        answer = _answer(asked, options)
        return None if answer is None else answer is asked.holds
    if isinstance(asked, Truth):
        return comes_to(asked.literal, options)
    known = _value(asked, options)
    return None if known is None else bool(known.value)


def only_with(asked: Iterable[Asked], options: Mapping[str, Option], most: int) -> list[str]:
    """What the user must say for all this to be so, where it is not without: a sentence for each kind of option.

    Of more than `most` options or tests only the first are told."""
    alone: dict[_Off, list[Option]] = {}
    several: list[str] = []
    for found in list(dict.fromkeys(_options_in(each, options) for each in asked))[:most]:
        if len(found) == 1:
            alone.setdefault(_off(found[0]), []).append(found[0])
        else:
            several.append(f"Only with other values of {_flags(found)} than the defaults.")
    return [_said(how, found) for how, found in alone.items()] + several


class _Off(enum.Enum):
    """What an option is without its flag."""

    OFF = "off"
    ON = "on"
    MISSING = "not given"
    OTHER = "a value"


def _options_in(asked: Asked, options: Mapping[str, Option]) -> tuple[Option, ...]:
    return tuple({options[name].flag: options[name] for name in _names(_keys(asked)) if name in options}.values())


def _off(option: Option) -> _Off:
    if option.switch or option.default is False:
        return _Off.OFF
    if option.default is True:
        return _Off.ON
    return _Off.MISSING if option.default in (None, "") else _Off.OTHER


def _said(how: _Off, found: list[Option]) -> str:
    verb = "is" if len(found) == 1 else "are"
    if how is _Off.OFF:
        return f"Only with {_flags(found)}, which {verb} off by default."
    if how is _Off.ON:
        return f"Only where {_flags(found)} {verb} off, which {verb} on by default."
    if how is _Off.MISSING:
        return f"Only with {_flags(found)}, which {verb} not given by default."
    others = ", and ".join(f"another `{each.flag}` than the default, `{each.default}`" for each in found)
    return f"Only with {others}."


def _flags(found: Iterable[Option]) -> str:
    return " and ".join(f"`{option.flag}`" for option in found)


def _answer(literal: Literal, options: Mapping[str, Option]) -> bool | None:
    atom = literal.atom
    if atom.every or atom.none:
        decisive = bool(atom.none)
        answers = [comes_to(part, options) for part in atom.every or atom.none]
        if decisive in answers:
            return decisive
        return None if None in answers else not decisive
    match atom.key:
        case IsTrue(value):
            known = _value(value, options)
            return None if known is None else bool(known.value)
        case Compares(operator, left, right) if operator in _TESTS:
            return _compared(operator, _value(left, options), _value(right, options))
    return None


def _compared(operator: str, left: Const | None, right: Const | None) -> bool | None:
    if left is None or right is None:
        return None
    try:
        return bool(_TESTS[operator](left.value, right.value))
    # `args.lr > 0` with a text for a default raises in the program, too.
    except (TypeError, ValueError):
        return None


_TESTS: Mapping[str, Any] = {
    "==": lambda one, other: one == other,
    "<": lambda one, other: one < other,
    ">": lambda one, other: one > other,
}


def _value(value: Value, options: Mapping[str, Option]) -> Const | None:
    if isinstance(value, Const):
        return value
    match value.term if isinstance(value, Unknown) else None:
        case Setting(name):
            option = options.get(name)
            return None if option is None else Const(option.default)
        # `step % args.every` is 0 in each step where that is 1.
        case Operation("%", _, divisor) if _value(divisor, options) == Const(1):
            return Const(0)
    return None


def _keys(asked: Asked) -> Iterator[Hashable]:
    if isinstance(asked, Truth):
        asked = asked.literal
    if not isinstance(asked, Literal):
        yield asked
        return
    for part in asked.atom.every + asked.atom.none:
        yield from _keys(part)
    yield from asked_of(asked)


def _names(keys: Iterable[Hashable]) -> Iterator[str]:
    for key in keys:
        match key.term if isinstance(key, Unknown) else None:
            case Setting(name):
                yield name
            case Operation("%", counter, divisor):
                yield from _names((counter, divisor))
