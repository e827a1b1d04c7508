"""One object for equal keys.

Unknown values name what they were computed from, and those name what they were computed from: comparing such keys
part by part would take time that doubles with each step. Interned, equal keys are the same object.
"""

from __future__ import annotations

from collections.abc import Hashable
from itertools import count

_KEYS: dict[Hashable, Hashable] = {}
_NUMBERS: dict[Hashable, int] = {}
_FRESH = count()


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


def is_interned(key: Hashable) -> bool:
    """An equal key was interned before."""
    return key in _KEYS


def forget_keys() -> None:
    """Begin anew. What was interned before still is equal to itself, and to nothing that comes later."""
    _KEYS.clear()
    _NUMBERS.clear()
