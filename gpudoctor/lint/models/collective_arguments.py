"""What collectives of torch must be given, and what they refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.values.base import Const
from gpudoctor.lint.values.container import DictOf, ListOf, TupleOf
from gpudoctor.lint.values.tensor import Tensor

if TYPE_CHECKING:
    from gpudoctor.lint.models.api import Call

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
