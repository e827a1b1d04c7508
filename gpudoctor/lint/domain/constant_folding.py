"""What is computed with the constants of a program: the one room in which lint does what a program says.

A stranger wrote it, and `"%9999999999d" % 1` must cost nothing. So the size of a result is known before it is made;
what would be too large, and what Python would refuse, is None. No constant is larger than these limits, but for texts
that stand in the program itself.
"""

from __future__ import annotations

import ast
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

from gpudoctor.lint.domain.symbols import names_day
from gpudoctor.lint.domain.traced_number import TracedNumber, number_of, traced
from gpudoctor.lint.domain.value import Anonymous, Const, Unknown, Value

MAX_TEXT = 2_000
"""Characters of a text that is made, and of each that it is made of."""
MAX_BITS = 1_000
"""Bits of a whole number: as many as fit into a float, and as Python can print."""
MAX_DIGITS = 300
"""Digits of a number that is read from a text."""

_PATTERNS_WITH_CHOICES = frozenset("*+?{}()[]|\\")
_REFUSED = (TypeError, ValueError, ArithmeticError, re.error)
_MOST_DIGITS = 4
"""Of a width or a precision."""
_CONVERSIONS: dict[str, Callable[[object], object]] = {"int": int, "float": float, "bool": bool}  # type: ignore[dict-item]
_CONVERSIONS_OF_FORMATS: dict[str, Callable[[object], str]] = {"r": repr, "s": str, "a": ascii}
_METHODS = frozenset({"lower", "upper", "strip", "title", "startswith", "endswith", "replace"})
_ARITHMETIC: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}
_COMPARISONS: dict[type[ast.cmpop], Callable[[object, object], bool]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Is: lambda left, right: type(left) is type(right) and left == right,
    ast.IsNot: lambda left, right: type(left) is not type(right) or left != right,
    ast.Lt: operator.lt,  # type: ignore[dict-item]
    ast.LtE: operator.le,  # type: ignore[dict-item]
    ast.Gt: operator.gt,  # type: ignore[dict-item]
    ast.GtE: operator.ge,  # type: ignore[dict-item]
}


def fits(value: object) -> bool:
    """Of a size that may be computed with."""
    if isinstance(value, (str, bytes)):
        return len(value) <= MAX_TEXT
    return not isinstance(value, int) or value.bit_length() <= MAX_BITS


def is_nan(value: object) -> bool:
    """Not a number, which is unequal to all, and neither smaller nor larger than any."""
    return isinstance(value, float) and value != value


def operated(op: ast.operator, left: Const, right: Const) -> Const | None:
    """`left op right`."""
    compute = _ARITHMETIC.get(type(op))
    if type(left) is TracedNumber or type(right) is TracedNumber:
        found = operated(op, Const(number_of(left)), Const(number_of(right)))
        return traced(found.value, ("operated", type(op)), left, right) if found is not None else None
    if compute is None or not fits(left.value) or not fits(right.value):
        return None
    text = isinstance(left.value, (str, bytes))
    # Separator lines such as `"-" * 80` decide nothing.
    if isinstance(op, ast.Mult) and (text or isinstance(right.value, (str, bytes))):
        return None
    if isinstance(op, ast.Mod) and text and not _is_short_format(left.value):
        return None
    return _made(lambda: compute(left.value, right.value))


def _is_short_format(text: object) -> bool:
    """All that it could take for a width is not much together."""
    digits = re.findall(r"[0-9]+", text if isinstance(text, str) else repr(text))
    return all(len(each) <= _MOST_DIGITS for each in digits) and sum(map(int, digits)) <= MAX_TEXT


def negative(value: Const) -> Const | None:
    """`-value`."""
    if type(value) is TracedNumber:
        return traced(-value.number, ("negative", None), value)
    return Const(-value.value) if isinstance(value.value, (int, float)) else None


def compared(op: ast.cmpop, left: Const, right: Const) -> bool | None:
    """`left op right`; None where Python would refuse, and for tests of membership in what is no text."""
    if type(left) is TracedNumber or type(right) is TracedNumber:
        told = compared(op, Const(number_of(left)), Const(number_of(right)))
        if told is not None:
            traced(told, ("compared", type(op)), left, right)
        return told
    if isinstance(op, (ast.In, ast.NotIn)):
        both = isinstance(left.value, str) and isinstance(right.value, str)
        return (left.value in right.value) is isinstance(op, ast.In) if both else None  # type: ignore[operator]
    try:
        return bool(_COMPARISONS[type(op)](left.value, right.value))
    except TypeError:
        return None


def converted(kind: str, value: Const) -> Const | None:
    """`int(value)`, `float(value)`, `bool(value)`."""
    if type(value) is TracedNumber:
        found = converted(kind, Const(value.number))
        return traced(found.value, ("converted", kind), value) if found is not None else None
    # Digits by the million take minutes.
    if isinstance(value.value, (str, bytes)) and kind != "bool" and len(value.value) > MAX_DIGITS:
        return None
    return _made(lambda: _CONVERSIONS[kind](value.value))


def done_again(name: str, how: Any, of: Sequence[Const]) -> Const | None:
    """A step that was traced, with other numbers."""
    if name == "negative":
        return negative(of[0])
    if name == "converted":
        return converted(how, of[0])
    if name == "operated":
        return operated(how(), of[0], of[1])
    told = compared(how(), of[0], of[1])
    return None if told is None else Const(told)


def as_text(value: Const) -> Const | None:
    """`str(value)`."""
    if isinstance(value.value, str):
        return value
    return _made(lambda: str(value.value)) if fits(value.value) else None


def formatted(value: Value, conversion: str = "", spec: str | None = "") -> tuple[Value, ...]:
    """The parts of `f"{value!conversion:spec}"`, where a `spec` that is not known is None."""
    # `f"{now:%Y%m%d}"`: all ranks start on one day.
    if isinstance(value, Unknown) and spec is not None and "%" in spec and names_day(spec):
        return (Unknown(Anonymous("formatted", (value.term, spec)), "a date", kind="str"),)
    if not isinstance(value, Const) or not (conversion or spec != ""):
        return value.in_text
    made = None
    if spec is not None and fits(value.value) and _is_short_format(spec):
        shown = _CONVERSIONS_OF_FORMATS[conversion](value.value) if conversion else value.value
        made = _made(lambda: format(shown, spec))
    return (made or Unknown(Anonymous("formatted", (value, spec)), "a text", kind="str"),)


def calculated(function: str, given: Sequence[Const]) -> Const | None:
    """What `abs`, `round`, `min`, `max` and `sum` make of these."""
    if any(type(each) is TracedNumber or not fits(each.value) for each in given) or not given:
        return None
    numbers = [each.value for each in given]
    match function:
        case "min" | "max":
            choose = min if function == "min" else max
            return _made(lambda: choose(numbers))  # type: ignore[type-var]
        case "sum":
            return _made(lambda: sum(numbers))  # type: ignore[arg-type]
        case "abs" if len(given) == 1:
            return _made(lambda: abs(numbers[0]))  # type: ignore[arg-type]
        case "round" if len(given) <= 2:
            return _made(lambda: round(*numbers))  # type: ignore[arg-type]
    return None


def joined(parts: Sequence[Const]) -> Const | None:
    """The texts of some constants, one behind the other."""
    texts, room = [], MAX_TEXT
    for part in parts:
        text = as_text(part)
        room -= len(str(text.value)) if text is not None else MAX_TEXT + 1
        if text is None or room < 0:
            return None
        texts.append(str(text.value))
    return Const("".join(texts))


def of_text(text: str, method: str, args: Sequence[Const]) -> Const | None:
    """`text.method(*args)`, for what often decides which way a program goes."""
    given = [arg.value for arg in args]
    if method not in _METHODS or not fits(text) or not all(map(fits, given)):
        return None
    if method == "replace" and not _stays_short(text, given):
        return None
    return _made(lambda: getattr(text, method)(*given))


def split(text: str, given: Sequence[object]) -> list[str] | None:
    """`text.split()` or `text.split(separator)`."""
    by = [each.value for each in given if isinstance(each, Const)]
    if len(by) < len(given) or len(given) > 1 or not fits(text):
        return None
    try:
        return text.split(*by)  # type: ignore[arg-type]
    except _REFUSED:
        return None


def substituted(pattern: str, new: str, text: str) -> Const | None:
    """`re.sub(pattern, new, text)` of a pattern that is looked for in no more steps than the text is long."""
    if not _PATTERNS_WITH_CHOICES.isdisjoint(pattern) or "\\" in new or (len(text) + 1) * (len(new) + 1) > MAX_TEXT:
        return None
    return _made(lambda: re.sub(pattern, new, text))


def _stays_short(text: str, given: Sequence[object]) -> bool:
    old, new = given[:2] if len(given) > 1 else ("", "")
    grown = len(new) - len(old) if isinstance(old, str) and isinstance(new, str) else 0
    return len(text) + (text.count(str(old)) * grown if grown > 0 else 0) <= MAX_TEXT


def whole_number(text: str) -> int | None:
    """The number that a text writes in plain digits."""
    digits = text[1:] if text.startswith(("+", "-")) else text
    return int(text) if len(text) <= MAX_DIGITS and digits.isascii() and digits.isdigit() else None


def _made(compute: Callable[[], object]) -> Const | None:
    try:
        result = compute()
    except _REFUSED:
        return None
    return Const(result) if isinstance(result, (bool, int, float, str)) and fits(result) else None
