"""Memory in layers: a branch writes into a layer of its own, and a join merges the layers that lived.

A key is anything hashable: a name in a frame, an attribute of an object, a fact about it. What was made inside a branch
is known to nobody outside, so what is written about it there is told apart from nothing: it stays, and no join has to
carry it out of the branch. Most writes of a program are about such things.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Generic, TypeVar

from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.flow.valueset import Met, ValueSet, union

V = TypeVar("V")
Delta = dict[Hashable, ValueSet[V]]


class Store(Generic[V]):
    """What every name, attribute and fact holds now.

    `age_of` tells by the `clock` when the owner of a key was made; the owners of most keys of a flat test never were.
    """

    def __init__(self, age_of: Callable[[Hashable], int] = lambda key: -1) -> None:
        self._age_of = age_of
        self.clock = 0
        """Set forward by who makes something."""
        self._layers: list[Delta[V]] = [{}]
        # For each layer the time since when what is made is known to nobody outside of it.
        self._opened: list[int] = [0]
        # What all layers say together, and for each layer what that was before the layer wrote: reading is far more
        # frequent than opening and closing a layer.
        self.now: Delta[V] = {}
        """To be read only."""
        self._before: list[list[tuple[Hashable, ValueSet[V] | None]]] = [[]]
        self._names: dict[Hashable, dict[str, None]] = {}

    def get(self, key: Hashable) -> ValueSet[V] | None:
        """What the key holds, or None where nothing was written."""
        return self.now.get(key)

    def set(self, key: Hashable, values: ValueSet[V], age: int | None = None) -> None:
        now = self.now
        # Hashing a key takes longer than all else here: the first time that it is written, what it is written to grows.
        if (self._age_of(key) if age is None else age) < self._opened[-1]:
            layer = self._layers[-1]
            size = len(layer)
            layer[key] = values
            if len(layer) > size:
                self._before[-1].append((key, now.get(key)))
        known = len(now)
        now[key] = values
        # What was there already has its name among the others.
        if len(now) > known and type(key) is tuple and len(key) == 2 and isinstance(key[1], str):
            self._names.setdefault(key[0], {})[key[1]] = None

    def begin(self, owner: Hashable, held: Iterable[tuple[tuple[Hashable, ...], ValueSet[V]]]) -> None:
        """Write what something holds that was made here: of each cell the rest of its key, and the values."""
        now = self.now
        names = self._names.setdefault(owner, {})
        for rest, values in held:
            key: Hashable = (owner, *rest)
            now[key] = values
            if len(rest) == 1 and isinstance(rest[0], str):
                names[rest[0]] = None

    def apply(self, writes: Mapping[Hashable, ValueSet[V]]) -> None:
        """Write what the only side wrote that has come out: it holds without a condition."""
        opened, before, layer, now = self._opened[-1], self._before[-1], self._layers[-1], self.now
        for key, values in writes.items():
            if self._age_of(key) < opened:
                size = len(layer)
                layer[key] = values
                if len(layer) > size:
                    before.append((key, now.get(key)))
        # The keys are hashed already.
        now.update(writes)

    @property
    def depth(self) -> int:
        """The number of layers now."""
        return len(self._layers)

    def delta(self) -> _Open[V]:
        """Writes go into the yielded layer until the block ends; then they are forgotten here."""
        return _Open(self)

    def open(self) -> Delta[V]:
        """Begin a layer; `close` ends it."""
        fresh: Delta[V] = {}
        self._layers.append(fresh)
        self._before.append([])
        self._opened.append(self.clock)
        return fresh

    def close(self) -> None:
        """Forget the last layer."""
        self._opened.pop()
        self._layers.pop()
        self._restore(self._before.pop())

    def _restore(self, before: Sequence[tuple[Hashable, ValueSet[V] | None]]) -> None:
        for key, values in before:
            if values is None:
                # It was not written where the time was over in between, which a timer may say at any step.
                self.now.pop(key, None)
            else:
                self.now[key] = values

    @contextmanager
    def at_bottom(self) -> Iterator[None]:
        """Writes go where every path sees them, as those of a module that is imported late must."""
        above, opened = self._layers[1:], self._opened[1:]
        del self._layers[1:], self._opened[1:]
        # What the branches wrote must not be seen by the module that is imported meanwhile.
        while len(self._before) > 1:
            self._restore(self._before.pop())
        try:
            yield
        finally:
            for layer in above:
                self._layers.append(layer)
                self._before.append([(key, self.now.get(key)) for key in layer])
                self.now.update(layer)
            self._opened += opened

    def names(self, scope: Hashable) -> list[str]:
        """The names that were ever bound in a scope, for keys that are pairs of a scope and a name."""
        return list(self._names.get(scope, ()))

    def forget(self, scope: Hashable) -> None:
        """The names of a scope that has ended, which nothing can ask for any more."""
        for name in self._names.pop(scope, ()):
            self.now.pop((scope, name), None)

    def changes_since(self, depth: int) -> Delta[V]:
        """All writes above `depth` layers, in one layer: what holds on a path that leaves here."""
        merged: Delta[V] = {}
        # The path takes along what was made so far, so what the others write about it must be told apart from now on.
        self._opened[depth:] = [self.clock] * (len(self._opened) - depth)
        for layer in self._layers[depth:]:
            merged.update(layer)
        return merged

    def merge(
        self,
        sides: Sequence[tuple[Condition, Mapping[Hashable, ValueSet[V]]]],
        missing: ValueSet[V],
        widen: Callable[[Hashable, ValueSet[V]], ValueSet[V]],
    ) -> None:
        """Write what holds after several sides, each under its condition.

        A side that did not write a key left the old value there; `missing` stands for a key that had none. `widen`
        makes a set that has grown too large smaller.
        """
        if len(sides) == 1:
            self.apply(sides[0][1])
            return
        # What many names hold, they hold under the same few conditions.
        guards: list[tuple[Condition, Met]] = [(when, {}) for when, _ in sides]
        for key in {key: None for _, layer in sides for key in layer}:
            old = self.get(key) or missing
            parts = [layer.get(key, old) for _, layer in sides]
            joined = parts[0]
            if any([part is not joined and part != joined for part in parts[1:]]):  # noqa: C419, a list is quicker here
                joined = union([part.guarded_by(when, met) for part, (when, met) in zip(parts, guards, strict=True)])
            self.set(key, widen(key, joined))


class _Open(Generic[V]):
    """A layer for the length of a block; written out, because so many are opened."""

    __slots__ = ("_store",)

    def __init__(self, store: Store[V]) -> None:
        self._store = store

    def __enter__(self) -> Delta[V]:
        return self._store.open()

    def __exit__(self, *error: object) -> None:
        self._store.close()
