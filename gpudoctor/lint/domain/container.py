"""Tuples, lists, dictionaries and ranges. The contents of the mutable ones stand in the store."""

from __future__ import annotations

from gpudoctor.lint.domain.value import Allocated, Composed, Value, Values, divergence_of, single_of
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.record import dataclass


@dataclass(frozen=True, slots=True, eq=False)
class TupleOf(Composed):
    """A tuple whose items are known one by one."""

    is_object = True
    is_setting = True

    items: tuple[Values, ...]

    @property
    def truth(self) -> bool:
        return bool(self.items)


def items_held(values: Values | None) -> tuple[Values, ...]:
    """The items of the one tuple that this is; none where it may be something else, or nothing is there."""
    only = single_of(values)
    return only.items if isinstance(only, TupleOf) else ()


@dataclass(frozen=True, eq=False, repr=False)
class ListOf(Allocated):
    """A list or a set; its items stand in the store."""

    is_setting = True
    is_mutable = True

    kind: str = "list"


@dataclass(frozen=True, eq=False, repr=False)
class DictOf(Allocated):
    """A dictionary; its entries stand in the store."""

    is_mutable = True

    cls: Value | None = None
    """The class of the project that it is of: `class Config(dict)`."""


@dataclass(frozen=True, eq=False)
class Range(Composed):
    """`range(start, stop)`: whether it runs at most once is what rules ask."""

    is_object = True

    start: Values
    stop: Values

    @property
    def divergence(self) -> Divergence:
        return divergence_of((*self.start, *self.stop))


@dataclass(frozen=True, eq=False)
class Slice(Composed):
    """`start:stop:step` between brackets; None for a part that is left out."""

    start: Values | None
    stop: Values | None
    step: Values | None

    @property
    def divergence(self) -> Divergence:
        return divergence_of((*(self.start or ()), *(self.stop or ()), *(self.step or ())))


@dataclass(frozen=True, eq=False)
class Enumerated(Composed):
    """`enumerate(x)`, `zip(x, y)`, `tqdm(x)`: something that iterates others. `kind` is one of these names."""

    is_object = True

    kind: str
    items: tuple[Values, ...]
    open_ended: bool = False
    """`zip(*columns)`: nobody knows how many of such items there are."""
