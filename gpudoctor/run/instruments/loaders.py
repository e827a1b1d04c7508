"""Passes over data loaders: which samples, in which order, and how long the program waited for them."""

from __future__ import annotations

import base64
import functools
import hashlib
import sys
import weakref
import zlib
from array import array
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.data import DataLoader, IterableDataset, Subset, TensorDataset
from torch.utils.data import dataloader as data
from torch.utils.data.distributed import DistributedSampler

from gpudoctor.run.clock import perf_counter
from gpudoctor.run.instruments.fingerprints import content_of, print_of, table_of
from gpudoctor.run.instruments.state import State
from gpudoctor.run.stand_ins import standing_for

_MOST_PRINTS = 64
"""Batches of a pass whose content is looked at."""
_MOST_NOISE = 8
"""Batches of a pass for which it is looked at whether random numbers were drawn."""
_MOST_PRINTS_TOO = 16
"""Where the places of samples tell more."""
_SETTLE_AFTER = 64
"""Batches."""
_MOST_SAMPLES = 100_000
"""Places of samples that are kept of a pass."""
_MOST_PASSES = 400
"""Passes that are written down, of one process."""
_PASS = "_gpudoctor_pass"
"""The attribute of an iterator: a dict with weak keys takes longer, and is asked for each batch."""
_nodes_built: Callable[[], int] = getattr(torch.autograd, "_get_sequence_nr", int)
"""How many nodes this thread has built of graphs; no promise of PyTorch."""
_COUNTS_NODES = _nodes_built is not int
_NONE = object()
"""In the place of a batch."""
_FIRST_PASSES, _AGAIN = 16, 1.0
"""Passes whose batches are looked at. Of a later one a line is written anew only after so many seconds: where passes
are short, that would cost more than all the rest."""


def watch(state: State) -> None:
    """Write a line where a pass begins, and what it has handed out as it goes on."""
    told = _watch_samplers(state)
    _Loaders(state, told).install()


EpochsTold = weakref.WeakKeyDictionary[Any, tuple[int, Any]]
"""How often samplers were told an epoch, and where last."""


def _watch_samplers(state: State) -> EpochsTold:
    """Write a line where a sampler that shares data out is made, and remember which of them are told the epoch."""
    told: EpochsTold = weakref.WeakKeyDictionary()

    def note_made(sampler: Any, dataset: Any, *args: Any, **keywords: Any) -> None:
        state.write("sampler", dataset=id(dataset), place=state.recorder.place())

    def note_told(sampler: Any, *args: Any, **keywords: Any) -> None:
        told[sampler] = told.get(sampler, (0, None))[0] + 1, state.recorder.place()

    DistributedSampler.__init__ = state.recorder.before(DistributedSampler.__init__, note_made)
    DistributedSampler.set_epoch = state.recorder.before(DistributedSampler.set_epoch, note_told)
    return told


class _Loaders:
    def __init__(self, state: State, told: EpochsTold) -> None:
        self._state = state
        self._told = told
        self._numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._beginning: list[_WatchedPass] = []
        self._gone = state.recorder.guarded(self._left)
        self._open: dict[int, weakref.ref[Any]] = {}
        self._begun = 0

    def install(self) -> None:
        """Watch where a pass begins, where samples are drawn and where a batch is handed out."""
        start = DataLoader.__iter__
        draw, following = data._BaseDataLoaderIter._next_index, data._BaseDataLoaderIter.__next__
        begin, end = self._state.recorder.guarded(self._begin), self._state.recorder.guarded(self._end_of_beginning)
        drawn, handed = self._state.recorder.guarded(self._drawn), self._state.recorder.guarded(self._handed_out)
        over, state = self._state.recorder.guarded(self._over), self._state
        beginning = self._beginning

        @standing_for(start)
        def watched_start(loader: Any) -> Any:
            begin(loader)
            iterator = None
            try:
                iterator = start(loader)
            finally:
                end(loader, iterator)
            return iterator

        @standing_for(draw)
        def watched_draw(iterator: Any) -> Any:
            index = draw(iterator)
            here = None if beginning else getattr(iterator, _PASS, None)
            if here is not None and here.only_counts:
                # Not guarded, which would cost more than this.
                here.drawn.append(index)
            else:
                drawn(iterator, index)
            return index

        @standing_for(following)
        def watched_next(iterator: Any) -> Any:
            # As a `Span` does, in one function: this comes with each batch.
            rests = state.resting
            if not rests:
                state.inside += 1
            batch: Any = _NONE
            began = perf_counter()
            try:
                batch = following(iterator)
            except StopIteration:
                over(iterator)
                raise
            finally:
                waited = perf_counter() - began
                if not rests:
                    state.inside -= 1
                if state.tells_starts:
                    state.spend("wait", waited)
                else:
                    state.waited += waited
                if batch is _NONE:
                    state.failed(sys.exc_info()[1])
            here = getattr(iterator, _PASS, None)
            if here is not None and (number := here.batches + 1) < here.next_work:
                # Not guarded, either.
                state.batches += 1
                here.batches = number
            else:
                handed(here, batch)
            return batch

        DataLoader.__init__ = state.recorder.before(DataLoader.__init__, self._note_made)
        DataLoader.__iter__ = watched_start
        data._BaseDataLoaderIter._next_index = watched_draw
        data._BaseDataLoaderIter.__next__ = watched_next

    def _note_made(self, loader: Any, *args: Any, **keywords: Any) -> None:
        self._state.loaders_made[loader] = self._state.recorder.place()

    def _begin(self, loader: Any) -> None:
        self._begun += 1
        number = self._numbers.setdefault(loader, len(self._numbers))
        # Workers ask for their first batches while the iterator is made, so the pass exists before it.
        told, where = self._told.get(loader.sampler, (0, None)) if _can_be_watched(loader.sampler) else (0, None)
        about = {
            **_about(loader),
            "loader": number,
            "made": self._state.loaders_made.get(loader),
            "prepared": loader in self._state.prepared,
            "skipped": self._state.skipping.get(loader, 0),
            "told": told,
            "told_at": where,
            "place": self._state.recorder.place(),
        }
        self._beginning.append(_WatchedPass(self._begun, about, loader, self._state))

    def _end_of_beginning(self, loader: Any, iterator: Any) -> None:
        made = self._beginning.pop() if self._beginning else None
        if iterator is not None and made is not None:
            setattr(iterator, _PASS, made)
            # One that a loader keeps for its workers goes on in the next pass.
            if made.number <= _MOST_PASSES and iterator is not getattr(loader, "_iterator", None):
                self._open[made.number] = weakref.ref(iterator, functools.partial(self._gone, made))

    def _left(self, here: _WatchedPass, _: Any) -> None:
        """Nobody goes on with the pass. When the process ends that is true of all."""
        del self._open[here.number]
        if not here.ended and not self._state.told_the_rest:
            here.write(left=True)

    def _drawn(self, iterator: Any, index: Any) -> None:
        # A persistent iterator is reset inside `start` and still belongs to the pass before.
        here = self._beginning[-1] if self._beginning else getattr(iterator, _PASS, None)
        if here is not None:
            here.drawn.append(index)
            here.begin_batch()

    def _handed_out(self, here: _WatchedPass | None, batch: Any) -> None:
        self._state.batches += 1
        if here is not None:
            here.take(batch)

    def _over(self, iterator: Any) -> None:
        here = getattr(iterator, _PASS, None)
        if here is not None:
            setattr(iterator, _PASS, None)
            here.ended = True
            here.write()


class _WatchedPass:
    """One iteration over a loader."""

    def __init__(self, number: int, about: dict[str, Any], loader: Any, state: State) -> None:
        self.drawn: deque[Any] = deque()
        self._state = state
        self.number = number
        self._about = about
        self._dataset = _reference(loader.dataset) if _by_place(loader) else lambda: None
        self._looked_at = number <= _FIRST_PASSES
        # Workers draw elsewhere.
        self.only_counts = not self._looked_at or bool(about["workers"])
        self._most_prints = (_MOST_PRINTS_TOO if _by_place(loader) else _MOST_PRINTS) if self._looked_at else 0
        self._wrote = 0.0
        self._places = array("q")
        self._samples = 0
        self._prints: list[str] = []
        self._noise: list[str] = []
        self._tokens = self._sequences = 0
        self._before = ""
        self._digest = hashlib.blake2b(digest_size=8)
        self.batches = self._settled = 0
        self.ended = False
        self.next_work = 0
        """The batch with which there is more to do than to count it."""
        self._steps = state.steps
        self._backwards = state.backwards
        self._exchanges = state.exchanges
        self._nodes = _nodes_built() if _COUNTS_NODES else 0
        self._made = (0, 0)
        self.write()

    def begin_batch(self) -> None:
        self.only_counts = self.only_counts or self.batches >= _MOST_NOISE
        if not self.only_counts:
            self._before = _generator()

    def take(self, batch: Any) -> None:
        """One more batch, and what is to be told of it."""
        self.batches += 1
        # Numbers that were drawn to make the batch, from a generator that was as it is named here.
        if self._before and self._before != _generator():
            self._noise.append(self._before)
        self._before = ""
        if self.batches - self._settled >= _SETTLE_AFTER:
            self._settle()
        if len(self._prints) < self._most_prints:
            self._prints.append(print_of(batch))
            table = table_of(batch)
            if table is not None:
                self._tokens += table.rows * table.columns
                self._sequences += table.rows
                self._state.note_table(table)
        # A process that is killed has told most of it: the lines become rarer as the pass goes on.
        often = self._looked_at or perf_counter() - self._wrote > _AGAIN
        if often and self.batches & (self.batches - 1) == 0:
            self.write()
        if self.only_counts and len(self._prints) >= self._most_prints:
            self.next_work = min(1 << self.batches.bit_length(), self._settled + _SETTLE_AFTER)

    def write(self, *, left: bool = False) -> None:
        self._settle()
        if self.number > _MOST_PASSES:
            return
        self._wrote = perf_counter()
        # Whoever keeps an iterator lets it go when others have made steps.
        if not left:
            self._made = (self._state.steps - self._steps, self._state.backwards - self._backwards)
        self._state.write(
            "pass",
            number=self.number,
            batches=self.batches,
            steps=self._made[0],
            first_step=self._steps,
            backwards=self._made[1],
            ended=self.ended,
            left=left,
            backwards_when_left=self._state.backwards - self._backwards if left else 0,
            exchanges=self._exchanges,
            exchanged_first=self._exchanged_first(),
            gradient=_nodes_built() > self._nodes if _COUNTS_NODES else torch.is_grad_enabled(),
            training=_training(self._state),
            digest=self._digest.hexdigest(),
            places=base64.b64encode(zlib.compress(self._places.tobytes(), 1)).decode(),
            samples=self._samples,
            prints=self._prints,
            noise=self._noise,
            tokens=self._tokens if self._state.reads_tokens else 0,
            sequences=self._sequences if self._state.reads_tokens else 0,
            **self._about,
        )

    def _exchanged_first(self) -> int | None:
        if self._state.backwards == 0 or self._backwards:
            return None
        return self._state.exchanges_before_backward - self._exchanges

    def _settle(self) -> None:
        """Write down which samples were taken. Not for each batch, because that takes a while."""
        taken: list[Any] = []
        # Workers are ahead of what was handed out.
        drawn, several = self.drawn, (list, tuple)
        for _ in range(min(len(drawn), self.batches - self._settled)):
            index = drawn.popleft()
            taken += index if isinstance(index, several) else (index,)
        self._settled = self.batches
        self._keep(taken)

    def _keep(self, places: list[Any]) -> None:
        dataset = self._dataset()
        if dataset is None:
            return
        while isinstance(dataset, Subset):
            places = [dataset.indices[place] for place in places]
            dataset = dataset.dataset
        try:
            kept = array("q", places)
        except (TypeError, OverflowError):
            # Keys, not places.
            return
        self._digest.update(kept.tobytes())
        self._samples += len(kept)
        if len(self._places) < _MOST_SAMPLES:
            self._places.extend(kept)


def _can_be_watched(given: Any) -> bool:
    """Lists and tuples, which do for a data set or a sampler, know nobody who looks at them."""
    return getattr(type(given), "__weakrefoffset__", 0) != 0


def _reference(dataset: Any) -> Callable[[], Any]:
    # The loader holds it as long as the pass goes on.
    return weakref.ref(dataset) if _can_be_watched(dataset) else lambda: dataset


def _training(state: State) -> bool | None:
    """The wrapped models are in training mode; None where there is none, or they differ."""
    modes = {wrapper.training for wrapper in state.wrappers}
    return modes.pop() if len(modes) == 1 else None


def _generator() -> str:
    """A name for the state of torch's generator."""
    return hashlib.blake2b(content_of(torch.get_rng_state()), digest_size=8).hexdigest()


def _by_place(loader: Any) -> bool:
    return not isinstance(loader.dataset, IterableDataset)


def _size(dataset: Any) -> int | None:
    try:
        return len(dataset)
    # That of Accelerate around a stream has `__len__`, and asks the stream.
    except (TypeError, NotImplementedError):
        return None


def _about(loader: Any) -> dict[str, Any]:
    sampler = loader.sampler
    size = _size(loader.dataset)
    return {
        "dataset": id(loader.dataset),
        "root": id(_root(loader.dataset)),
        "iterable": not _by_place(loader),
        "size": size,
        "batch_size": _given(loader, "batch_size", int),
        "workers": loader.num_workers,
        "sampler": type(sampler).__name__,
        "replicas": _given(sampler, "num_replicas", int),
        "sampler_rank": _given(sampler, "rank", int),
        "seed": _given(sampler, "seed", int),
        "in_memory": _in_memory(loader.dataset),
        "epoch": _given(sampler, "epoch", int),
        "shuffle": _given(sampler, "shuffle", bool),
    }


def _given(owner: Any, name: str, kind: type) -> Any:
    """What a loader or a sampler has under this name, where that means the same as with those of torch."""
    value = getattr(owner, name, None)
    return value if type(value) is kind else None


def _root(dataset: Any) -> Any:
    """The data set that this is a part of."""
    while isinstance(dataset, Subset):
        dataset = dataset.dataset
    return dataset


def _in_memory(dataset: Any) -> bool:
    # A part of data that lies in memory lies there, too.
    dataset = _root(dataset)
    held = (
        list(dataset.tensors) if isinstance(dataset, TensorDataset) else list(getattr(dataset, "__dict__", {}).values())
    )
    arrays = [each for each in held if hasattr(each, "shape") and hasattr(each, "dtype") and len(each.shape)]
    return any(len(each) == len(dataset) for each in arrays)
