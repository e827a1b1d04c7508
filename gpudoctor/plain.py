"""Records as what JSON knows, dictionaries, lists, strings and numbers, and back.

What comes back is driven by the types of the fields and checked against them. Names that a record does not have are
passed over: they come from a later version, which may add some. A generic class that JSON does not show by its fields
says in `as_plain` what stands for it, and its class method `form` gets what reads its content and returns what reads
it: `probe/inventory/field.py`.
"""

from __future__ import annotations

import enum
import math
import types
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gpudoctor.record import fields

T = TypeVar("T")
Form = Callable[[Any], Any]
"""Makes a value of what JSON had for it, or raises PlainError."""


class PlainError(ValueError):
    """What is wrong, behind the way that leads there: `checks[0].verdict is 1 and not a text`."""

    def __init__(self, wrong: str, way: str = "") -> None:
        super().__init__(wrong, way)
        self._wrong = wrong
        self._way = way

    def __str__(self) -> str:
        return f"{self._way or 'the document'} {self._wrong}"

    def below(self, step: str) -> PlainError:
        """The same, seen from one step further out."""
        return PlainError(self._wrong, step + ("." if self._way and self._way[0] != "[" else "") + self._way)


def plain(value: Any) -> Any:
    """Records, enums, mappings and sequences as what JSON knows; numbers that it does not know become null."""
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, (str, int, bool)) or value is None:
        return value
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(each) for each in value]
    if hasattr(value, "as_plain"):
        return plain(value.as_plain())
    return {name: plain(getattr(value, name)) for name in _names(value)}


def _names(kind: Any) -> list[str]:
    return [each.name for each in fields(kind)]


class Reader:
    """Makes records of what `plain` made of them; `forms` says which types stand there in another form."""

    def __init__(self, forms: Mapping[Any, Form] | None = None) -> None:
        self._forms: dict[Any, Form] = {**_BASIC, **(forms or {})}

    def read(self, kind: type[T], data: object) -> T:
        """The record of this class. Raises PlainError where the data is not one."""
        made: T = self._form(kind)(data)
        return made

    def _form(self, kind: Any) -> Form:
        form = self._forms.get(kind)
        if form is None:
            form = self._forms[kind] = self._made(kind)
        return form

    def _made(self, kind: Any) -> Form:
        origin, of = get_origin(kind), get_args(kind)
        if origin in (Union, types.UnionType):
            return self._one_of(of)
        if origin is tuple and of[-1] is not Ellipsis:
            return _tuple([self._form(each) for each in of])
        if origin in (tuple, list, frozenset):
            return _sequence(origin, self._form(of[0]))
        if origin in (Mapping, dict):
            return _mapping(self._form(of[1]), whole=of[0] is int)
        if hasattr(origin, "form"):
            own: Form = origin.form(self._form(of[0]))
            return own
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return _member(kind)
        return _record(kind, {name: self._form(hint) for name, hint in _hints(kind).items()})

    def _one_of(self, kinds: tuple[Any, ...]) -> Form:
        known = [kind for kind in kinds if kind is not type(None)]
        forms = {get_origin(kind) or kind: self._form(kind) for kind in known}
        # A whole number is a float to JSON, too.
        forms.setdefault(int, forms.get(float, _refuse))
        only = self._form(known[0]) if len(known) == 1 else None

        def read(found: Any) -> Any:
            if found is None and len(known) < len(kinds):
                return None
            return (only or forms.get(type(found), _refuse))(found)

        return read


def from_plain(kind: type[T], data: object) -> T:
    """The record of this class of which `plain` made the data. Raises PlainError where it is not one."""
    return _READER.read(kind, data)


def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {name: hints[name] for name in _names(kind)}


def _record(kind: type, forms: Mapping[str, Form]) -> Form:
    def read(found: Any) -> Any:
        values = {}
        name = ""
        try:
            for name, value in _checked(found, dict, "an object").items():
                if name in forms:
                    values[name] = forms[name](value)
        except PlainError as error:
            raise error.below(name) from None
        try:
            return kind(**values)
        except TypeError as error:  # "... missing 2 required positional arguments: 'name' and 'verdict'"
            raise PlainError(f"lacks{str(error).rpartition(':')[2]}") from None

    return read


def _sequence(origin: Any, form: Form) -> Form:
    def read(found: Any) -> Any:
        every = _checked(found, (list, tuple), "a list")
        made: list[Any] = []
        try:
            made.extend(map(form, every))
        except PlainError as error:
            raise error.below(f"[{len(made)}]") from None
        return made if origin is list else origin(made)

    return read


def _tuple(forms: list[Form]) -> Form:
    def read(found: Any) -> Any:
        every = _checked(found, (list, tuple), "a list")
        if len(every) != len(forms):
            raise PlainError(f"has {len(every)} entries instead of {len(forms)}")
        made: list[Any] = []
        try:
            made.extend(form(each) for form, each in zip(forms, every, strict=True))
        except PlainError as error:
            raise error.below(f"[{len(made)}]") from None
        return tuple(made)

    return read


def _mapping(form: Form, *, whole: bool) -> Form:
    def read(found: Any) -> Any:
        values: dict[Any, Any] = {}
        name = ""
        try:
            for name, each in _checked(found, dict, "an object").items():
                values[_key(name) if whole else name] = form(each)
        except PlainError as error:
            raise error.below(name) from None
        return values

    return read


def _key(name: str) -> int:
    try:
        return int(name)
    except ValueError:
        raise PlainError("stands where a whole number belongs") from None


def _member(kind: type[enum.Enum]) -> Form:
    members = {each.value: each for each in kind}

    def read(found: Any) -> enum.Enum:
        member = members.get(found) if isinstance(found, (str, int)) else None
        if member is None:
            raise PlainError(f"is {_shown(found)}, and none of {', '.join(map(str, members))}")
        return member

    return read


def _text(found: Any) -> Any:
    return found if type(found) is str else _checked(found, str, "a text")


def _whole(found: Any) -> Any:
    return found if type(found) is int else _checked(found, int, "a whole number")


def _truth(found: Any) -> Any:
    return found if type(found) is bool else _checked(found, bool, "true or false")


def _number(found: Any) -> float:
    # What JSON has no number for is written as null.
    return math.nan if found is None else float(_checked(found, (int, float), "a number"))


def _refuse(found: Any) -> Any:
    raise PlainError(f"is {_shown(found)}")


def _checked(found: Any, kind: type | tuple[type, ...], called: str) -> Any:
    if isinstance(found, kind) and (kind is bool or not isinstance(found, bool)):
        return found
    raise PlainError(f"is {_shown(found)} and not {called}")


def _shown(found: Any) -> str:
    text = repr(found) if not isinstance(found, (dict, list)) else {dict: "an object", list: "a list"}[type(found)]
    return text if len(text) <= 40 else f"{text[:37]}..."


_BASIC: dict[Any, Form] = {
    str: _text,
    int: _whole,
    bool: _truth,
    float: _number,
    object: lambda found: found,
    Any: lambda found: found,
}
_READER = Reader()
