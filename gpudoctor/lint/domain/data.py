"""Data sets, samplers, loaders and what comes out of them."""

from __future__ import annotations

from functools import reduce

from gpudoctor.lint.domain.function import Class
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    TRUE,
    Allocated,
    Const,
    Value,
    Values,
    constant_of,
    int_of,
    single_of,
)
from gpudoctor.lint.flow.condition import ALWAYS, Condition
from gpudoctor.record import dataclass, replace


def _is_left_out(given: Values | None) -> bool:
    return given is None or given.single == NONE


@dataclass(frozen=True, eq=False, repr=False)
class Dataset(Allocated):
    """A data set. `iterable` for an IterableDataset (None: not known), `sharded` where each rank has its own part,
    `in_memory` where its items are tensors that lie in memory already, `split` for one half of a random split."""

    is_choice = True
    has_many = True

    cls: Class | None = None
    made_by: str = ""
    iterable: bool | None = None
    sharded: bool = False
    in_memory: bool = False
    parent: Value | None = None
    train: bool | None = None
    draws: bool = False
    """Its items do not depend on the index: it makes or draws one at random whenever it is asked."""
    reordered: bool = False
    """It has a choice of what another one holds, which may stand in an order of its own: a random split."""

    @property
    def source(self) -> Dataset:
        """The data set whose method makes the items, under those that only pick."""
        return self.parent.source if isinstance(self.parent, Dataset) else self

    def on_each_rank(self) -> Dataset:
        return replace(self, sharded=True)


@dataclass(frozen=True, eq=False, repr=False)
class RandomGenerator(Allocated):
    """A generator of random numbers apart from that of the process: `torch.Generator()`."""


@dataclass(frozen=True, eq=False, repr=False)
class Sampler(Allocated):
    """A sampler. `distributed` where it gives each rank its own share (None: not known, as for a class of the
    project). `rank`, `replicas` and `shuffle` are the arguments as given, None where they were left out."""

    is_choice = True

    made_by: str
    distributed: bool | None
    dataset: Values | None = None
    rank: Values | None = None
    replicas: Values | None = None
    shuffle: Values | None = None
    seed: Values | None = None
    sets_own_epoch: bool = False
    inner: Value | None = None
    """The sampler inside a batch sampler."""
    own: Class | None = None
    """The project's class that it is an object of. Its `set_epoch` is the sampler's all the same."""
    count: Values | None = None
    """How many samples a random sampler draws, where that is given."""
    generator: Values | None = None
    """What a random sampler draws with, as given; without one it is the generator of the process."""

    @property
    def base(self) -> Sampler:
        """The sampler that picks indices: the innermost one."""
        return self.inner.base if isinstance(self.inner, Sampler) else self

    @property
    def in_order(self) -> bool:
        """It surely shuffles nothing: `shuffle=False`."""
        return self.shuffle is not None and self.shuffle.single == FALSE

    @property
    def may_shuffle(self) -> bool:
        """Left out, `shuffle` means True for a sampler, unlike for a loader."""
        return self.shuffle is None or not self.shuffle.all(lambda value: value == FALSE)

    @property
    def surely_shuffles(self) -> bool:
        return self.shuffle is None or self.shuffle.all(lambda value: value == TRUE)

    @property
    def by_process(self) -> bool:
        """It draws with the generator of the process, and not with one of its own."""
        return _is_left_out(self.generator)

    @property
    def shares(self) -> bool:
        """Each rank gets a share of its own, and not all of the data as the only replica."""
        return bool(self.distributed) and (self.replicas is None or self.replicas.single != Const(1))


@dataclass(frozen=True, eq=False, repr=False)
class Loader(Allocated):
    """A DataLoader, or a thing that yields batches. Arguments as given, None where they were left out.

    `managed` names the framework that shards it (`accelerate`), `sharded` says that each rank reads its own part
    without a sampler's help. `opaque` where it was made by code that could not be read.
    """

    is_choice = True
    has_many = True

    dataset: Values | None = None
    sampler: Values | None = None
    batch_sampler: Values | None = None
    shuffle: Values | None = None
    batch_size: Values | None = None
    num_workers: Values | None = None
    pin_memory: Values | None = None
    drop_last: Values | None = None
    managed: str = ""
    opaque: bool = False
    sharded: bool = False
    """Each rank reads its own part without a distributed sampler's help: the data set was cut by rank, or may be."""
    surely_sharded: bool = False
    """It is cut by what is known to be another thing on each rank."""
    custom_collate: bool = False
    collate: Values | None = None
    context: Values | None = None
    """How its workers are started, as given."""
    cls: Class | None = None
    """The project's class where the loader is an object of one that derives from DataLoader."""
    worker_init: bool = False
    """A function prepares each worker, and may give it a part of its own."""
    generator: Values | None = None
    """What it draws random numbers with, the seeds of its workers among them."""
    made_up: bool = False
    """Its data are random numbers that the program has drawn itself: their order means nothing."""
    takes_data_as: str = "dataset"
    """Its parameter for what it deals out."""
    keeps_sampler_as: str = "sampler"
    """The attribute that has its sampler: a library's own loader may have another name for it."""
    class_name = "torch.utils.data.DataLoader"

    def shuffles(self, when: Condition = ALWAYS) -> bool:
        """It surely shuffles, on such paths."""
        return self.shuffle is not None and self.shuffle.restrict(when).all(lambda value: value == TRUE)

    @property
    def keeps_order(self) -> bool:
        """It is told not to shuffle."""
        return self.shuffle is not None and self.shuffle.single == FALSE

    @property
    def by_process(self) -> bool:
        """It draws with the generator of the process, and not with one of its own."""
        return _is_left_out(self.generator)

    @property
    def forks(self) -> bool:
        """Its workers, if it has any, are started as they are by default."""
        return _is_left_out(self.context)

    @property
    def may_drop_last(self) -> bool:
        """It may leave out the batch that would have to be filled."""
        return self.drop_last is not None and not self.drop_last.all(lambda value: value == FALSE)

    def written_size(self, when: Condition = ALWAYS) -> int | None:
        """The batch size, where the program has written it as a number."""
        return int_of(self.batch_size.restrict(when).single) if self.batch_size is not None else None

    @property
    def workers(self) -> int:
        """How many it surely has: none where they are left out, or where an option asks for them."""
        number = constant_of(single_of(self.num_workers))
        # `num_workers=True` is one, to Python and to PyTorch.
        return int(number) if isinstance(number, int) else 0

    @property
    def shared_by_sampler(self) -> Condition | None:
        """What it takes for its sampler to give each rank a share; None where no sampler does."""
        given = [each for values in (self.sampler, self.batch_sampler) if values for each in values.bindings]
        # A BatchSampler is as distributed as the sampler inside it.
        when = [each.condition for each in given if isinstance(each.value, Sampler) and each.value.base.shares]
        return reduce(Condition.intersection, when) if when else None

    def on_each_rank(self) -> Loader:
        return replace(self, sharded=True, surely_sharded=True)


@dataclass(frozen=True, eq=False, repr=False)
class LoaderIterator(Allocated):
    """`iter(loader)`."""

    loader: Loader


GO_OVER_ALL = frozenset({"torch.utils.data.RandomSampler", "torch.utils.data.SequentialSampler"})
"""Samplers that do what a loader does without one."""


DRAW_FROM_SOME = frozenset({"torch.utils.data.WeightedRandomSampler", "torch.utils.data.SubsetRandomSampler"})
"""Samplers that draw at random what no loader draws without one."""
