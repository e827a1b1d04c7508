"""What a loader's batches are made by: the items of a data set of the project, and the function that joins them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.abstract_state import NO, DatasetState, LoaderState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.data import Dataset, Loader, Sampler
from gpudoctor.lint.domain.device import CPU, Device, on_cpu
from gpudoctor.lint.domain.function import BoundMethod, Function, Instance, Partial
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.events.data_loading import ItemRead
from gpudoctor.lint.events.files import Load, ReadFile
from gpudoctor.lint.events.knowledge import Escape, Imprecision
from gpudoctor.lint.events.placement import DeviceUsed, ItemOnGpu, Move
from gpudoctor.lint.interp import attributes, containers
from gpudoctor.lint.interp.iterable_datasets import analyze_iteration
from gpudoctor.lint.interp.limits import MAX_ITEM_STATEMENTS
from gpudoctor.lint.library import tensors
from gpudoctor.lint.library_call import flatten

if TYPE_CHECKING:
    from gpudoctor.lint.domain.value import Value, Values
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.interp.evaluator import Evaluator


def batch(m: Evaluator, loader: Loader, node: ast.AST) -> Values:
    """One batch of a loader."""
    for values in (loader.sampler, loader.batch_sampler):
        for sampler in values or ():
            if isinstance(sampler, Sampler) and not _was_seen(m, sampler.base):
                analyze_iteration(m, sampler.base, node)
    for dataset in loader.dataset or ():
        _analyze_items(m, dataset, loader, node)
        _analyze_collate(m, dataset, loader, node)
    return tensors.batch(m, loader, m.place(node), m.text(node, 40))


def _analyze_collate(m: Evaluator, dataset: Value, loader: Loader, node: ast.AST) -> None:
    """Learn whether the function that makes batches of items puts them on a device."""
    function = loader.collate
    followed = function is not None and function.all(lambda value: _is_followed(m, value))
    if function is None or not followed or m.flag(loader, LoaderState.collate_followed) is not NO:
        return
    m.set_flag(loader, LoaderState.collate_followed)
    # Whose items take too long to follow is not asked again.
    getter = (
        attributes.find_method(m, dataset, "__getitem__")
        if m.flag(_source(dataset), DatasetState.too_deep) is NO
        else None
    )
    # What the data set returns is what the function gets, in a list.
    item = _analyze(m, partial(_item, m, getter, node))[0] if getter is not None else m.unknown(node, "an item")
    joined, events, whole = _analyze(
        m, lambda: m.call(function, Arguments((containers.new_list(m, [item], node, exact=False),)), node)
    )
    _note_gpu(m, loader, events)
    if not whole:
        return
    devices = [value.device for value in flatten(m, list(joined)) if isinstance(value, Tensor)]
    # It makes tensors of its own, and fills them with what the data set has read.
    if devices and all(device == CPU for device in devices):
        m.set_flag(loader, LoaderState.made_on_cpu)
    unread = any(isinstance(event, (Imprecision, Escape)) for event in events)
    if not unread and not _moves(events) and not any(map(_is_gpu, devices)):
        m.set_flag(loader, LoaderState.joined_in_place)


def _moves(events: list[Event]) -> bool:
    """Something goes to another device, or may do so."""
    # `.cpu()`, and a cast, leave it where a data set is taken to be.
    moves = (event.device for event in events if isinstance(event, Move))
    goes = any(devices is not None and not on_cpu(devices) for devices in moves)
    return goes or any(isinstance(event, DeviceUsed) for event in events)


def _is_followed(m: Evaluator, value: Value) -> bool:
    # `collate_fn=PadBatch(0)`: an object that is called.
    if isinstance(value, Instance):
        return attributes.find_method(m, value, "__call__") is not None
    return isinstance(value, (Function, BoundMethod, Partial))


def _is_gpu(device: Value | None) -> bool:
    return isinstance(device, Device) and device.is_accelerator


def _note_gpu(m: Evaluator, loader: Loader, events: list[Event]) -> None:
    """Log where what is done for each item surely uses a GPU."""
    for event in events:
        used = isinstance(event, DeviceUsed) and event.purpose in ("move", "factory") and event.certain
        # What stands under a test may be switched off where there are workers.
        if used and _is_cuda(event) and not event.condition.difference(m.path):
            m.emit(ItemOnGpu, at=event.location, loader=loader)
            return


def _is_cuda(event: Event) -> bool:
    return isinstance(event, DeviceUsed) and isinstance(event.device, Device) and event.device.type == "cuda"


def _analyze_items(m: Evaluator, dataset: Value, loader: Loader, node: ast.AST) -> None:
    """Learn whether a data set of the project puts its items on a device."""
    dataset = _source(dataset)
    if not isinstance(dataset, Dataset) or _was_seen(m, dataset):
        return
    getter = attributes.find_method(m, dataset, "__getitem__")
    # Rehearsed: loading an item in a worker is no event of the training loop.
    if getter is not None:
        ask = partial(_item, m, getter, node)
        items, events, whole = _analyze(m, ask)
        if not whole:
            m.set_flag(dataset, DatasetState.too_deep)
        elif any(isinstance(event, (ReadFile, Load)) for event in events):
            _note_reading(m, dataset, ask)
    else:
        (items, events), whole = analyze_iteration(m, dataset, node), True
    _note_gpu(m, loader, events)
    elsewhere = any(isinstance(item, Tensor) and item.device != CPU for item in flatten(m, list(items)))
    # What was not followed may have moved them.
    if elsewhere or _moves(events) or not whole:
        m.set_flag(dataset, DatasetState.moves_items)


def _source(dataset: Value) -> Value:
    """The data set whose method makes the items, under those that only pick."""
    while isinstance(dataset, Dataset) and isinstance(dataset.parent, Dataset):
        dataset = dataset.parent
    return dataset


def _was_seen(m: Evaluator, source: Dataset | Sampler) -> bool:
    """Each is looked at once: an item costs as much as all that makes it."""
    if m.flag(source, DatasetState.followed) is not NO:
        return True
    m.set_flag(source, DatasetState.followed)
    return False


def _analyze(m: Evaluator, act: Callable[[], Values]) -> tuple[Values, list[Event], bool]:
    """What something would return and log, without a trace, and whether all of it was followed."""
    with m.speculative(MAX_ITEM_STATEMENTS) as run:
        values = act()
    return values, run.events, run.whole


def _item(m: Evaluator, getter: Values, node: ast.AST) -> Values:
    return m.call(getter, Arguments((m.unknown(node, "an index"),)), node)


def _note_reading(m: Evaluator, dataset: Dataset, ask: Callable[[], Values]) -> None:
    """Log where a data set reads a file for an item, unless it keeps what it has read once."""
    start, begun = len(m.log), 0

    def twice() -> Values:
        nonlocal begun
        ask()
        begun = len(m.log) - start
        return ask()

    _, events, _ = _analyze(m, twice)
    for event in events[begun:]:
        # What stands under a test may be read once and kept.
        if isinstance(event, (ReadFile, Load)) and not event.condition.difference(m.path):
            m.emit(ItemRead, at=event.location, dataset=dataset, call=event.call)
            return
