"""What checkpoints hold: the states that are written, and what was loaded when a state is restored."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.domain.abstract_state import NO, YES, ContainerState, ModuleState, TensorState
from gpudoctor.lint.domain.container import DictOf
from gpudoctor.lint.domain.device import CPU
from gpudoctor.lint.domain.module import Module, StateDict, Wrapper, WrapperKind
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import Attribute, CallResult, Item
from gpudoctor.lint.domain.value import NONE, Const, Unknown, Value, Values, constant_of, single_of, term_of
from gpudoctor.lint.events.files import ShardedState
from gpudoctor.lint.flow.valueset import Binding, ValueSet, union
from gpudoctor.lint.interface.contents import possible_pairs
from gpudoctor.lint.interface.hooks import HOOKS, answers
from gpudoctor.lint.interface.library_call import MODELS, Call, LibraryContext, flatten, singleton

_DEPTH = 6
"""Entries of entries, and calls of calls, that are followed back to the file."""


def written(do: LibraryContext, content: Values | None) -> tuple[tuple[str, Binding[Value]], ...]:
    """The state dicts and modules in what is saved, each with its entry in a dictionary."""
    found: list[tuple[str, Binding[Value]]] = []
    for value in content or ():
        # `if fp16: state["amp"] = …`: what is there on some path may be written.
        for key, each in possible_pairs(do, value):
            name = constant_of(key.single)
            # Saved as `{"model": model.state_dict(), …}`, read back by the same entry.
            if isinstance(name, str):
                found += [(name, state) for state in each.bindings if _is_state(state.value)]
        if _is_state(value):
            found.append(("", Binding(value)))
    return tuple(found)


def is_copied_to_cpu(do: LibraryContext, content: Values | None) -> bool:
    """`{name: each.cpu() for name, each in model.state_dict().items()}`, or a dictionary with one that is made so."""
    made_of = [list(provenance_of(each)) for each in flatten(do, list(content or ()))]
    copies = [parts for parts in made_of if any(isinstance(part, StateDict) for part in parts[1:])]
    return bool(copies) and all(map(_goes_to_cpu, copies))


def _goes_to_cpu(parts: list[object]) -> bool:
    called = {part.name for part in parts if isinstance(part, Attribute)}
    return "cpu" in called or ("to" in called and any(part in (CPU, Const("cpu")) for part in parts))


def note_gathered(call: Call, owner: Value) -> None:
    """A module is asked for its state, for which FSDP brings the parameters together."""
    # What `fully_shard` made hands out the parts as they are. In `model.module` it is the units that gather.
    if owner.wrapped_by(WrapperKind.FSDP) or call.do.flag(owner, ModuleState.holds_units) is YES:
        call.emit(ShardedState, call="state_dict", owner=owner, gathers=True)


def _is_state(value: Value) -> bool:
    return isinstance(value, (StateDict, Module, Wrapper))


def taken(state: Values | None) -> tuple[StateDict, ...]:
    """The states that the program itself has asked for, among what it loads."""
    return tuple(each for each in state or () if isinstance(each, StateDict))


def origin(call: Call, state: Values | None) -> tuple[Value | None, str | None]:
    """What was loaded from a file to get this state, and which entry of it this is.

    The entry is None where the state is not just an entry of the file: it was changed, or something was made of it.
    """
    only = single_of(state)
    if only is None and state is not None:
        # Loaded from a file or fetched from somewhere else, as the path says: the one that is loaded counts, and of
        # two the one that is tried first.
        origins = [found for each in state if (found := origin(call, ValueSet.of(each)))[0] is not None]
        entries = {entry for _, entry in origins}
        return (origins[0][0], entries.pop() if len(entries) == 1 else None) if origins else (None, None)
    if isinstance(only, Unknown):
        loaded, entry = _loaded(only), _entry(only)
        if loaded is None:
            return None, None
        # A loop that strips `module.` from the keys is the usual cure of a prefix.
        changed = any(call.do.flag(value, TensorState.rewritten) is not NO for value in (only, loaded))
        return loaded, None if changed else entry
    if isinstance(only, StateDict):
        return _written_to(call, only)
    inside = () if only is None else _inside(call, only)
    return next((loaded for each in inside if (loaded := _loaded(each)) is not None), None), None


def _inside(call: Call, value: Value) -> Iterator[Value]:
    """It and what it holds."""
    for each in (value, *flatten(call.do, [value])):
        yield each
        if isinstance(each, DictOf):
            yield from call.do.state(each, ContainerState.more) or ()


def _written_to(call: Call, state: StateDict) -> tuple[Value | None, str | None]:
    """The same of what the program has put into a state of its own."""
    there = call.do.state(state, TensorState.written_items) or ()
    values = [each for value in there for each in _inside(call, value)]
    loaded = next((each for value in values if (each := _loaded(value)) is not None), None)
    parts = (part for value in values for part in provenance_of(value, _DEPTH) if isinstance(part, Unknown))
    return loaded, next((name for part in parts if (name := _entry(part))), None)


@answers(HOOKS.item_set, StateDict)
def _replaced(do: LibraryContext, value: StateDict, _: Values, new: Values) -> None:
    """`state[name] = tensor.full_tensor()`: its entries are no longer those of the model."""
    do.set_flag(value, TensorState.rewritten)
    _note_written(do, value, new)


@MODELS.method(StateDict, "update")
def _updated(call: Call[StateDict]) -> Values:
    """`state.update(checkpoint)`, where some of the model has no entry in the file."""
    for given in call.args:
        _replaced(call.do, call.receiver, given, given)
    return singleton(NONE)


def _note_written(do: LibraryContext, value: StateDict | Unknown, new: Values) -> None:
    before = do.state(value, TensorState.written_items)
    do.set_state(value, TensorState.written_items, union([before, new]) if before is not None else new)


@answers(HOOKS.item_set, Unknown)
def _rewritten(do: LibraryContext, value: Unknown, *_: Values) -> None:
    """`state["k"] = v`: what it was read as no longer holds."""
    if _loaded(value) is not None:
        do.set_flag(value, TensorState.rewritten)


def _loaded(value: Value) -> Unknown | None:
    """What was loaded, somewhere in a value that was made from it."""
    return next((each for each in provenance_of(value, _DEPTH) if _is_root(each)), None)  # type: ignore[return-value]


def _is_root(value: object) -> bool:
    match term_of(value):
        case CallResult("torch.load"):
            return True
    return False


def _entry(value: Unknown) -> str | None:
    """`model` for `checkpoint["model"]`, an empty text for the checkpoint itself, None for anything else."""
    if _is_root(value):
        return ""
    match value.term:
        case Item(Unknown() as whole, Const(str(name))) if _is_root(whole):
            return name
    return None
