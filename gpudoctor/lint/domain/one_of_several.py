"""One value that stands for too many of its kind, and keeps what rules ask about. Few programs have so many."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from gpudoctor.lint.domain.data import Dataset
from gpudoctor.lint.domain.module import UNSEEN, Module, Wrapper
from gpudoctor.lint.domain.optim import Optimizer, Parameters, Scheduler
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import NO_SHARDS, NONE, Value
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.record import replace


def one_of_modules(key: Hashable, modules: list[Module]) -> Module:
    """A module that stands for any of several, as those of a factory with many branches."""
    first = modules[0]
    members = frozenset(each for module in modules for each in (module.members or {module}))
    known = all(module.made_by != UNSEEN for module in modules)
    return Module(
        (key, frozenset(each.identity for each in modules)), first.place, first.label,
        made_by="one of several" if known else UNSEEN, members=members,
    )  # fmt: skip


def one_of_wrappers(key: Hashable, wrappers: list[Wrapper]) -> Wrapper | None:
    """A wrapper that stands for any of several; None where they are no wrappers of one kind."""
    first = wrappers[0]
    inner = [each.inner for each in wrappers]
    if any(each.kind is not first.kind or each.class_name != first.class_name for each in wrappers):
        return None
    if not all(isinstance(each, Module) for each in inner):
        return None
    return replace(
        first,
        identity=(key, frozenset(each.identity for each in wrappers)),
        inner=one_of_modules(key, [each for each in inner if isinstance(each, Module)]),
        device_ids=first.device_ids if all(each.device_ids == first.device_ids for each in wrappers) else None,
        # Of different ones nobody knows: then nothing is broadcast for sure.
        broadcast_buffers=min((each.broadcast_buffers for each in wrappers), key=lambda value: value == NONE),
    )


def one_of_datasets(key: Hashable, datasets: list[Dataset]) -> Dataset:
    """A data set that stands for any of several."""
    first = datasets[0]
    return replace(
        first,
        identity=(key, frozenset(each.identity for each in datasets)),
        cls=first.cls if all(each.cls == first.cls for each in datasets) else None,
        made_by=first.made_by if all(each.made_by == first.made_by for each in datasets) else "one of several",
        iterable=first.iterable if all(each.iterable is first.iterable for each in datasets) else None,
        sharded=any(each.sharded for each in datasets),
        in_memory=all(each.in_memory for each in datasets),
        parent=first.parent if all(each.parent == first.parent for each in datasets) else None,
        train=first.train if all(each.train is first.train for each in datasets) else None,
        draws=any(each.draws for each in datasets),
    )


def one_of_optimizers(key: Hashable, optimizers: list[Optimizer]) -> Optimizer:
    """An optimizer that stands for any of several: it may hold what either of them does."""
    first = optimizers[0]
    return replace(
        first,
        identity=(key, frozenset(each.identity for each in optimizers)),
        made_by=first.made_by if all(each.made_by == first.made_by for each in optimizers) else "",
        modules=frozenset().union(*(each.modules for each in optimizers)),
        complete=all(each.complete and each.modules == first.modules for each in optimizers),
        managed=first.managed if all(each.managed == first.managed for each in optimizers) else "?",
        cls=first.cls if all(each.cls == first.cls for each in optimizers) else None,
    )


def one_of_parameters(key: Hashable, parameters: list[Parameters]) -> Parameters:
    """The parameters of any of several modules."""
    owners = [each for one in parameters for each in one.modules]
    owner = _one_of(key, owners) if len(owners) == len(parameters) else None
    return replace(
        parameters[0],
        identity=(key, frozenset(each.identity for each in parameters)),
        modules=frozenset(owners if owner is None else [owner]),
        complete=all(each.complete for each in parameters),
    )


def one_of_schedulers(key: Hashable, schedulers: list[Scheduler]) -> Scheduler:
    """A scheduler that stands for any of several."""
    first = schedulers[0]
    return replace(
        first,
        identity=(key, frozenset(each.identity for each in schedulers)),
        made_by=first.made_by if all(each.made_by == first.made_by for each in schedulers) else "",
        optimizer=first.optimizer if all(each.optimizer == first.optimizer for each in schedulers) else None,
    )


def one_of_tensors(key: Hashable, tensors: list[Tensor]) -> Tensor:
    """A tensor that stands for any of several: it is what they have in common, with the graphs of all."""
    first = tensors[0]
    divergence = Divergence.NONE
    for each in tensors:
        divergence |= each.dependence
    owner = first.batch_of if all(each.batch_of == first.batch_of for each in tensors) else None
    # A parameter of one of several models is one of the model that stands for them.
    if owner is None and all(each.origin is TensorOrigin.PARAMETER for each in tensors):
        owner = _one_of(key, [each.batch_of for each in tensors if each.batch_of is not None])
    graphs, batches = {each.graph for each in tensors}, all(each.origin is TensorOrigin.BATCH for each in tensors)
    return Tensor(
        (key, frozenset(each.identity for each in tensors)),
        first.place,
        first.label,
        first.origin if all(each.origin is first.origin for each in tensors) else TensorOrigin.OTHER,
        device=first.device if all(each.device == first.device for each in tensors) else None,
        forwards=frozenset().union(*(each.forwards for each in tensors)),
        graph=None if None in graphs else True in graphs,
        batch_of=owner,
        # Some of them may have been reduced since: then no share is left. Nobody reduces a batch.
        shards=NO_SHARDS.union(*(each.shards for each in tensors if batches)),
        dependence=divergence,
        part=any(each.part for each in tensors),
        doubtful=len(graphs) > 1 or any(each.doubtful for each in tensors),
    )


def _one_of(key: Hashable, values: list[Any]) -> Value | None:
    """What stands for any of these, where they are of one kind."""
    kinds = {type(each) for each in values}
    return JOINS[kinds.pop()](key, values) if len(kinds) == 1 and kinds <= JOINS.keys() else None


JOINS: dict[type[Value], Callable[[Hashable, list[Any]], Value | None]] = {
    Dataset: one_of_datasets,
    Module: one_of_modules,
    Optimizer: one_of_optimizers,
    Parameters: one_of_parameters,
    Scheduler: one_of_schedulers,
    Tensor: one_of_tensors,
    Wrapper: one_of_wrappers,
}
"""The key tells the value from others; None where they do not go together."""
