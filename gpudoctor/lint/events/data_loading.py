"""Events of data on its way to a step: data sets, samplers, loaders and what their batches are made of."""

from __future__ import annotations

from gpudoctor.lint.domain.data import Dataset, Loader, Sampler
from gpudoctor.lint.domain.rank import Numbers
from gpudoctor.lint.domain.value import Unknown
from gpudoctor.lint.events.event_context import Event, Loop, RankAgreement
from gpudoctor.lint.flow.condition import Divergence, Literal
from gpudoctor.record import dataclass


@dataclass(frozen=True, kw_only=True)
class Split(Event):
    """A data set is split at random, with a generator of its own or the one of the process. `seed` is that of its own
    one, None where that is not known."""

    call: str
    own_generator: bool = False
    seed: RankAgreement | None = None
    by_numpy: bool = False
    """The numbers of the process are those of NumPy, not those of torch."""
    keeps_all: bool = False
    """It has all of the samples afterwards, in another order."""


@dataclass(frozen=True, kw_only=True)
class MakeSampler(Event):
    """A sampler is made."""

    sampler: Sampler
    group_exists: bool | None = None

    @property
    def lacks_group(self) -> bool:
        """It asks a process group that surely was not made. Given both numbers, it asks none."""
        told = self.sampler.rank is not None and self.sampler.replicas is not None
        return self.group_exists is False and not told and bool(self.sampler.distributed)

    @property
    def seed_is_own_where(self) -> list[Literal]:
        """On which path each process has drawn the seed for itself: `if seed is None: seed = random.randint(…)`."""
        bindings = self.sampler.seed.bindings if self.sampler.seed is not None else ()
        return next(([*each.condition] for each in bindings if each.value.divergence & Divergence.LOCAL), [])


@dataclass(frozen=True, kw_only=True)
class MakeLoader(Event):
    """A loader is made."""

    loader: Loader

    @property
    def of_stream(self) -> bool:
        """Its data set has no index to pick from, whichever it is here."""
        data = self.loader.dataset
        return data is not None and data.restrict(self.condition).all(lambda value: value.iterable is True)


@dataclass(frozen=True, kw_only=True)
class Iterate(Event):
    """A loop over the batches of a loader begins. The loop itself is the innermost of `within` where it is a `for`."""

    loader: Loader
    loop: Loop | None = None


@dataclass(frozen=True, kw_only=True)
class SkipBatches(Event):
    """`loader` leaves out the first batches of another one, in each pass over it."""

    loader: Loader


@dataclass(frozen=True, kw_only=True)
class SetEpoch(Event):
    """`set_epoch(epoch)`. `target` is what it was called on."""

    target: Sampler | Loader | Dataset | Unknown
    epoch: Numbers | None


@dataclass(frozen=True, kw_only=True)
class Augments(Event):
    """A transform is made that changes samples at random: `RandomCrop`."""

    call: str


@dataclass(frozen=True, kw_only=True)
class DrawsNoise(Event):
    """Random numbers are drawn from the generator of the process, as many as a batch has samples or entries."""

    call: str
    one_each: bool = False
    """One number for each sample, as its time step."""


@dataclass(frozen=True, kw_only=True)
class PickedAtRandom(Event):
    """Which samples are taken out of the data is drawn, from generators of the process: of torch, numpy or python."""

    drawn_from: frozenset[str]


@dataclass(frozen=True, kw_only=True)
class BatchCut(Event):
    """Each rank takes its own rows of a batch of `loader`, of which all ranks have the whole."""

    loader: Loader


@dataclass(frozen=True, kw_only=True)
class CutOff(Event):
    """What lies behind an end is left out, which was computed from how many there are of something:
    `predictions[:len(dataset)]`."""


@dataclass(frozen=True, kw_only=True)
class ItemRead(Event):
    """A data set of the project reads a file, here, for each item that it is asked for."""

    dataset: Dataset
    call: str


@dataclass(frozen=True, kw_only=True)
class IndexIgnored(Event):
    """A data set of the project makes its items without a look at the index: it draws them, in whatever order."""

    dataset: Dataset


@dataclass(frozen=True, kw_only=True)
class StreamLoaded(Event):
    """A library gives all samples of a data set one after the other, the same to whoever asks."""

    stream: Unknown


@dataclass(frozen=True, kw_only=True)
class Streamed(Event):
    """A stream or a sampler of the project (`source`) was followed through its `__iter__`."""

    source: Dataset | Sampler
    same_on_ranks: bool
    """It gives all that it holds, once, and nothing in it depends on the rank."""
    same_in_workers: bool
    """Nor on the worker of a loader."""
    by_pieces: bool
    """It gives all of one piece after the other, as many as each has: `for path in files: for line in open(path)`."""
    by_rank: bool = False
    """What it gives out is picked by the rank: `islice(stream, rank, None, world_size)`."""
    by_epoch: bool = False
    """A sampler that draws its order anew each time, from a seed which nothing but its `set_epoch` changes."""
