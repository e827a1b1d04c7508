"""Whether a loop goes over all of the data, for rules about data that ranks should share out."""

from __future__ import annotations

from collections.abc import Container

from gpudoctor.lint.domain.container import ListOf, Range, TupleOf
from gpudoctor.lint.domain.data import GO_OVER_ALL, Dataset, Loader, Sampler
from gpudoctor.lint.domain.function import Instance
from gpudoctor.lint.domain.provenance import is_table
from gpudoctor.lint.domain.symbols import Attribute, CallResult, Item, MethodResult
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Unknown, Value, Values
from gpudoctor.lint.flow.condition import Condition, Divergence


def goes_over_all(loader: Loader, when: Condition) -> bool:
    """On such paths the loader goes over all of its data set, which is all of the data; no framework shares it out."""
    if loader.opaque or loader.managed or loader.sharded or loader.dataset is None:
        return False
    if not shares_nothing(loader.sampler, when) or not shares_nothing(loader.batch_sampler, when):
        return False
    # On these paths: `shuffle=(sampler is None)` has two answers. A sampler asks how many samples there are.
    samplers = [each.restrict(when) for each in (loader.sampler, loader.batch_sampler) if each is not None]
    indexed = loader.shuffles(when) or any(each.are(Sampler) for each in samplers)
    # `else: data = None`: a loader of nothing trains nobody.
    data = [value for value in loader.dataset.restrict(when) if not value.is_none]
    return bool(data) and all(_is_whole(value, indexed) for value in data)


def shares_nothing(given: Values | None, when: Condition) -> bool:
    """No sampler is given, or one that goes over all of the data."""
    return given is None or given.restrict(when).all(
        lambda value: (
            value.is_none
            or (isinstance(value, Sampler) and value.base.distributed is False and value.base.made_by in GO_OVER_ALL)
        )
    )


def _is_whole(dataset: Value, indexed: bool) -> bool:
    """All of the data, and not a share or a stream that may be cut out of sight."""
    # `Subset(data, range(rank, n, world_size))` is sharding by hand.
    if dataset.divergence & Divergence.RANK:
        return False
    if isinstance(dataset, Dataset):
        # A stream is often split between ranks inside of `__iter__`, out of sight.
        return dataset.iterable is False and not dataset.sharded and not dataset.draws
    # What has an index is no stream that may be cut elsewhere; a table has one in any case.
    read = bool(dataset.escaped_from)
    known = read or isinstance(dataset, (Instance, ListOf, TupleOf, Range, Tensor))
    return known and (indexed or is_table(dataset))


def stream_behind(stream: Value, loaded: Container[Value]) -> Value | None:
    """Which of the streams that were loaded this one gives all samples of, whatever was done to them since."""
    # `stream.shuffle(seed=rank)` gives each rank an order of its own.
    while stream not in loaded and not stream.divergence:
        match stream:
            case Unknown(term=CallResult(function=Unknown(term=Attribute(of=Value() as of, name=name)))) if (
                name in _KEEP_ALL
            ):
                stream = of
            case Unknown(term=MethodResult(of=Value() as of, method=name)) if name in _KEEP_ALL:
                stream = of
            case Unknown(term=Item(of=of)):
                stream = of
            case _:
                return None
    return None if stream.divergence else stream


_KEEP_ALL = frozenset(
    """
    map filter shuffle with_format with_transform select_columns remove_columns rename_column rename_columns cast
    cast_column cast_features take skip repeat batch
    """.split()
)
