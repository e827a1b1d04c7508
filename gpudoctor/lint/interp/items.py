"""What a loader's batches are made by: the items of a data set of the project, and the function that joins them."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from gpudoctor.lint.interp.machine import one
from gpudoctor.lint.interp.streams import look_at_stream
from gpudoctor.lint.models import tensors
from gpudoctor.lint.models.api import flat
from gpudoctor.lint.values.base import TRUE, Value, Values
from gpudoctor.lint.values.data import Dataset, Loader, Sampler
from gpudoctor.lint.values.device import CPU, Device
from gpudoctor.lint.values.event import DeviceUsed, Event, ItemOnGpu, ItemRead, Load, Move, ReadFile
from gpudoctor.lint.values.function import Bound, Function, Partial
from gpudoctor.lint.values.tensor import Tensor

if TYPE_CHECKING:
    from gpudoctor.lint.interp.interpreter import Interpreter


def batch(m: Interpreter, loader: Loader, node: ast.AST) -> Values:
    """One batch of a loader."""
    for values in (loader.sampler, loader.batch_sampler):
        for sampler in values or ():
            if isinstance(sampler, Sampler) and not _was_seen(m, sampler.base):
                look_at_stream(m, sampler.base, node)
    for dataset in loader.dataset or ():
        _look_at_items(m, dataset, loader, node)
        _look_at_collate(m, dataset, loader, node)
    return tensors.batch(m, loader, m.place(node), m.text(node, 40))


def _look_at_collate(m: Interpreter, dataset: Value, loader: Loader, node: ast.AST) -> None:
    """Learn whether the function that makes batches of items puts them on a device."""
    function = loader.collate
    followed = function is not None and function.all(lambda value: isinstance(value, (Function, Bound, Partial)))
    if function is None or not followed or m.fact(loader, "collated") is not None:
        return
    m.set_fact(loader, "collated", one(TRUE))
    getter = m.find_method(dataset, "__getitem__")
    # What the data set returns is what the function gets, in a list.
    item = m.rehearse(partial(_item, m, getter, node))[0] if getter is not None else m.unknown(node, "an item")
    _, events = m.rehearse(lambda: m.call(function, (m.new_list([item], node, exact=False),), {}, node))
    _note_gpu(m, loader, events)


def _note_gpu(m: Interpreter, loader: Loader, events: list[Event]) -> None:
    """Log where what is done for each item surely uses a GPU."""
    for event in events:
        used = isinstance(event, DeviceUsed) and event.purpose in ("move", "factory") and event.certain
        # What stands under a test may be switched off where there are workers.
        if used and _is_cuda(event) and not event.when.without(m.path):
            m.emit(ItemOnGpu, at=event.location, loader=loader)
            return


def _is_cuda(event: Event) -> bool:
    return isinstance(event, DeviceUsed) and isinstance(event.device, Device) and event.device.type == "cuda"


def _look_at_items(m: Interpreter, dataset: Value, loader: Loader, node: ast.AST) -> None:
    """Learn whether a data set of the project puts its items on a device."""
    while isinstance(dataset, Dataset) and isinstance(dataset.parent, Dataset):
        dataset = dataset.parent
    if not isinstance(dataset, Dataset) or _was_seen(m, dataset):
        return
    getter = m.find_method(dataset, "__getitem__")
    # Rehearsed: loading an item in a worker is no event of the training loop.
    if getter is not None:
        ask = partial(_item, m, getter, node)
        items, events = m.rehearse(ask)
        if any(isinstance(event, (ReadFile, Load)) for event in events):
            _note_reading(m, dataset, ask)
    else:
        items, events = look_at_stream(m, dataset, node)
    _note_gpu(m, loader, events)
    moved = any(isinstance(event, (Move, DeviceUsed)) for event in events)
    if moved or any(isinstance(item, Tensor) and item.device != CPU for item in flat(m, list(items))):
        m.set_fact(dataset, "moves items", one(TRUE))


def _was_seen(m: Interpreter, source: Dataset | Sampler) -> bool:
    """Each is looked at once: an item costs as much as all that makes it."""
    if m.fact(source, "seen") is not None:
        return True
    m.set_fact(source, "seen", one(TRUE))
    return False


def _item(m: Interpreter, getter: Values, node: ast.AST) -> Values:
    return m.call(getter, (m.unknown(node, "an index"),), {}, node)


def _note_reading(m: Interpreter, dataset: Dataset, ask: Callable[[], Values]) -> None:
    """Log where a data set reads a file for an item, unless it keeps what it has read once."""
    start, begun = len(m.log), 0

    def twice() -> Values:
        nonlocal begun
        ask()
        begun = len(m.log) - start
        return ask()

    _, events = m.rehearse(twice)
    for event in events[begun:]:
        # What stands under a test may be read once and kept.
        if isinstance(event, (ReadFile, Load)) and not event.when.without(m.path):
            m.emit(ItemRead, at=event.location, dataset=dataset, call=event.call)
            return
