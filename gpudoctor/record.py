"""Classes of named fields, written as with `dataclasses`, and cheap to define.

`dataclasses` compiles up to six methods for each class when its module is imported. There are well over a hundred
such classes here, and defining them took longer than the lint of a script. This module knows the options that are
used here. A class is given its methods when its first object is made, which for most kinds never happens. It compiles a
constructor once several objects are made, has one for few fields at hand, and lets the classes share what needs no code
of its own.

That nobody changes a frozen object is checked by mypy alone: to refuse it at run time makes each object three times as
dear, and so many are made.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from operator import attrgetter
from types import FunctionType
from typing import TYPE_CHECKING, Any, TypeVar

__all__ = ["compared", "dataclass", "field", "fields", "replace"]

T = TypeVar("T")
_MISSING: Any = object()
_FIELDS = "__record_fields__"
_MADE_SLOWLY = 6
"""Objects of a class until its constructor is compiled, which takes as long as making sixteen without."""


class _FieldSpec:
    """One field: its name, its default or what makes it, and whether objects are compared by it."""

    __slots__ = ("compare", "default", "default_factory", "kw_only", "name")

    def __init__(
        self,
        default: object = _MISSING,
        default_factory: Any = None,
        compare: bool = True,
        name: str = "",
        kw_only: bool = False,
    ) -> None:
        self.default = default
        self.default_factory = default_factory
        self.compare = compare
        self.name = name
        self.kw_only = kw_only

    @property
    def optional(self) -> bool:
        return self.default is not _MISSING or self.default_factory is not None


def _dataclass(
    cls: type | None = None,
    /,
    *,
    frozen: bool = False,
    slots: bool = False,
    eq: bool = True,
    order: bool = False,
    repr: bool = True,
    kw_only: bool = False,
) -> Any:
    def define(cls: type) -> type:
        options = frozen, eq, order, repr, kw_only
        if slots:
            cls = _with_slots(cls, options)
        else:
            _UNUSED[cls] = options
        if "__init__" in cls.__dict__:
            _complete(cls)
        else:
            cls.__init__ = _late_constructor(cls)  # type: ignore[misc]
        return cls

    return define if cls is None else define(cls)


_UNUSED: dict[type, tuple[bool, ...]] = {}
"""Classes of which no object was made yet; whether they are frozen, compared, ordered, shown, and take names only."""


def _complete(cls: type) -> None:
    """Give a class what it lacks until its first object is made. Two threads may do the same at once."""
    options = _UNUSED.get(cls)
    if options is not None:
        for name, value in _members(cls, options).items():
            setattr(cls, name, value)
        _UNUSED.pop(cls, None)


def _own_fields(cls: type, kw_only: bool) -> dict[str, _FieldSpec]:
    own: dict[str, _FieldSpec] = {}
    defined = cls.__dict__
    for name in defined.get("__annotations__", ()):
        value = defined.get(name, _MISSING)
        if type(value) is _FieldSpec:
            value.name, value.kw_only = name, kw_only
            own[name] = value
        else:
            own[name] = _FieldSpec(value, None, True, name, kw_only)
    return own


def _inherited_fields(cls: type) -> dict[str, _FieldSpec]:
    """Those of its bases, each of which has those of its own bases."""
    known: dict[str, _FieldSpec] = {}
    for base in cls.__mro__[:0:-1]:
        _complete(base)
    for base in reversed(cls.__bases__):
        known |= getattr(base, _FIELDS, {})
    return known


def _members(cls: type, options: tuple[bool, ...]) -> dict[str, Any]:
    """What the class gets besides its constructor, without what it defines itself."""
    frozen, eq, order, shown, kw_only = options
    every = {**_inherited_fields(cls), **_own_fields(cls, kw_only)}
    key = _key_of([name for name, each in every.items() if each.compare])
    members: dict[str, Any] = {"__reduce__": _reduce}
    if shown:
        members["__repr__"] = _repr
    if eq:
        members["__eq__"] = _equality(key)
        members["__hash__"] = _hashing(key) if frozen else None
    if order:
        members["__lt__"] = _less(key)
    defined = cls.__dict__
    # Python itself puts `__hash__: None` beside an `__eq__`.
    for name in [name for name in members if defined.get(name) is not None]:
        del members[name]
    # What a base has from here is inherited.
    for name in ("__reduce__", "__repr__"):
        if name in members and getattr(cls, name) is members[name]:
            del members[name]
    members[_FIELDS] = every
    members["__match_args__"] = tuple([name for name, each in every.items() if not each.kw_only])
    return members


def _with_slots(cls: type, options: tuple[bool, ...]) -> type:
    """The class made anew: slots must be there from the beginning, and defaults must not."""
    kept, known = {**cls.__dict__, **_members(cls, options)}, _inherited_fields(cls)
    own = [*kept.get("__annotations__", ())]
    for name in (*own, "__dict__", "__weakref__"):
        kept.pop(name, None)
    kept["__slots__"] = tuple([name for name in own if name not in known])
    return type(cls)(cls.__name__, cls.__bases__, kept)


def _late_constructor(cls: type) -> Callable[..., None]:
    made = 0

    def __init__(self: object, *args: object, **keywords: object) -> None:  # noqa: N807
        nonlocal made
        made += 1
        _complete(cls)
        every: dict[str, _FieldSpec] = getattr(cls, _FIELDS)
        short = made == 1 and _is_short(cls, every)
        if not short and made < _MADE_SLOWLY and _was_made(self, every, args, keywords):
            return
        cls.__init__ = constructor = _renamed(every) if short else _constructor(cls, every)  # type: ignore[misc]
        constructor(self, *args, **keywords)

    return __init__


def _is_short(cls: type, every: dict[str, _FieldSpec]) -> bool:
    if len(every) not in _SHORT or hasattr(cls, "__post_init__"):
        return False
    return not any(each.default_factory for each in every.values())


def _renamed(every: dict[str, _FieldSpec]) -> Callable[..., None]:
    """A constructor of few fields, which need no code of their own."""
    named = [name for name, each in every.items() if each.kw_only]
    names = (*[name for name, each in every.items() if not each.kw_only], *named)
    code = _SHORT[len(names)].__code__.replace(
        co_names=names, co_varnames=("self", *names),
        co_argcount=1 + len(names) - len(named), co_kwonlyargcount=len(named),
    )  # fmt: skip
    defaults = {name: each.default for name, each in every.items() if each.optional}
    made = FunctionType(code, {}, "__init__", tuple([defaults[name] for name in defaults if name not in named]))
    made.__kwdefaults__ = {name: defaults[name] for name in named if name in defaults}
    made.__qualname__ = "__init__"
    return made


def _was_made(made: Any, every: dict[str, _FieldSpec], args: tuple[object, ...], keywords: dict[str, object]) -> bool:
    """Do what the compiled constructor would; False where it would complain, which is left to it."""
    positional = [name for name, each in every.items() if not each.kw_only]
    given = {**dict(zip(positional, args, strict=False)), **keywords}
    if len(given) < len(args) + len(keywords):
        return False
    for name, each in every.items():
        value = given.pop(name, each.default)
        if value is _MISSING:
            if each.default_factory is None:
                return False
            value = each.default_factory()
        setattr(made, name, value)
    if given:
        return False
    if hasattr(made, "__post_init__"):
        made.__post_init__()
    return True


def _constructor(owner: type, every: dict[str, _FieldSpec]) -> Callable[..., None]:
    scope: dict[str, Any] = {"_missing": _MISSING}
    first: list[str] = []
    later: list[str] = []
    lines: list[str] = []
    for name, each in every.items():
        scope[f"_default_{name}"] = each.default_factory or each.default
        default = "_missing" if each.default_factory else f"_default_{name}"
        (later if each.kw_only else first).append(f"{name}={default}" if each.optional else name)
        value = f"_default_{name}() if {name} is _missing else {name}" if each.default_factory else name
        lines.append(f" self.{name} = {value}")
    signature = ", ".join(["self", *first, *(["*", *later] if later else [])])
    lines.append(" self.__post_init__()" if hasattr(owner, "__post_init__") else " pass")
    exec("\n".join([f"def __init__({signature}):", *lines]), scope)
    made: Callable[..., None] = scope["__init__"]
    return made


def _one(self: Any, a: object) -> None:
    self.a = a


def _two(self: Any, a: object, b: object) -> None:
    self.a = a
    self.b = b


def _three(self: Any, a: object, b: object, c: object) -> None:
    self.a = a
    self.b = b
    self.c = c


def _four(self: Any, a: object, b: object, c: object, d: object) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d


def _five(self: Any, a: object, b: object, c: object, d: object, e: object) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e


def _six(self: Any, a: object, b: object, c: object, d: object, e: object, f: object) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f


def _seven(self: Any, a: object, b: object, c: object, d: object, e: object, f: object, g: object) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g


def _eight(self: Any, a: object, b: object, c: object, d: object, e: object, f: object, g: object, h: object) -> None:
    self.a = a
    self.b = b
    self.c = c
    self.d = d
    self.e = e
    self.f = f
    self.g = g
    self.h = h


_SHORT: dict[int, Any] = {
    1: _one, 2: _two, 3: _three, 4: _four, 5: _five, 6: _six, 7: _seven, 8: _eight,
}  # fmt: skip
"""Constructors that are there already, but for the names of the fields: to compile one takes a hundred times as long as
to rename it."""


def _key_of(names: list[str]) -> Callable[[Any], Any]:
    if len(names) == 1:
        only = attrgetter(names[0])
        return lambda each: (only(each),)
    return attrgetter(*names) if names else lambda each: ()


def _equality(key: Callable[[Any], Any]) -> Callable[[Any, object], bool]:
    def __eq__(self: Any, other: object) -> bool:  # noqa: N807
        if self is other:
            return True
        return key(self) == key(other) if type(self) is type(other) else NotImplemented

    return __eq__


def _hashing(key: Callable[[Any], Any]) -> Callable[[Any], int]:
    def __hash__(self: Any) -> int:  # noqa: N807
        return hash(key(self))

    return __hash__


def _less(key: Callable[[Any], Any]) -> Callable[[Any, object], bool]:
    def __lt__(self: Any, other: object) -> bool:  # noqa: N807
        return bool(key(self) < key(other)) if type(self) is type(other) else NotImplemented

    return __lt__


def _repr(self: object) -> str:
    shown = ", ".join(f"{each.name}={getattr(self, each.name)!r}" for each in _fields(self))
    return f"{type(self).__qualname__}({shown})"


def _reduce(self: object) -> tuple[Any, ...]:
    return _remade, (type(self), {each.name: getattr(self, each.name) for each in _fields(self)})


def _remade(cls: type[T], values: dict[str, object]) -> T:
    return cls(**values)


_COMPARED: dict[type, Callable[[Any], Any]] = {}


def compared(subject: object) -> Hashable:
    """The values of the fields by which objects of a class are compared."""
    key = _COMPARED.get(type(subject))
    if key is None:
        names = [each.name for each in _fields(subject) if each.compare]
        key = _COMPARED[type(subject)] = _key_of(names)
    found: Hashable = key(subject)
    return found


def _fields(subject: object) -> tuple[_FieldSpec, ...]:
    if isinstance(subject, type):
        _complete(subject)
    every: dict[str, _FieldSpec] = getattr(subject, _FIELDS)
    return tuple(every.values())


_VALUES: dict[type, tuple[dict[str, int], bool, Callable[[Any], Any]]] = {}
"""The names of the fields of a class with their positions, whether the constructor takes all of them so, and what asks
for all of their values at once: that takes half as long as each."""


def _replace(subject: T, /, **changes: object) -> T:
    cls = type(subject)
    known = _VALUES.get(cls)
    if known is None:
        every: dict[str, _FieldSpec] = getattr(cls, _FIELDS)
        by_position = not any(each.kw_only for each in every.values())
        values_of = attrgetter(*every) if len(every) > 1 else _key_of([*every])
        known = _VALUES[cls] = {name: index for index, name in enumerate(every)}, by_position, values_of
    positions, by_position, values_of = known
    values = [*values_of(subject)]
    # Without names it takes half as long.
    if by_position:
        for name, value in changes.items():
            values[positions[name]] = value
        return cls(*values)
    return cls(**dict(zip(positions, values), **changes))  # noqa: B905, they are as many


if TYPE_CHECKING:
    from dataclasses import dataclass, field, fields, replace
else:
    dataclass, field, fields, replace = _dataclass, _FieldSpec, _fields, _replace
