"""What a loader's batches are made by: the items of a data set of the project, and the function that joins them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gpudoctor.lint.analyses.iterable_datasets import analyze_iteration
from gpudoctor.lint.domain.abstract_state import NO, DatasetState, LoaderState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.data import Dataset, Loader, Sampler
from gpudoctor.lint.domain.device import CPU, on_cpu
from gpudoctor.lint.domain.function import Instance, function_of
from gpudoctor.lint.domain.tensor import tensors_in
from gpudoctor.lint.domain.value import Const, Value
from gpudoctor.lint.events.data_loading import IndexIgnored, ItemRead
from gpudoctor.lint.events.files import Load, ReadFile
from gpudoctor.lint.events.knowledge import Escape, Imprecision
from gpudoctor.lint.events.placement import DeviceUsed, ItemOnGpu, Move
from gpudoctor.lint.interface.contents import find_method, new_list
from gpudoctor.lint.interface.library_call import flatten, singleton, unknown

if TYPE_CHECKING:
    from gpudoctor.lint.domain.value import Values
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.interface.library_context import LibraryContext, SpeculativeRun

MAX_ITEM_STATEMENTS = 600
"""Statements that one item of a data set may take. Nearly all take under 300; augmentations that mix several images
take 9,000, before the training has begun."""


def look_at_items(do: LibraryContext, loader: Loader, node: ast.AST) -> None:
    """Learn what a batch of a loader is made by."""
    for values in (loader.sampler, loader.batch_sampler):
        for sampler in values or ():
            if isinstance(sampler, Sampler) and not _was_seen(do, sampler.base):
                analyze_iteration(do, sampler.base, node)
    for dataset in loader.dataset or ():
        _analyze_items(do, dataset, loader, node)
        _analyze_collate(do, dataset, loader, node)


def _analyze_collate(do: LibraryContext, dataset: Value, loader: Loader, node: ast.AST) -> None:
    """Learn whether the function that makes batches of items puts them on a device."""
    function = loader.collate
    followed = function is not None and function.all(lambda value: _is_followed(do, value))
    if function is None or not followed or do.flag(loader, LoaderState.collate_followed) is not NO:
        return
    do.set_flag(loader, LoaderState.collate_followed)
    # Whose items take too long to follow is not asked again.
    source = dataset.source if isinstance(dataset, Dataset) else None
    too_deep = isinstance(source, Dataset) and do.flag(source, DatasetState.too_deep) is not NO
    getter = None if too_deep else find_method(do, dataset, "__getitem__")
    # What the data set returns is what the function gets, in a list.
    item = _analyze(do, partial(_item, do, getter, node))[0] if getter is not None else unknown(do, node, "an item")
    joined, run = _analyze(do, lambda: do.call(function, Arguments((new_list(do, [item], node, exact=False),)), node))
    events = run.events
    _note_gpu(do, loader, events)
    if not run.whole:
        return
    if isinstance(joined.single, TupleOf):
        # What it passes on without knowing it may be anything, as the names and sizes beside the images.
        plain = [Const(i) for i, part in enumerate(joined.single.items) if not _holds_tensors(do, list(part))]
        do.set_state(loader, LoaderState.without_tensors, singleton(TupleOf(tuple(map(singleton, plain)))))
    devices = [value.device for value in tensors_in(flatten(do, list(joined)))]
    # It makes tensors of its own, and fills them with what the data set has read.
    if devices and all(device == CPU for device in devices):
        do.set_flag(loader, LoaderState.made_on_cpu)
    unread = any(isinstance(event, (Imprecision, Escape)) for event in events)
    if not unread and not _moves(events) and not any(map(_is_gpu, devices)):
        do.set_flag(loader, LoaderState.joined_in_place)


def _holds_tensors(do: LibraryContext, values: list[Value]) -> bool:
    return bool(tensors_in(flatten(do, values, 6)))


def _moves(events: list[Event]) -> bool:
    """Something goes to another device, or may do so."""
    # `.cpu()`, and a cast, leave it where a data set is taken to be.
    moves = (event.device for event in events if isinstance(event, Move))
    goes = any(devices is not None and not on_cpu(devices) for devices in moves)
    return goes or any(isinstance(event, DeviceUsed) for event in events)


def _is_followed(do: LibraryContext, value: Value) -> bool:
    # `collate_fn=PadBatch(0)`: an object that is called.
    if isinstance(value, Instance):
        return find_method(do, value, "__call__") is not None
    return value.is_handed_over


def _is_gpu(device: Value | None) -> bool:
    return device is not None and device.is_accelerator


def _note_gpu(do: LibraryContext, loader: Loader, events: list[Event]) -> None:
    """Log where what is done for each item surely uses a GPU."""
    for event in events:
        if not isinstance(event, DeviceUsed) or event.purpose not in ("move", "factory") or not event.certain:
            continue
        # What stands under a test may be switched off where there are workers.
        if event.device.is_cuda and not event.condition.difference(do.path):
            do.emit(ItemOnGpu, at=event.location, loader=loader)
            return


def _analyze_items(do: LibraryContext, dataset: Value, loader: Loader, node: ast.AST) -> None:
    """Learn whether a data set of the project puts its items on a device."""
    if not isinstance(dataset, Dataset) or _was_seen(do, dataset.source):
        return
    dataset = dataset.source
    getter = find_method(do, dataset, "__getitem__")
    # Rehearsed: loading an item in a worker is no event of the training loop.
    if getter is not None:
        ask = partial(_item, do, getter, node)
        items, run = _analyze(do, ask)
        events, whole = run.events, run.whole
        if whole and run.returned and not any(run.reads(_index_name(each)) for each in getter):
            do.emit(IndexIgnored, at=dataset.place, dataset=dataset)
        if not whole:
            do.set_flag(dataset, DatasetState.too_deep)
        elif any(isinstance(event, (ReadFile, Load)) for event in events):
            _note_reading(do, dataset, ask)
    else:
        (items, events), whole = analyze_iteration(do, dataset, node), True
    _note_gpu(do, loader, events)
    elsewhere = any(item.device != CPU for item in tensors_in(flatten(do, list(items))))
    # What was not followed may have moved them.
    if elsewhere or _moves(events) or not whole:
        do.set_flag(dataset, DatasetState.moves_items)


def _was_seen(do: LibraryContext, source: Dataset | Sampler) -> bool:
    """Each is looked at once: an item costs as much as all that makes it."""
    if do.flag(source, DatasetState.followed) is not NO:
        return True
    do.set_flag(source, DatasetState.followed)
    return False


def _index_name(method: Value) -> str:
    """What `__getitem__` calls the index."""
    function = function_of(method)
    names = [each.arg for each in function.node.args.args] if function is not None else []
    return names[-1] if names else "self"


def _analyze(do: LibraryContext, act: Callable[[], Values]) -> tuple[Values, SpeculativeRun]:
    """What something would return and log, without a trace."""
    with do.execution.speculative(MAX_ITEM_STATEMENTS) as run:
        values = act()
    return values, run


def _item(do: LibraryContext, getter: Values, node: ast.AST) -> Values:
    return do.call(getter, Arguments((unknown(do, node, "an index"),)), node)


def _note_reading(do: LibraryContext, dataset: Dataset, ask: Callable[[], Values]) -> None:
    """Log where a data set reads a file for an item, unless it keeps what it has read once."""
    with do.execution.speculative(MAX_ITEM_STATEMENTS):
        ask()
        with do.execution.speculative() as again:
            ask()
    for event in again.events:
        # What stands under a test may be read once and kept.
        if isinstance(event, (ReadFile, Load)) and not event.condition.difference(do.path):
            do.emit(ItemRead, at=event.location, dataset=dataset, call=event.call)
            return
