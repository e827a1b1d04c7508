"""Passes over data loaders: which samples, in which order."""

from __future__ import annotations

import weakref
from collections import deque
from typing import TYPE_CHECKING

from torch.utils.data import DataLoader, IterableDataset, Subset
from torch.utils.data import dataloader as data

from . import fingerprints

if TYPE_CHECKING:
    from .journal import Journal


def watch(journal: Journal) -> None:
    """Write a line for each pass over a loader and for each batch it gives."""
    passes: weakref.WeakKeyDictionary[object, _Pass] = weakref.WeakKeyDictionary()
    numbers: weakref.WeakKeyDictionary[DataLoader, int] = weakref.WeakKeyDictionary()
    started = 0
    start, draw, following = (
        DataLoader.__iter__,
        data._BaseDataLoaderIter._next_index,
        data._BaseDataLoaderIter.__next__,
    )

    def watched_start(loader: DataLoader) -> object:
        nonlocal started
        started += 1
        # Workers ask for their first batches while the iterator is made, so the pass exists before it.
        current.append(_Pass(started, loader))
        try:
            iterator = start(loader)
        finally:
            made = current.pop()
        passes[iterator] = made
        number = numbers.setdefault(loader, len(numbers))
        journal.write("pass", number=made.number, loader=number, **_about(loader))
        return iterator

    def watched_draw(iterator: object) -> object:
        index = draw(iterator)
        # A persistent iterator is reset inside `start` and still belongs to the pass before.
        here = current[-1] if current else passes.get(iterator)
        if here is not None:
            here.drawn.append(here.samples(index))
        return index

    def watched_next(iterator: object) -> object:
        batch = following(iterator)
        here = passes.get(iterator)
        if here is not None:
            index = here.drawn.popleft() if here.drawn else None
            journal.write("batch", number=here.number, rows=fingerprints.of_rows(batch), index=index)
        return batch

    current: list[_Pass] = []
    DataLoader.__iter__ = watched_start
    data._BaseDataLoaderIter._next_index = watched_draw
    data._BaseDataLoaderIter.__next__ = watched_next


class _Pass:
    """One iteration over a loader, and the samples drawn in it that were not handed out yet."""

    def __init__(self, number: int, loader: DataLoader) -> None:
        self.number = number
        self.drawn: deque[list[object] | None] = deque()
        self._loader = weakref.ref(loader)

    def samples(self, index: object) -> list[object] | None:
        """Where the drawn samples lie in the data set that was split, if they are drawn by place."""
        loader = self._loader()
        if loader is None or isinstance(loader.dataset, IterableDataset):
            return None
        places = list(index) if isinstance(index, (list, tuple)) else [index]
        dataset = loader.dataset
        while isinstance(dataset, Subset):
            places = [dataset.indices[place] for place in places]
            dataset = dataset.dataset
        return [int(place) if hasattr(place, "__int__") else str(place) for place in places]


def _about(loader: DataLoader) -> dict[str, object]:
    return {
        "size": _size(loader.dataset),
        "batch_size": loader.batch_size,
        "drop_last": loader.drop_last,
        "workers": loader.num_workers,
        "sampler": type(loader.sampler).__name__,
    }


def _size(dataset: object) -> int | None:
    try:
        return len(dataset)  # type: ignore[arg-type]
    # One around a stream has `__len__`, and asks the stream.
    except (TypeError, NotImplementedError):
        return None
