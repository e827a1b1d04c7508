"""What collectives of torch must be given, and what they refuse."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Const
from gpudoctor.lint.flow.condition import Divergence

if TYPE_CHECKING:
    from gpudoctor.lint.library_call import Call

# Required arguments by position; after a bar, the name that newer versions take instead.
REQUIRED = {
    "all_reduce": ("tensor",),
    "broadcast": ("tensor", "src|group_src"),
    "reduce": ("tensor", "dst|group_dst"),
    "all_gather": ("tensor_list", "tensor"),
    "gather": ("tensor",),
    "scatter": ("tensor",),
    "reduce_scatter": ("output", "input_list"),
    "all_to_all": ("output_tensor_list", "input_tensor_list"),
    "all_gather_into_tensor": ("output_tensor", "input_tensor"),
    "reduce_scatter_tensor": ("output", "input"),
    "all_to_all_single": ("output", "input"),
    "all_gather_object": ("object_list", "obj"),
}
TAKES_A_TENSOR = frozenset({"all_reduce", "broadcast", "reduce", "gather", "scatter"})
FIRST_A_LIST = frozenset({"all_gather", "all_gather_object"})
ON_ONE_RANK = {"gather": "gather_list", "scatter": "scatter_list"}
"""Arguments that one rank must give, and no other one may."""


def flaw_of(call: Call, name: str) -> str:
    """What is wrong with the arguments of this collective: `lacks src`, `in wrong order`, `no tensor`, `list on every
    rank`, `list on no rank`; empty where nothing is."""
    # `*args` of which nothing is known may hold what seems to be missing.
    if call.open_ended:
        return ""
    for index, names in enumerate(REQUIRED.get(name, ())):
        # An attribute that is None here may be filled by code that was not followed.
        if call.arg(index, names.partition("|")[0]) is None and names.rpartition("|")[2] not in call.keywords:
            return f"lacks {names.partition('|')[0]}"
    first = call.args[0] if call.args else None
    if name in FIRST_A_LIST and first is not None and first.all(_is_no_list):
        return "in wrong order"
    if name in TAKES_A_TENSOR and first is not None and first.all(_is_no_tensor):
        return "no tensor"
    return _uneven(call, name)


def _uneven(call: Call, name: str) -> str:
    if name not in ON_ONE_RANK:
        return ""
    given = call.arg(1, ON_ONE_RANK[name])
    if given is None:
        return "list on no rank"
    # `lst if rank == 0 else None`, or an empty list on the others, is how it should be.
    return "list on every rank" if given.all(lambda value: _is_full(call, value)) else ""


def _is_full(call: Call, value: object) -> bool:
    return isinstance(value, ListOf) and call.do.known_items(value) != ()


def _is_no_list(value: object) -> bool:
    return isinstance(value, (Tensor, DictOf)) or (isinstance(value, Const) and value.value is not None)


def _is_no_tensor(value: object) -> bool:
    return isinstance(value, (ListOf, TupleOf, DictOf)) or (isinstance(value, Const) and value.value is not None)


SHARING = frozenset(
    """
    detach view view_as reshape flatten squeeze unsqueeze contiguous to cuda cpu float half double bfloat16 long int
    type t permute transpose expand requires_grad_
    """.split()
)
"""Methods whose result may share its memory with the tensor."""
COPYING = frozenset(
    """
    clone sum mean max min add sub mul div norm sqrt pow exp log abs tensor stack cat copy
    """.split()
)
"""Methods and functions that always make a tensor of their own."""


def writes_into_copy(call: Call, index: int, name: str) -> bool:
    """What is written to was made in this very argument, from numbers of this rank, so that nobody else gets it."""
    if not isinstance(call.node, ast.Call):
        return False
    named = {keyword.arg: keyword.value for keyword in call.node.keywords}
    node = named.get(name) or (call.node.args[index] if 0 <= index < len(call.node.args) else None)
    given = call.arg(index, name)
    only = given.single if given is not None else None
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
    if function.attr in SHARING:
        return _is_copied(function.value)
    return function.attr in COPYING
