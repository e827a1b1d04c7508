"""One object for equal keys, and what is forgotten with them when another program begins.

Unknown values name what they were computed from, and those name what they were computed from: comparing such keys
part by part would take time that doubles with each step. Interned, equal keys are the same object.

Keys belong to the execution that made them. Values are made in hundreds of places, so that its pool is not handed on
but held by the context (`contextvars`): each thread, and each task of an event loop, interns in its own.
"""

from __future__ import annotations

from _contextvars import ContextVar  # `contextvars` is a file that says just this
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import lru_cache, wraps
from itertools import count
from typing import Any, TypeVar, cast

F = TypeVar("F", bound=Callable[..., Any])

_STRIDE = 1 << 24
"""More than one execution numbers. Beginning at a multiple of it, sets of numbers have the order that they have in a
process of their own."""
_AGES = count()


class InternPool:
    """The keys of one execution. `age` tells it from all others of this process."""

    __slots__ = ("age", "answers", "conjunctions", "fresh", "keys", "numbers", "ranked")

    def __init__(self) -> None:
        self.age = next(_AGES)
        self.keys: dict[Hashable, Hashable] = {}
        self.numbers: dict[Hashable, int] = {}
        self.ranked: dict[int, int] = {}
        # A number is never given twice, not by another pool either: what has one may still be there.
        self.fresh = count(self.age * _STRIDE)
        self.answers: dict[Callable[..., Any], Callable[..., Any]] = {}
        """Functions that remember what they found of this program."""
        self.conjunctions: dict[Hashable, Any] = {}


_POOL: ContextVar[InternPool] = ContextVar("intern pool", default=InternPool())
"""Outside of an execution, all threads have the one that is there from the beginning."""


def age() -> int:
    """A number that changes where all keys are forgotten: what was interned under another one has to be again."""
    return _POOL.get().age


def interned(key: Hashable) -> Hashable:
    """The one object that stands for all keys equal to this one."""
    return _POOL.get().keys.setdefault(key, key)


def numbered(key: Hashable) -> int:
    """A number for all keys equal to this one: hashing and comparing it costs next to nothing."""
    pool = _POOL.get()
    number = pool.numbers.get(key)
    if number is None:
        number = pool.numbers[key] = next(pool.fresh)
    return number


def numbered_from(key: Hashable, many: int) -> int:
    """The first of so many numbers, one behind the other, for all keys equal to this one."""
    pool = _POOL.get()
    number = pool.numbers.get(key)
    if number is None:
        number = pool.numbers[key] = next(pool.fresh)
        pool.fresh = count(number + many)
    return number


def ranked(key: Hashable) -> None:
    """Note that an interned key was there now, if it was not before."""
    known = _POOL.get().ranked
    known.setdefault(id(key), len(known))


def rank_of(key: Hashable) -> int:
    """How many keys were there before this one, -1 for what is older than all: an order that each run has."""
    return _POOL.get().ranked.get(id(key), -1)


def conjunctions() -> dict[Hashable, Any]:
    """The conditions that were made of another one and one more test."""
    return _POOL.get().conjunctions


def is_interned(key: Hashable) -> bool:
    """An equal key was interned before."""
    return key in _POOL.get().keys


def for_one_program(function: F) -> F:
    """Let a function of what a program holds remember its answers, until another program begins."""

    @wraps(function)
    def ask(*args: Hashable) -> Any:
        answers = _POOL.get().answers
        found = answers.get(function)
        if found is None:
            found = answers[function] = lru_cache(maxsize=1024)(function)
        return found(*args)

    return cast("F", ask)


def forget_keys() -> None:
    """Begin anew. What was interned before still is equal to itself, and to nothing that comes later."""
    _POOL.set(InternPool())


@contextmanager
def own_keys() -> Iterator[None]:
    """Inside, keys are interned anew; after it, as before."""
    token = _POOL.set(InternPool())
    try:
        yield
    finally:
        _POOL.reset(token)
