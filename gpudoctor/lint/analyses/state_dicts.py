"""What checkpoints hold: the states that are written, and what was loaded when a state is restored."""

from __future__ import annotations

from collections.abc import Hashable

from gpudoctor.lint.domain.abstract_state import NO, ContainerState, TensorState
from gpudoctor.lint.domain.container import DictOf
from gpudoctor.lint.domain.module import Module, StateDict, Wrapper, WrapperKind
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values
from gpudoctor.lint.events.files import ShardedState
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.library_call import Call, LibraryContext, flatten

_DEPTH = 6
"""Entries of entries, and calls of calls, that are followed back to the file."""


def written(do: LibraryContext, content: Values | None) -> tuple[tuple[str, Value], ...]:
    """The state dicts and modules in what is saved, each with its entry in a dictionary."""
    found: list[tuple[str, Value]] = []
    for value in content or ():
        # `if fp16: state["amp"] = …`: what is there on some path may be written.
        for key, each in do.possible_pairs(value) if isinstance(value, DictOf) else ():
            name = key.single.value if isinstance(key.single, Const) else None
            # Saved as `{"model": model.state_dict(), …}`, read back by the same entry.
            if isinstance(name, str):
                found += [(name, state) for state in each if _is_state(state)]
        if _is_state(value):
            found.append(("", value))
    return tuple(found)


def note_gathered(call: Call, owner: Value) -> None:
    """A module is asked for its state, for which FSDP brings the parameters together."""
    # What `fully_shard` made hands out the parts as they are.
    if isinstance(owner, Wrapper) and owner.has(WrapperKind.FSDP):
        call.emit(ShardedState, call="state_dict", owner=owner, gathers=True)


def _is_state(value: Value) -> bool:
    return isinstance(value, (StateDict, Module, Wrapper))


def origin(call: Call, state: Values | None) -> tuple[Value | None, str | None]:
    """What was loaded from a file to get this state, and which entry of it this is.

    The entry is None where the state is not just an entry of the file: it was changed, or something was made of it.
    """
    only = state.single if state is not None else None
    if only is None and state is not None:
        # Loaded from a file or fetched from somewhere else, as the path says: the one that is loaded counts.
        origins = [origin(call, ValueSet.of(each)) for each in state]
        files = {loaded for loaded, _ in origins if loaded is not None}
        return (files.pop(), None) if len(files) == 1 else (None, None)
    if isinstance(only, Unknown):
        root, entry = _root(only.key, 0), _entry(only.key)
        if root is None:
            return None, None
        loaded = Unknown(root, "what was in a file", escaped_from="torch.load")
        # A loop that strips `module.` from the keys is the usual cure of a prefix.
        changed = any(call.do.flag(value, TensorState.rewritten) is not NO for value in (only, loaded))
        return loaded, None if changed else entry
    for value in (only, *flatten(call.do, [only])) if only is not None else ():
        more = call.do.state(value, ContainerState.more) if isinstance(value, DictOf) else None
        for each in (value, *(more or ())):
            root = _root(each.key, 0) if isinstance(each, Unknown) else None
            if root is not None:
                return Unknown(root, "what was in a file", escaped_from="torch.load"), None
    return None, None


def is_loaded(value: Unknown) -> bool:
    """It was read from a checkpoint, or made of what was."""
    return _root(value.key, 0) is not None


def _root(key: Hashable, depth: int) -> Hashable | None:
    """The key of what was loaded, somewhere in a key that was made from it."""
    if isinstance(key, Unknown):
        return _root(key.key, depth)
    if not isinstance(key, (tuple, ValueSet)) or depth > _DEPTH:
        return None
    # The model of `torch.load` makes this key.
    if isinstance(key, tuple) and len(key) == 2 and key[0] == "loaded":
        return key
    return next((found for part in key if (found := _root(part, depth + 1)) is not None), None)


def _entry(key: Hashable) -> str | None:
    """`model` for `checkpoint["model"]`, an empty text for the checkpoint itself, None for anything else."""
    if not isinstance(key, tuple):
        return None
    if key[0] == "loaded":
        return ""
    inner = _entry(key[1]) if key[0] == "item" and len(key) == 3 else None
    name = key[2].value if inner == "" and isinstance(key[2], Const) else None
    return name if isinstance(name, str) else None
