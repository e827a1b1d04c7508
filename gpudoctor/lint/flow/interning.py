"""One object for equal keys, and what is forgotten with them when another program begins.

Unknown values name what they were computed from, and those name what they were computed from: comparing such keys
part by part would take time that doubles with each step. Interned, equal keys are the same object.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from itertools import count
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

_KEYS: dict[Hashable, Hashable] = {}
_NUMBERS: dict[Hashable, int] = {}
_RANKED: dict[int, int] = {}
_STRIDE = 1 << 24
"""More than one execution numbers. Beginning at a multiple of it, sets of numbers have the order that they have in a
process of their own."""
_FRESH = count()
_AGE = 0
"""How often all was forgotten."""


def age() -> int:
    """A number that changes where all keys are forgotten: what was interned under another one has to be again."""
    return _AGE


def interned(key: Hashable) -> Hashable:
    """The one object that stands for all keys equal to this one."""
    return _KEYS.setdefault(key, key)


def numbered(key: Hashable) -> int:
    """A number for all keys equal to this one: hashing and comparing it costs next to nothing."""
    number = _NUMBERS.get(key)
    if number is None:
        # Never given twice, also after the keys were forgotten: what has one may still be there.
        number = _NUMBERS[key] = next(_FRESH)
    return number


def ranked(key: Hashable) -> None:
    """Note that an interned key was there now, if it was not before."""
    _RANKED.setdefault(id(key), len(_RANKED))


def rank_of(key: Hashable) -> int:
    """How many keys were there before this one, -1 for what is older than all: an order that each run has."""
    return _RANKED.get(id(key), -1)


def is_interned(key: Hashable) -> bool:
    """An equal key was interned before."""
    return key in _KEYS


_FORGET: list[Callable[[], None]] = []


def for_one_program(remembering: F) -> F:
    """Let a function with a cache of its own, of what programs hold, forget it when another program begins."""
    _FORGET.append(remembering.cache_clear)  # type: ignore[attr-defined]
    return remembering


def forget_keys() -> None:
    """Begin anew. What was interned before still is equal to itself, and to nothing that comes later."""
    global _FRESH, _AGE
    _AGE += 1
    _KEYS.clear()
    _NUMBERS.clear()
    _RANKED.clear()
    for forget in _FORGET:
        forget()
    _FRESH = count((next(_FRESH) // _STRIDE + 1) * _STRIDE)
