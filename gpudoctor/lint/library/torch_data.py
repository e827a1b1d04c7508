"""`torch.utils.data`: data sets, samplers and loaders."""

from __future__ import annotations

import ast

from gpudoctor.diagnostic import Location
from gpudoctor.lint.analyses.batch_items import look_at_items
from gpudoctor.lint.domain.abstract_state import NO, ContainerState, DatasetState, ObjectState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf
from gpudoctor.lint.domain.data import Dataset, Loader, LoaderIterator, Sampler
from gpudoctor.lint.domain.device import CPU, Device
from gpudoctor.lint.domain.function import Instance, Library
from gpudoctor.lint.domain.heuristics import MODULES_OF_DATASETS
from gpudoctor.lint.domain.rank import as_numbers
from gpudoctor.lint.domain.symbols import Attribute
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.domain.value import NONE, Anonymous, Truth, Unknown, Value, Values, single_of
from gpudoctor.lint.events.data_loading import Augments, MakeLoader, MakeSampler, SetEpoch, SkipBatches, Split
from gpudoctor.lint.events.event_context import agreement_on
from gpudoctor.lint.events.files import Download, as_path
from gpudoctor.lint.events.knowledge import SILENT_SAMPLER, Escape
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.contents import find_method, new_list
from gpudoctor.lint.interface.hooks import HOOKS, answers
from gpudoctor.lint.interface.library_call import (
    MODELS,
    NOT_ANSWERED,
    Call,
    LibraryContext,
    alternatives,
    flatten,
    next_item,
    plain_result,
    singleton,
)
from gpudoctor.lint.library.class_kinds import mentions
from gpudoctor.lint.library.devices import note_text
from gpudoctor.lint.library.random_state import seed_of
from gpudoctor.lint.library.tensors import batch, made, shards_in
from gpudoctor.lint.library.torch_distributed import group_exists
from gpudoctor.lint.library.unread_code import attributes_of
from gpudoctor.manifest.effects import SkipEffect
from gpudoctor.record import replace

READY_DATASETS = (
    *(f"{module}*" for module in MODULES_OF_DATASETS), "torchtext.datasets.*", "torch.utils.data.TensorDataset",
    "torch.utils.data.ConcatDataset", "torch.utils.data.ChainDataset", "torch.utils.data.StackDataset",
    "monai.data.Dataset", "monai.data.ArrayDataset", "monai.data.CacheDataset",
    "monai.data.CacheNTransDataset", "monai.data.ImageDataset", "monai.data.LMDBDataset",
    "monai.data.PersistentDataset", "monai.data.SmartCacheDataset",
)  # fmt: skip


RANDOM_TRANSFORMS = (
    "RandomCrop", "RandomResizedCrop", "RandomHorizontalFlip", "RandomVerticalFlip", "RandomRotation", "RandomAffine",
    "RandomErasing", "RandomGrayscale", "RandomPerspective", "ColorJitter", "AutoAugment", "RandAugment",
    "TrivialAugmentWide", "AugMix", "RandomPhotometricDistort",
)  # fmt: skip


@MODELS.callable(*READY_DATASETS)
def _dataset(call: Call) -> Values:
    if not call.name.rpartition(".")[2][:1].isupper():
        return singleton(call.result())
    # Nothing is locked: each rank that finds no files writes them.
    if call.is_true(-1, "download"):
        call.emit(Download, call=call.name, path=as_path(call.arg(0, "root")))
    # torchvision's `train` flag tells the test set, where duplicates of padding matter.
    train = call.constant(1, "train") if "torchvision" in call.name else None
    # Nothing is decoded per item, so workers would only cost time.
    in_memory = call.name.endswith("TensorDataset")
    dataset = Dataset(
        call.allocation_site(),
        call.place,
        call.label,
        made_by=call.name,
        iterable=_is_stream(call.name),
        in_memory=in_memory,
        sharded=depends_on_rank(call),
        train=train if isinstance(train, bool) else None,
    )
    if in_memory and _holds_noise(call.all_values()):
        call.do.set_flag(dataset, DatasetState.made_up)
    # `TensorDataset(x.to(device), …)` hands out GPU items: then nothing is left on the CPU.
    if in_memory and not all(value.device == CPU for value in call.sure_values()):
        call.do.set_flag(dataset, DatasetState.moves_items)
    return singleton(dataset)


@answers(HOOKS.operations, Dataset)
def _combined(do: LibraryContext, values: list[Value], node: ast.AST) -> Values:
    """`20 * clean + final`: what the class says of it, as `__rmul__`, and the sum is a `ConcatDataset`."""
    op = getattr(node, "op", None)
    word = "add" if isinstance(op, ast.Add) else "mul" if isinstance(op, ast.Mult) else ""
    for owner, other, name in ((values[0], values[-1], f"__{word}__"), (values[-1], values[0], f"__r{word}__")):
        own = find_method(do, owner, name) if word else None
        if own is not None:
            return do.call(own, Arguments((singleton(other),)), node)
    if word == "add":
        both = new_list(do, [*map(singleton, values)], node)
        return do.call(singleton(Library("torch.utils.data.ConcatDataset")), Arguments((both,)), node)
    term = Anonymous("computed", tuple(values))
    return singleton(Unknown(term, "computed", do.text(node, 40), values[0].divergence | values[-1].divergence))


def _is_stream(name: str) -> bool | None:
    if name == "torch.utils.data.ChainDataset":
        return True
    # torchtext's are streams since 0.9, though a few old ones are not.
    return None if name.startswith("torchtext.") else False


def _holds_noise(values: list[Value]) -> bool:
    """One of these is a tensor of random numbers."""
    return any(value.origin is TensorOrigin.FACTORY and bool(value.divergence & Divergence.LOCAL) for value in values)


def _is_made_up(call: Call, value: Value) -> bool:
    """The data set holds random numbers, as in programs that show how something is done."""
    if not isinstance(value, (Dataset, Instance)):
        return False
    parent = value.parent
    known = call.do.flag(value, DatasetState.made_up) is not NO or _holds_noise(attributes_of(call.do, value))
    return known or (parent is not None and _is_made_up(call, parent))


def depends_on_rank(call: Call) -> bool:
    """Some argument differs between ranks."""
    return _differs_by_rank(call, call.all_values())


def _differs_by_rank(call: Call, values: list[Value], depth: int = 3, *, surely: bool = False) -> bool:
    """One of these values, or something in their containers, is another one on each rank, or may be."""
    unread = Divergence.UNREAD if surely else Divergence.NONE
    for value in values:
        # Where its tensors go says nothing about which items it reads, and a test, as in `download=rank == 0`, tells no
        # more than two kinds of ranks apart.
        if isinstance(value, (Device, Truth)):
            continue
        # `files[rank::world_size]` shards by hand, without any sampler.
        chosen = isinstance(value, ListOf) and call.do.flag(value, ContainerState.by_rank) is not NO
        if chosen or (value.divergence & Divergence.RANK and not value.divergence & unread):
            return True
        # Settings that tell the rank among all else say nothing of what is read.
        settings = surely and isinstance(value, DictOf) and call.do.flag(value, ObjectState.of_settings) is not NO
        if depth and isinstance(value, (TupleOf, ListOf, DictOf)) and not settings:
            inner = alternatives(call.do, singleton(value))
            items = [each for leaf in inner for each in leaf if each is not value]
            if _differs_by_rank(call, items, depth - 1, surely=surely):
                return True
    return False


@MODELS.callable(*(f"torchvision.transforms.{part}{name}" for part in ("", "v2.") for name in RANDOM_TRANSFORMS))
def _augments(call: Call) -> Values:
    call.emit(Augments, call=call.name)
    return singleton(call.result("a transform"))


@MODELS.callable("torch.utils.data.Subset")
def _subset(call: Call) -> Values:
    parent = call.first
    # `Subset(data, indices[rank])` is a shard made by hand.
    return singleton(_derived(call, parent, depends_on_rank(call), reordered=True))


def _derived(call: Call, parent: Value | None, sharded: bool = False, reordered: bool = False) -> Dataset:
    known = parent if isinstance(parent, Dataset) else None
    return Dataset(
        call.allocation_site(),
        call.place,
        call.label,
        cls=known.cls if known else None,
        made_by=call.name,
        iterable=known.iterable if known else None,
        sharded=sharded or bool(known and known.sharded),
        in_memory=bool(known and known.in_memory),
        parent=parent,
        draws=bool(known and known.draws),
        reordered=reordered,
    )


@MODELS.effect(SkipEffect)
def _skip_batches(call: Call, effect: SkipEffect) -> Values:
    def rest(value: Value) -> Value:
        if not isinstance(value, Loader):
            return value
        made = replace(value, identity=call.allocation_site(), place=call.place, label=call.label)
        call.emit(SkipBatches, loader=made)
        return made

    return (call.given(effect.loader) or singleton(NONE)).map(rest)


@MODELS.callable("torch.utils.data.random_split")
def _random_split(call: Call) -> Values:
    parent = call.first
    generator = call.given("generator")
    own = generator is not None and generator.single != NONE
    call.emit(Split, call=call.name, own_generator=own, seed=agreement_on(seed_of(call.do, generator)))
    # The lengths may be fractions, so how many parts there are is not counted.
    return new_list(call.do, [singleton(_derived(call, parent, reordered=True))], call.node, exact=False)


MODELS.callable("datasets.distributed.split_dataset_by_node")(
    lambda call: singleton(_derived(call, call.first, sharded=True))
)


_REORDER = ("select", "shuffle", "train_test_split")


@MODELS.method(
    Dataset, "shard", "map", "filter", "select", "with_format", "shuffle", "train_test_split", "take", "skip"
)
def _dataset_method(call: Call) -> Values:
    sharded = call.name in ("shard", "select") and depends_on_rank(call)
    return singleton(_derived(call, call.receiver, sharded, call.name in _REORDER))


@MODELS.callable("torch.utils.data.distributed.DistributedSampler")
def _distributed_sampler(call: Call) -> Values:
    # The text of `os.environ["RANK"]` fails in the sampler's comparison with a TypeError.
    note_text(call, call.given("num_replicas"), "given as `num_replicas` of a sampler")
    note_text(call, call.given("rank"), "given as `rank` of a sampler")
    return _make_sampler(
        call,
        # Without arguments it asks the default group for rank and replicas.
        distributed=True,
        replicas=call.given("num_replicas"),
        rank=call.given("rank"),
        shuffle=call.given("shuffle"),
        seed=call.given("seed"),
    )


def _make_sampler(
    call: Call,
    distributed: bool | None,
    replicas: Values | None = None,
    rank: Values | None = None,
    shuffle: Values | None = None,
    seed: Values | None = None,
    count: Values | None = None,
) -> Values:
    # torch's samplers call it `data_source`, only DistributedSampler `dataset`.
    dataset = call.arg(0, "dataset") or call.arg(0, "data_source")
    sampler = Sampler(
        call.allocation_site(), call.place, call.label, call.name, distributed, dataset, rank, replicas, shuffle, seed,
        count=count, generator=call.given("generator"),
    )  # fmt: skip
    # DistributedSampler without num_replicas raises where no group exists yet.
    call.emit(MakeSampler, sampler=sampler, group_exists=group_exists(call.do))
    return singleton(sampler)


@MODELS.callable(
    "torch.utils.data.RandomSampler", "torch.utils.data.SequentialSampler", "torch.utils.data.SubsetRandomSampler",
    "torch.utils.data.WeightedRandomSampler",
)  # fmt: skip
def _plain_sampler(call: Call) -> Values:
    # `SubsetRandomSampler(indices[rank::world])` splits the data as a DistributedSampler does.
    if depends_on_rank(call):
        return _make_sampler(call, distributed=True)
    # What draws with replacement needs no shares: ranks with other seeds draw other samples.
    draws = any(call.given(name) is not None for name in ("replacement", "generator", "num_samples"))
    return _make_sampler(call, distributed=None if draws else False, count=call.given("num_samples"))


@MODELS.callable("torch.utils.data.BatchSampler")
def _batch_sampler(call: Call) -> Values:
    inner, identity = call.given("sampler"), call.allocation_site()
    if inner is None or not inner.are(Sampler):
        return singleton(Sampler(identity, call.place, call.label, made_by=call.name, distributed=None))
    # `set_epoch` is due on the inner sampler, one of several perhaps: BatchSampler has none of its own.
    return inner.map(
        lambda each: Sampler(
            (identity, each), call.place, call.label, made_by=call.name, inner=each,
            distributed=each.distributed,  # type: ignore[attr-defined]
        )
    )  # fmt: skip


@MODELS.callable(
    "torch.utils.data.DataLoader",
    # Drop-in replacements: same order of arguments, same meaning of `sampler`.
    "torchdata.stateful_dataloader.StatefulDataLoader",
    "torch_geometric.loader.DataLoader",
)
def _loader(call: Call) -> Values:
    return singleton(_make_loader(call, Loader(call.allocation_site(), call.place, call.label)))


@MODELS.callable("torch_geometric.loader.NeighborLoader")
def _neighbor_loader(call: Call) -> Values:
    """What it deals out are the nodes that it begins at."""
    return singleton(
        _make_loader(call, Loader(call.allocation_site(), call.place, call.label, takes_data_as="input_nodes"))
    )


@MODELS.method(Loader, "__init__")
def _init_loader(call: Call[Loader]) -> Values:
    """`super().__init__(…)` of a class that derives from DataLoader."""
    call.do.set_state(call.receiver, ObjectState.as_made, singleton(_make_loader(call, call.receiver)))
    return singleton(NONE)


def _make_loader(call: Call, bare: Loader) -> Loader:
    dataset = call.given(bare.takes_data_as)
    sharded = _is_sharded(call, dataset)
    loader = replace(
        bare,
        dataset=dataset,
        batch_size=call.given("batch_size"),
        shuffle=call.given("shuffle"),
        sampler=call.given("sampler"),
        batch_sampler=call.given("batch_sampler"),
        num_workers=call.given("num_workers"),
        pin_memory=call.given("pin_memory"),
        drop_last=call.given("drop_last"),
        # `DataLoader(data, **kwargs)`: a sampler may be among what is not seen.
        opaque=call.hides_names,
        sharded=sharded,
        surely_sharded=sharded and _is_sharded(call, dataset, surely=True),
        custom_collate=call.given("collate_fn") is not None and call.given("collate_fn") != singleton(NONE),
        collate=call.given("collate_fn"),
        context=call.given("multiprocessing_context"),
        worker_init=call.given("worker_init_fn") not in (None, singleton(NONE)),
        generator=call.given("generator"),
        made_up=any(_is_made_up(call, value) for value in dataset or ()),
    )
    call.emit(MakeLoader, loader=loader)
    return loader


def _is_sharded(call: Call, dataset: Values | None, *, surely: bool = False) -> bool:
    """The data set was cut by rank: what it was made from, or what its constructor kept, depends on the rank."""
    for value in dataset or ():
        if value.sharded or (isinstance(value, (Dataset, Instance)) and _keeps_rank(call, value, surely=surely)):
            return True
        if _differs_by_rank(call, [value], surely=surely):
            return True
    return False


def _keeps_rank(call: Call, value: Value, depth: int = 2, *, surely: bool = False) -> bool:
    parent = value.parent
    # A data set that stores `self.rank` in its constructor shards in `__getitem__` or `__iter__`.
    kept = attributes_of(call.do, value)
    if _differs_by_rank(call, kept, surely=surely) or (parent is not None and _keeps_rank(call, parent, surely=surely)):
        return True
    # One that is put together of others has the shares that these have.
    tables = [
        more
        for each in kept
        if isinstance(each, (ListOf, DictOf))
        for more in call.do.state(each, ContainerState.more) or ()
    ]
    held = flatten(call.do, [*kept, *tables])
    # What a rank has put there of its own batches, as what its policy has played, no other rank has.
    records = [each for record in held if isinstance(record, Instance) for each in attributes_of(call.do, record)]
    if shards_in(call.do, [*held, *records]):
        return True
    parts = [each for each in held if isinstance(each, Dataset)] if depth else []
    return any(each.sharded or _keeps_rank(call, each, depth - 1, surely=surely) for each in parts)


@MODELS.attribute(Loader, "data_sampler")
def _kept_sampler(call: Call[Loader]) -> Values:
    kept = call.receiver.keeps_sampler_as == call.name
    return (call.receiver.sampler if kept else None) or NOT_ANSWERED


@MODELS.attribute(Loader, "sampler", "batch_sampler", "dataset", "batch_size", "num_workers")
def _loader_attribute(call: Call[Loader]) -> Values:
    loader = call.receiver
    made = call.do.state(loader, ObjectState.as_made)
    loader = single_of(made, Loader) or loader
    found: Values | None = getattr(loader, call.name)
    if found is not None and found.single != NONE:
        return found
    # torch fills in the one that was left out; `loader.sampler.set_epoch(e)` relies on it.
    if call.name in ("sampler", "batch_sampler"):
        other = loader.batch_sampler if call.name == "sampler" else loader.sampler
        inner = single_of(other)
        if isinstance(inner, Sampler) and call.name == "batch_sampler":
            kind = "torch.utils.data.BatchSampler"
            key = ("batches of", loader)
            return singleton(Sampler(key, loader.place, "batch_sampler", kind, inner.distributed, inner=inner))
        return singleton(
            Sampler(("default of", loader), loader.place, call.label, "torch.utils.data.RandomSampler", False)
        )
    return call.unknown(Attribute(loader, call.name), f"the {call.name} of a loader", config=True)


@MODELS.attribute(Sampler, "sampler")
def _inner_sampler(call: Call[Sampler]) -> Values:
    sampler = call.receiver
    return singleton(sampler.inner or sampler)


# Of an unknown target as well: rules of a missing `set_epoch` must see that somebody calls it. `IterableDataset` of
# Hugging Face reshuffles by its own.
@MODELS.method((Sampler, Loader, Unknown, Dataset), "set_epoch")
def _set_epoch(call: Call[Sampler | Loader | Unknown | Dataset]) -> Values:
    call.emit(SetEpoch, target=call.receiver, epoch=as_numbers(call.arg(0, "epoch")))
    return singleton(NONE)


@MODELS.setter(Sampler)
def _kept_by_sampler(do: LibraryContext, owner: Sampler, name: str, values: Values, place: Location) -> None:
    """A sampler of the project that keeps another one draws from it, and may tell it the epoch. Which may be set."""
    # `sampler.epoch = epoch` from outside is what `set_epoch` does.
    if name == "epoch" and do.execution.reached_at(owner) is None:
        do.emit(SetEpoch, at=place, target=owner, epoch=as_numbers(values))
    inside = tuple(value for value in values if isinstance(value, Sampler) and value != owner)
    cls = owner.own
    if inside and cls is not None and cls.complete and not mentions(cls, "set_epoch"):
        do.emit(Escape, at=place, into=SILENT_SAMPLER, values=inside)
        # Who keeps this one gets at that one, too.
        do.set_state(owner, DatasetState.inner_samplers, values)
        if owner.inner is None and len(inside) == 1 and do.state(owner, ObjectState.as_made) is None:
            drawing = replace(owner, inner=inside[0], distributed=inside[0].distributed)
            do.set_state(owner, ObjectState.as_made, singleton(drawing))
    elif inside:
        kept = [each for value in inside for each in do.state(value, DatasetState.inner_samplers) or ()]
        do.emit(Escape, at=place, into="a sampler", values=(*inside, *kept))


@MODELS.method(Sampler, "__init__")
def _init_sampler(call: Call[Sampler]) -> Values:
    """`super().__init__(…)` of a class that derives from a sampler; one that knows replicas tells them."""
    sampler = call.receiver
    # Positions as in DistributedSampler.__init__; other samplers have nothing that rules ask.
    if sampler.distributed:
        sampler = replace(
            sampler,
            dataset=call.arg(0, "dataset"),
            replicas=call.arg(1, "num_replicas"),
            rank=call.arg(2, "rank"),
            shuffle=call.arg(3, "shuffle"),
            seed=call.arg(4, "seed"),
        )
        call.do.set_state(sampler, ObjectState.as_made, singleton(sampler))
    call.emit(MakeSampler, sampler=sampler, group_exists=group_exists(call.do))
    return singleton(NONE)


@MODELS.method(Loader, "__iter__")
def _iterate(call: Call[Loader]) -> Values:
    # `it = iter(loader); next(it)` is iteration too, by steps instead of epochs.
    return singleton(LoaderIterator(call.allocation_site(), call.place, call.label, call.receiver))


@answers(HOOKS.iterations, Loader, LoaderIterator)
def _batch(do: LibraryContext, value: Loader | LoaderIterator, node: ast.AST) -> Values:
    """`next(iter(loader))` and a `for` over the loader give the same kind of batch."""
    loader = value.loader if isinstance(value, LoaderIterator) else value
    look_at_items(do, loader, node)
    return batch(do, loader, do.place(node), do.text(node, 40))


MODELS.method(LoaderIterator, "next")(next_item)


@MODELS.method(Dataset, "__getitem__")
def _getitem(call: Call) -> Values:
    return singleton(made(call.do, call.place, call.label, TensorOrigin.OTHER))


MODELS.callable("torch.utils.data.default_collate", "torch.utils.data.get_worker_info")(plain_result)
