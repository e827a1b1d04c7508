"""What command line options and other settings are where the user leaves them out, and what tests come to then."""

from __future__ import annotations

import enum
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from gpudoctor.lint.domain.constant_folding import of_text
from gpudoctor.lint.domain.symbols import (
    Attribute,
    CallResult,
    Compares,
    IsTrue,
    MethodResult,
    OneOf,
    Operation,
    Setting,
    asked_of,
    entry_left_out,
    method_asked,
)
from gpudoctor.lint.domain.value import NONE, Const, Truth, Unknown, Value, text_of
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.process import ArgumentDeclared, SettingDefault
from gpudoctor.lint.flow.condition import Condition, Equality, Literal
from gpudoctor.record import dataclass

Premise = Literal | Value
"""A test with the answer that it needs, or a value that must be true."""


@dataclass(frozen=True)
class Option:
    """A command line option: its flag, and what it is without it. Of another setting the flag is how it is read."""

    flag: str
    default: Const
    switch: bool = False
    """It takes no value: there or not."""


Options = Mapping[Hashable, Option]
"""By the name of the attribute; those that have no flag by the value that is read."""


def options_of(log: Sequence[Event]) -> dict[Hashable, Option]:
    """The options whose default is known."""
    found: dict[Hashable, list[Option | None]] = {}
    for event in (each for each in log if isinstance(each, ArgumentDeclared)):
        only = event.left_out
        # `-large` with one dash is an option, too.
        flag = next(iter(sorted((flag for flag in event.flags if flag.startswith("-")), key=_dashes)), "")
        known = Option(flag, only, event.switch) if only is not None and flag else None
        found.setdefault(event.name, []).append(known)
    for each in (event for event in log if isinstance(event, SettingDefault)):
        # What is declared has its default there.
        if _setting(each.value) not in found:
            found.setdefault(each.value, []).append(Option(each.text, each.left_out))
    # Declared twice with different defaults, it is not known which one holds.
    alike = {name: each[0] for name, each in found.items() if all(other == each[0] for other in each)}
    options = {name: option for name, option in alike.items() if option is not None}
    return {name: _by_flag(option, options) for name, option in options.items()}


def _dashes(flag: str) -> bool:
    return not flag.startswith("--")


def _by_flag(option: Option, options: Options) -> Option:
    """The option of the command line that such a setting is: `--amp` for `self.args.amp`."""
    declared = options.get(option.flag.rpartition(".")[2])
    return declared if declared is not None and declared.default == option.default else option


def _setting(value: Value) -> str:
    term = value.term
    return term.name if isinstance(term, Setting) else ""


def left_out(value: Value, options: Options) -> Value:
    """What it is where every option is left out, as far as that is known."""
    return _value(value, options) or value


def comes_to(asked: Premise, options: Options) -> bool | None:
    """Whether it is so where every option is left out; None where that is not known."""
    if isinstance(asked, Literal):
        answer = _answer(asked, options)
        return None if answer is None else answer is asked.holds
    if isinstance(asked, Truth):
        return comes_to(asked.literal, options)
    known = _value(asked, options)
    return None if known is None else bool(known.value)


def is_emptied(asked: Literal, options: Options) -> bool:
    """An option would have to be what a command line hardly says: empty, where it is a text by default, or None."""
    atom, holds = asked.atom, asked.holds
    if atom.every or atom.none:
        parts = [part if holds else part.negated() for part in atom.every or atom.none]
        of_each = any if bool(atom.every) is holds else all
        return of_each(is_emptied(part, options) for part in parts)
    match atom.key:
        case IsTrue(value) if not holds:
            return bool(text_of(_on_command_line(value, options)))
        case Compares("==", value, Const("")) if holds:
            return bool(text_of(_on_command_line(value, options)))
        case Compares("==", value, Const(None)) if holds:
            return _on_command_line(value, options) not in (None, NONE)
    return False


def _on_command_line(value: Value, options: Options) -> Const | None:
    """What an option of the command line is by default."""
    option = _option(value, options)
    return option.default if option is not None and option.flag.startswith("-") else None


def as_chosen(asked: Iterable[Premise], options: Options) -> str:
    """The first of these that is not so without an option of the user's, as words that end a clause; empty where all
    may be."""
    unusual = (each for each in asked if comes_to(each, options) is False)
    found = next((options_in for each in unusual if (options_in := _options_in(each, options))), ())
    if not found:
        return ""
    how = _off(found[0]) if len(found) == 1 else _Off.OTHER
    if how is _Off.ON:
        return f"if {_flags(found)} is off"
    if how is _Off.OTHER:
        return f"with other values of {_flags(found)} than the default{'s' if len(found) > 1 else ''}"
    return f"if {_flags(found)} is given"


def only_with(asked: Iterable[Premise], options: Options, most: int) -> list[str]:
    """What the user must say for all this to be so, where it is not without: a sentence for each kind of option.

    Of more than `most` options or tests only the first are told."""
    alone: dict[_Off, list[Option]] = {}
    several: list[str] = []
    for found in list(dict.fromkeys(_options_in(each, options) for each in asked))[:most]:
        if len(found) == 1:
            alone.setdefault(_off(found[0]), []).append(found[0])
        elif found:
            several.append(f"Only with other values of {_flags(found)} than the defaults.")
    return [_said(how, found) for how, found in alone.items()] + several


def flags_in(asked: Premise, options: Options) -> frozenset[str]:
    """The options that a test is about, as a command line names them, without dashes in front."""
    return frozenset(each.flag.lstrip("-").replace("_", "-") for each in _options_in(asked, options))


def only_where(asked: Iterable[Literal], options: Options) -> list[str]:
    """Which tests of settings must come out how for all this to be so, of those that may come out either way: a
    sentence for each."""
    asked = tuple(asked)
    told = (
        _where(each)
        for each in asked
        if each.atom.switch and comes_to(each, options) is None and not any(_says(other, each) for other in asked)
    )
    return [f"Only where {text}." for text in told if text]


def _says(one: Literal, other: Literal) -> bool:
    """`name == "a"` says that `name != "b"`, and `if name` that it is not None."""
    match one.atom.key, other.atom.key:
        case (IsTrue(value), Compares("==", asked, Const(None))) if one.holds and not other.holds:
            return bool(value == asked)
        case (Compares("==", asked, Const(None)), IsTrue(value)) if one.holds and not other.holds:
            return bool(value == asked)
    bounds = one.atom.bound, other.atom.bound
    if not one.holds or other.holds or not all(isinstance(each, Equality) for each in bounds):
        return False
    return one != other and bounds[0].settles(True, bounds[1]) is False  # type: ignore[union-attr, arg-type]


def _where(literal: Literal) -> str:
    """A test of one setting with its answer, as the source writes it where the setting is read; empty for others."""
    match literal.atom.key:
        case IsTrue(Unknown(config=True, label=label)) if _is_whole(label):
            return f"`{label}` is set" if literal.holds else f"`{label}` is not set"
        case Compares("==", Unknown(config=True, label=label), Const(None)) if _is_whole(label):
            return f"`{label} is None`" if literal.holds else f"`{label} is not None`"
        case Compares(operator, Unknown(config=True, label=label), Const(value)) if _is_whole(label):
            said = operator if literal.holds else _OPPOSITES.get(operator)
            return f"`{label} {said} {value!r}`" if operator in _OPPOSITES else ""
    return ""


_OPPOSITES = {"==": "!=", "<": ">=", ">": "<=", "in": "not in"}


def _is_whole(label: str) -> bool:
    return bool(label) and not label.endswith("...")


class _Off(enum.Enum):
    """What an option is without its flag."""

    OFF = "off"
    ON = "on"
    MISSING = "not given"
    OTHER = "a value"


def _options_in(asked: Premise, options: Options) -> tuple[Option, ...]:
    found = {option.flag: option for option in _asked(_keys(asked), options)}
    # `step = 0`, and another number under `if args.resume:`: what decides is which of the two it is.
    return tuple((found or {option.flag: option for option in _asked(_keys_of_ways(asked), options)}).values())


def _keys_of_ways(asked: Premise) -> Iterator[Hashable]:
    if isinstance(asked, Literal) and isinstance(asked.atom.key, OneOf):
        for binding in asked.atom.key.values.bindings:
            for literal in binding.condition:
                yield from _keys(literal)


def _off(option: Option) -> _Off:
    default = option.default.value
    if option.switch or default is False:
        return _Off.OFF
    if default is True:
        return _Off.ON
    return _Off.MISSING if default in (None, "") else _Off.OTHER


def _said(how: _Off, found: list[Option]) -> str:
    verb = "is" if len(found) == 1 else "are"
    if how is _Off.OFF:
        return f"Only with {_flags(found)}, which {verb} off by default."
    if how is _Off.ON:
        return f"Only where {_flags(found)} {verb} off, which {verb} on by default."
    if how is _Off.MISSING:
        return f"Only with {_flags(found)}, which {verb} not given by default."
    others = ", and ".join(f"another `{each.flag}` than the default, `{each.default.value!s}`" for each in found)
    return f"Only with {others}."


def _flags(found: Iterable[Option]) -> str:
    return " and ".join(f"`{option.flag}`" for option in found)


def _answer(literal: Literal, options: Options) -> bool | None:
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
        case OneOf(values):
            # Under `if args.resume: args = saved["args"]` it is another one only with that option.
            left_over = [each.value for each in values.bindings if not _takes_option(each.condition, options)]
            ways = {comes_to(each, options) for each in left_over}
            return ways.pop() if len(ways) == 1 else None
    return None


def _takes_option(condition: Condition, options: Options) -> bool:
    return any(comes_to(each, options) is False for each in condition)


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


def _value(value: Value, options: Options) -> Const | None:
    if isinstance(value, Const):
        return value
    option = _option(value, options)
    if option is not None:
        return option.default
    match value.term:
        # `step % args.every` is 0 in each step where that is 1.
        case Operation("%", _, divisor) if _value(divisor, options) == Const(1):
            return Const(0)
    asked = _text_method(value)
    of = _value(asked[0], options) if asked is not None else None
    if asked is None or of is None or not isinstance(of.value, str):
        return None
    return of_text(of.value, asked[1], asked[2])


def _option(value: Value, options: Options) -> Option | None:
    """The option whose value it is."""
    if not isinstance(value, Unknown):
        return None
    name = _setting(value)
    found = options.get(name) if name else None
    return found or options.get(value) or _entry(value)


def _entry(value: Unknown) -> Option | None:
    left_out = entry_left_out(value)
    return Option(value.label, left_out) if left_out is not None else None


def _text_method(value: Value) -> tuple[Value, str, list[Const]] | None:
    """`args.mode.lower()`: of what, which method, with which constants."""
    asked = method_asked(value)
    if asked is None:
        return None
    given = [each.single for each in asked[2]]
    plain = [each for each in given if isinstance(each, Const)]
    return (asked[0], asked[1], plain) if len(plain) == len(given) else None


def _keys(asked: Premise) -> Iterator[Hashable]:
    if isinstance(asked, Truth):
        asked = asked.literal
    if not isinstance(asked, Literal):
        yield asked
        return
    for part in asked.atom.every + asked.atom.none:
        yield from _keys(part)
    yield from asked_of(asked)


def _asked(keys: Iterable[Hashable], options: Options) -> Iterator[Option]:
    """The options that some values are made of."""
    for key in keys:
        if not isinstance(key, Value):
            continue
        option = _option(key, options)
        if option is not None:
            yield option
            continue
        match key.term:
            case Operation("%", counter, divisor):
                yield from _asked((counter, divisor), options)
            case CallResult(Unknown(Attribute(of, _))) | MethodResult(of):
                yield from _asked((of,), options)
