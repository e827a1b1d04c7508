"""What collectives of torch must be given, what they refuse, and what is pickled for them."""

from __future__ import annotations

import ast

from gpudoctor.lint.domain.abstract_state import NO, YES, ContainerState, TensorState
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf
from gpudoctor.lint.domain.tensor import Tensor, tensors_in
from gpudoctor.lint.domain.value import Const, Values, single_of
from gpudoctor.lint.events.collective import Pickled
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.contents import known_items
from gpudoctor.lint.interface.library_call import Call, flatten
from gpudoctor.manifest.compiled import operations
from gpudoctor.manifest.effects import CollectiveEffect


def flaw_of(call: Call, effect: CollectiveEffect) -> str:
    """What is wrong with the arguments of this collective: `lacks src`, `in wrong order`, `no tensor`, `list on every
    rank`, `list on no rank`, `one tensor`; empty where nothing is."""
    function = call.declared
    # `*args` of which nothing is known may hold what seems to be missing.
    if call.open_ended or function is None:
        return ""
    # An attribute that is None here may be filled by code that was not followed.
    missing = next((name for name in function.names[: function.required] if call.given(name) is None), "")
    either = effect.needs.split(" | ") if effect.needs else []
    if missing or (either and all(call.given(name) is None for name in either)):
        return f"lacks {missing or either[0]}"
    first = call.args[0] if call.args else None
    kind = function.kinds[0] if function.kinds else ""
    if kind.startswith("list[") and first is not None and first.all(_is_no_list):
        return "in wrong order"
    if kind == "Tensor" and first is not None and first.all(_is_no_tensor):
        return "no tensor"
    return _uneven(call, effect) or _aliased(call, effect)


def _aliased(call: Call, effect: CollectiveEffect) -> str:
    """`[torch.zeros_like(x)] * world_size` is one tensor, to which the shares of all ranks are written in turn."""
    made = single_of(call.given(effect.writes)) if effect.gathers and effect.writes else None
    if not isinstance(made, ListOf) or call.do.flag(made, ContainerState.repeated) is not YES:
        return ""
    held = set(flatten(call.do, [made]))
    return "one tensor" if len(held) == 1 and isinstance(held.pop(), Tensor) else ""


def _uneven(call: Call, effect: CollectiveEffect) -> str:
    if not effect.only_on:
        return ""
    where, given = call.given(effect.only_on), call.given(effect.given_there)
    # `src=step % size`: each rank in turn, so that what leads here has asked whose turn it is.
    if where is not None and not isinstance(where.single, Const):
        return ""
    if given is None:
        return "list on no rank"
    # `lst if rank == 0 else None`, or an empty list on the others, is how it should be.
    return "list on every rank" if given.all(lambda value: _is_full(call, value)) else ""


def _is_full(call: Call, value: object) -> bool:
    return isinstance(value, ListOf) and known_items(call.do, value) != ()


def _is_no_list(value: object) -> bool:
    return isinstance(value, (Tensor, DictOf)) or (isinstance(value, Const) and value.value is not None)


def _is_no_tensor(value: object) -> bool:
    return isinstance(value, (ListOf, TupleOf, DictOf)) or (isinstance(value, Const) and value.value is not None)


_SHARING = operations("reshapes", "shares")
_COPYING = operations("each_number", "combines", "reduces", "measures", "joins") - _SHARING


def writes_into_copy(call: Call, name: str) -> bool:
    """What is written to was made in this very argument, from numbers of this rank, so that nobody else gets it."""
    if not isinstance(call.node, ast.Call):
        return False
    index = call.declared.position(name) if call.declared is not None else -1
    named = {keyword.arg: keyword.value for keyword in call.node.keywords}
    node = named.get(name) or (call.node.args[index] if 0 <= index < len(call.node.args) else None)
    only = single_of(call.given(name))
    # A helper of the project may keep what it returns: then the tensor comes from another place.
    if not isinstance(node, (ast.Call, ast.BinOp)) or not isinstance(only, Tensor) or only.place != call.do.place(node):
        return False
    # A zero that is reduced is a barrier or a rehearsal, and nobody wants it back.
    return _is_copied(node) and bool(only.dependence & Divergence.LOCAL or only.shards or only.mean)


def _is_copied(node: ast.expr) -> bool:
    if isinstance(node, ast.BinOp):
        return True
    function = node.func if isinstance(node, ast.Call) else None
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr in _SHARING:
        return _is_copied(function.value)
    return function.attr in _COPYING


def note_pickled(call: Call, given: Values | None, sent: bool = False) -> None:
    """Log that this is pickled, where tensors of a GPU are surely in it."""
    if given is None or not call.do.several_processes:
        return
    held = flatten(call.do, list(given.restrict(call.do.path)))
    tensors = tensors_in(held)
    # Of what may be one of several, or stands for a dictionary, some may have been brought to the CPU.
    rewritten = [each for each in tensors if call.do.flag(each, TensorState.rewritten) is not NO]
    if tensors and not rewritten and all(each.on_accelerator for each in tensors):
        call.emit(Pickled, call=call.name, tensor=tensors[0], sent=sent)
