"""Calls whose result nobody takes: what they return is lost, as that of `DDP(model)`."""

from __future__ import annotations

import ast
from collections.abc import Callable

from gpudoctor.lint.domain.abstract_state import NO, TensorState
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Allocated, Unknown, Value, Values
from gpudoctor.lint.events.collective import Discard
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import LibraryContext


@told(HOOKS.dropped)
def _note_dropped(
    do: LibraryContext, call: ast.Call, values: Values, receivers: Callable[[], list[Value]], shown: bool
) -> None:
    # Only dropped objects are mistakes: `DDP(model)`, `convert_sync_batchnorm(model)`.
    dropped = [value for value in values.restrict(do.path) if isinstance(value, Allocated) or value.agreed]
    # `x.float()` at the end of a cell is there to be looked at.
    dropped = [value for value in dropped if not (shown and isinstance(value, Tensor))]
    if not dropped:
        return
    called_on = receivers()
    only = called_on[0] if len(called_on) == 1 and isinstance(called_on[0], (Allocated, Unknown)) else None
    # `data = Data(x=x)`, then `data.to(device)`: what it is, and whether it changes in place, nobody knows.
    if isinstance(only, Tensor) and do.flag(only, TensorState.made_by_unread_code) is not NO:
        return
    name = call.func.attr if isinstance(call.func, ast.Attribute) else do.text(call.func, 40)
    owner = call.func.value if isinstance(call.func, ast.Attribute) else None
    written = do.text(owner, 40) if isinstance(owner, (ast.Name, ast.Attribute, ast.Subscript)) else ""
    for value in dropped:
        # `model.train()` of one of several models gives that one back.
        receiver = value if value in called_on else only
        do.emit(Discard, at=do.place(call), value=value, call=name, receiver=receiver, written=written)


@told(HOOKS.part_taken)
def _note_unwrapped(do: LibraryContext, call: ast.Call, values: Values, name: str) -> None:
    """`DDP(model).module`: the model is kept, and what was made around it is lost."""
    only = values.single
    if name == "module" and isinstance(only, Wrapper) and only.place == do.place(call):
        do.emit(Discard, at=only.place, value=only, call=only.kind.value, kept=name)
