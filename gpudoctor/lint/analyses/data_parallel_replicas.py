"""What `DataParallel` makes of a forward: it runs on a copy of the model for each GPU, and the results are gathered."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.abstract_state import PROCESS, ProcessState, TensorState
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf, items_held
from gpudoctor.lint.domain.symbols import method_asked
from gpudoctor.lint.domain.tensor import Extent, Tensor
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Unknown, Value, Values
from gpudoctor.lint.events.model import ReplicaRead, ReplicaWrite
from gpudoctor.lint.interface.contents import find_method, known_items, pairs
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import Call, singleton
from gpudoctor.manifest.compiled import operations
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Location
    from gpudoctor.lint.domain.module import Module
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.interface.library_context import LibraryContext

    Attributed = tuple[Value, str]
    """An attribute: of what, and its name."""


def gathered(call: Call, core: Module, output: Tensor) -> Tensor:
    """The output of a forward as `DataParallel` hands it on: single numbers have become one for each GPU."""
    own = find_method(call.do, core, "forward")
    if own is None or call.do.state(PROCESS, ProcessState.replica_of) is not None:
        # transformers returns the loss, first and by name, where it is given labels.
        labels = call.keywords.get("labels")
        known = core.made_by.startswith("transformers.") and labels is not None and labels.single != NONE
        return _with_numbers(call, output, (0, "loss") if known else ())
    whole, parts, events, _ = _rehearsed(call, core, own, {})
    _note_writes(call, core, own, [event for event in events if isinstance(event, ReplicaWrite)])
    return replace(output, extent=Extent.EACH_GPU) if whole else _with_numbers(call, output, parts)


def _rehearsed(
    call: Call, core: Module, forward: Values, held: dict[Attributed, Values]
) -> tuple[bool, tuple[object, ...], list[Event], set[Attributed]]:
    """Whether a forward returns a single number, which of its parts are some, what it would log, and which attributes
    it leaves with something made of what they held.

    `held` is what attributes are taken to hold, in place of what they do."""
    with call.do.execution.speculative() as run:
        call.do.set_state(PROCESS, ProcessState.replica_of, singleton(core))
        for (owner, name), values in held.items():
            call.do.set_own_attribute(owner, name, values)
        returned = call.do.call(forward, call.arguments, call.node)
        # What dictionaries hold is forgotten with the run.
        number, numbers = _is_number(returned), _numbers_in(call.do, returned)
        carried = {key for key in held if _is_carried(key, call.do.own_attribute(*key))}
    return number, numbers, run.events, carried


def _is_carried(key: Attributed, left: Values | None) -> bool:
    """What an attribute is left with was made of what it held; one that is set anew at the end carries nothing on, and
    one that was moved or given another shape will be again: `self.scale = self.scale.to(x.device)`."""
    mark = _mark(key)
    return left is not None and left.any(lambda value: mark in value.shards and not _is_held_still(value))


_KEEPING = operations("reshapes", "shares") - operations("reorders")


def _is_held_still(value: Value) -> bool:
    """These are the numbers that the attribute held, in another place or shape."""
    while (asked := method_asked(value)) is not None and asked[1] in _KEEPING:
        value = asked[0]
    return isinstance(value.term, Anonymous) and value.term.kind == _HELD


def _note_writes(call: Call, core: Module, forward: Values, writes: list[ReplicaWrite]) -> None:
    """Log what a forward sets on a copy of the model: from here on the model is without it."""
    held: dict[Attributed, Values] = {}
    for key in {(event.module, event.name): None for event in writes}:
        old = call.do.own_attribute(*key)
        if old is not None:
            # Whatever is computed from it can be told by it; a share of data is handed on in the same way.
            held[key] = singleton(Unknown(Anonymous(_HELD, key), "state", key[1], shards=frozenset([_mark(key)])))
    # Once more with marks in place of the old values, to see which of them the new ones are made of.
    _, _, events, kept = _rehearsed(call, core, forward, held) if held else (False, (), [], set())
    carried = {
        event.location
        for event in events
        if isinstance(event, ReplicaWrite) and event.carried and (event.module, event.name) in kept
    }
    for event in writes:
        call.do.execution.watched.add((event.module, event.name))
        call.do.emit(
            ReplicaWrite, at=event.location, module=event.module, name=event.name, carried=event.location in carried
        )


_HELD = "held by a replica"


def _mark(key: Attributed) -> Value:
    return Unknown(Anonymous("state of a replica", key))


def note_written(do: LibraryContext, owner: Value, name: str, values: Values, place: Location) -> None:
    """An attribute of a module is set, which counts where a copy of the model is running."""
    if do.state(PROCESS, ProcessState.replica_of) is None:
        # Set on the model itself, it is there to be read.
        do.execution.watched.discard((owner, name))
        return
    old = do.own_attribute(owner, name)
    # `self.mean += x` of a tensor works in place, and the first copy shares its memory with the model.
    if do.execution.augmenting and old is not None and old.has(Tensor):
        return
    mark = _mark((owner, name))
    carried = values.any(lambda value: mark in value.shards)
    do.emit(ReplicaWrite, at=place, module=owner, name=name, carried=carried)


@told(HOOKS.watched_reads)
def _note_read(do: LibraryContext, owner: Value, name: str, node: ast.AST) -> None:
    """An attribute is read that only copies of the model have been given."""
    if do.state(PROCESS, ProcessState.replica_of) is None:
        do.emit(ReplicaRead, at=do.place(node), module=owner, name=name)


def _numbers_in(do: LibraryContext, returned: Values) -> tuple[object, ...]:
    only = returned.single
    if isinstance(only, DictOf):
        entries = [(key.single, item) for key, item in pairs(do, only) or ()]
        return tuple(key.value for key, item in entries if isinstance(key, Const) and _is_number(item))
    items = known_items(do, only) if isinstance(only, (TupleOf, ListOf)) else None
    return tuple(index for index, item in enumerate(items or ()) if _is_number(item))


def _is_number(values: Values) -> bool:
    return values.all(lambda value: value.extent is Extent.NUMBER)


def _with_numbers(call: Call, output: Tensor, keys: tuple[object, ...]) -> Tensor:
    if keys:
        call.do.set_state(
            output, TensorState.numbers_of_each_gpu, singleton(TupleOf(tuple(singleton(Const(key)) for key in keys)))
        )
    return output


def extent_of_part(do: LibraryContext, tensor: Tensor, key: object) -> Extent | None:
    """What is known about the part of an output under a key."""
    known = do.state(tensor, TensorState.numbers_of_each_gpu) if key is not None else None
    return Extent.EACH_GPU if any(item.single == Const(key) for item in items_held(known)) else None


def reduces(given: Values | None) -> bool:
    """This `reduction` of a loss leaves one number for the batch; so does the default."""
    return given is None or given.all(lambda value: value in (Const("mean"), Const("sum"), Const("batchmean")))


def takes_mean(given: Values | None) -> bool:
    """This `reduction` of a loss is the mean over the batch; so is the default."""
    return given is None or given.all(lambda value: value in (Const("mean"), Const("batchmean")))
