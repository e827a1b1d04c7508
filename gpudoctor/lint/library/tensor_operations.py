"""What operators, items and tests of tensors give, and what they log."""

from __future__ import annotations

import ast

from gpudoctor.diagnostic import Location
from gpudoctor.lint.analyses.collective_taint import after_operator, give_graph
from gpudoctor.lint.analyses.extents import extent_of_sum, of_extent
from gpudoctor.lint.analyses.forward_body import check_meeting
from gpudoctor.lint.analyses.loss_scale import of_arithmetic, operator_of
from gpudoctor.lint.domain.abstract_state import TensorState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.data import Dataset
from gpudoctor.lint.domain.device import CPU
from gpudoctor.lint.domain.group import Work
from gpudoctor.lint.domain.rank import Rank
from gpudoctor.lint.domain.symbols import Length, ParameterName, asked_of, speaks_of
from gpudoctor.lint.domain.tensor import Extent, Tensor, TensorOrigin, tensors_in
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values, text_of
from gpudoctor.lint.events.data_loading import BatchCut
from gpudoctor.lint.events.placement import ConstantMixed
from gpudoctor.lint.events.reporting import Averaged
from gpudoctor.lint.events.training_step import ClearGradients
from gpudoctor.lint.flow.condition import Divergence, complement
from gpudoctor.lint.flow.valueset import ValueSet, union
from gpudoctor.lint.interface.contents import new_list, possible_pairs, put_entries, set_item
from gpudoctor.lint.interface.hooks import HOOKS, answers, told
from gpudoctor.lint.interface.library_call import MODELS, Call, LibraryContext, singleton
from gpudoctor.lint.library import tensors
from gpudoctor.lint.library.tensors import agreed, as_reduced, asked, combined, is_agreed, part_of, without_graph
from gpudoctor.record import replace

told(HOOKS.computed)(after_operator)
told(HOOKS.text_parts)(agreed)
answers(HOOKS.agreed, Tensor, Unknown)(is_agreed)
answers(HOOKS.tests, Tensor)(asked)
told(HOOKS.printed)(tensors.note_printed)


@answers(HOOKS.operations, Tensor, Work)
@answers(HOOKS.comparisons, Tensor)
def combine(do: LibraryContext, values: list[Value], node: ast.AST) -> Values:
    """What an operation on tensors returns."""
    for value in values:
        if isinstance(value, Work):
            return MODELS.methods[Work, "__operate__"](Call(do, "__operate__", NO_ARGUMENTS, node, receiver=value))
    result = combined(do, values, do.place(node), do.text(node, 40))
    # `(grid == rank).nonzero()` is where this rank stands.
    for value in values:
        if isinstance(value, Rank) and isinstance(result, Tensor):
            result = replace(result, dependence=result.dependence | value.divergence)
    if isinstance(node, (ast.Compare, ast.BinOp, ast.AugAssign)):
        check_meeting(do, values, "this operation", do.place(node))
    if isinstance(node, ast.Compare):
        return singleton(of_extent(without_graph(_still_constant(values, result)), Extent.CHOICE))
    if isinstance(node, (ast.BinOp, ast.AugAssign)):
        result = after_operator(node.op, values[-1], result)
    arithmetic = isinstance(node, (ast.BinOp, ast.AugAssign, ast.UnaryOp))
    if arithmetic:
        result = _still_constant(values, result)
        result = of_arithmetic(do, result, values, operator_of(node), do.place(node))
    return singleton(of_extent(result, _extent(values, node)) if arithmetic else result)


def _extent(values: list[Value], node: ast.AST) -> Extent | None:
    """Of `a & b` and `~a` of answers, or of a sum."""
    if isinstance(getattr(node, "op", None), (ast.BitAnd, ast.BitOr, ast.BitXor, ast.Invert)):
        answers = all(each.extent is Extent.CHOICE for each in values)
        return Extent.CHOICE if answers else None
    return extent_of_sum(values)


def _still_constant(values: list[Value], result: Value) -> Value:
    """`torch.arange(n) * 2` is a constant as well."""
    # Of two constants it is not known which one a message should name.
    operands = tensors_in(values)
    if len(operands) != 1 or not isinstance(result, Tensor) or result.device != CPU:
        return result
    return replace(result, root=operands[0].root)


@told(HOOKS.accumulated)
def _accumulated(do: LibraryContext, target: ast.expr, new: Values, node: ast.AST) -> None:
    """`total += loss`: a graph may be kept beyond the iteration."""
    if new.has(Tensor):
        tensors.note_accumulation(do, do.text(target, 40), new, do.place(node))


@told(HOOKS.augmented)
def _written(do: LibraryContext, old: Values, by: Values, node: ast.AST) -> None:
    """`total += loss`: what is written in place lies where it lay, and takes nothing from a GPU, not even a number."""
    total, other = old.single, by.single
    if isinstance(total, Tensor) and total.origin is TensorOrigin.FACTORY and total.device == CPU:
        there = other.device if other is not None else None
        # What has more than one number was told as any operation.
        if total.root is None and there is not None and there.is_accelerator:
            do.emit(ConstantMixed, at=do.place(node), by="this operation", constant=total, other=other, module=None)


@answers(HOOKS.items, Tensor)
def part(do: LibraryContext, tensor: Tensor, key: object, node: ast.AST) -> Values:
    """An item of a tensor, or of a batch whose shape is not known."""
    held = _held_under(do, tensor, key) if type(key) is str else None
    if held is not None:
        return held
    whole = as_reduced(do, tensor)
    if isinstance(key, Tensor):
        # `table[steps]`: a bare number is asked for what it is, and others must lie where the table lies.
        counted = key.extent is not Extent.NUMBER and not key.part
        if tensor.origin is TensorOrigin.FACTORY and tensor.on_cpu and key.on_accelerator and counted:
            do.emit(ConstantMixed, at=do.place(node), by="this index", constant=tensor, other=key, module=None)
        # `scores[scores > 0.5]`: so many as the data says.
        picked = Extent.OF_DATA if key.extent is Extent.CHOICE else None
        # Rows that this rank has drawn are its own.
        own = key.divergence & Divergence.LOCAL
        rows = part(do, tensor, None, node).map(lambda each: of_extent(each, picked))
        return rows.map(lambda each: each.if_tensor(dependence=each.divergence | own)) if own else rows
    label = do.text(node, 40) if isinstance(node, ast.Subscript) else ""
    found = part_of(do, whole, do.allocation_site(do.place(node)), do.place(node), label, key)
    # `x[0]` may be a number; `x[:n]` and `x[None]` are none.
    index = node.slice if isinstance(node, ast.Subscript) else None
    keys = index.elts if isinstance(index, ast.Tuple) else [index]
    sliced = any(isinstance(each, ast.Slice) for each in keys)
    reshaped = all(isinstance(each, ast.Constant) and each.value in (None, ...) for each in keys)
    # What a model has made beside its output is whole.
    beside = found.root != whole.root
    return singleton(found if sliced or reshaped or beside else replace(found, root=None))


def _held_under(do: LibraryContext, tensor: Tensor, name: str) -> Values | None:
    """What the program has put into a batch under a name, where it surely has."""
    found = next((held for key, held in possible_pairs(do, tensor) if text_of(key.single) == name), None)
    here = found.restrict(do.path) if found is not None else None
    return here if here is not None and not complement(do.path, [each.condition for each in here.bindings]) else None


@answers(HOOKS.iterations, Tensor)
def _parts(do: LibraryContext, tensor: Tensor, node: ast.AST) -> Values:
    """Going over a batch gives its parts, each of which is of the same shard."""
    parts = part(do, tensor, None, node)
    # Those of `steps[:-1]` are single numbers, perhaps, which may lie on the CPU beside whatever is on a GPU.
    found = parts.map(lambda each: each.if_tensor(root=None))
    if isinstance(found.single, Tensor):
        do.set_state(found.single, TensorState.names_entries_of, singleton(tensor))
    return found


@answers(HOOKS.item_set, Tensor)
def _written_into(do: LibraryContext, tensor: Tensor, index: Values, new: Values) -> None:
    """`batch["x"] = x.cuda()`: what it was read as no longer holds."""
    do.set_flag(tensor, TensorState.rewritten)
    give_graph(do, tensor)
    # `for name in losses: losses[name] = reduce(losses[name])` leaves none of them as it was; with `if name == "total"`
    # around it, the others stay.
    named = _names_any_entry(do, index.single, tensor)
    each = named and not any(speaks_of(literal, index.single) for literal in do.path)
    if each and not tensors.shards_in(do, [*new]):
        do.set_flag(tensor, TensorState.reduced)
        return
    if text_of(index.single) is not None:
        put_entries(do, tensor, {index: new})
    # It is copied as it is now: `counts[i] = reduced(own[i])`.
    new = new.map(lambda each: tensors.as_reduced(do, each) if isinstance(each, Tensor) else each)
    before = do.state(tensor, TensorState.written_items)
    # Of many alternatives nothing would be left: what is of the same shards says nothing more.
    known = {_as_written(each) for each in before or ()}
    more = [each for each in new.bindings if _as_written(each.value) not in known]
    if before is None or more:
        written = union([before, ValueSet(more)]) if before is not None else new
        do.set_state(tensor, TensorState.written_items, written)


def _as_written(value: Value) -> tuple[object, ...]:
    """What is asked of a value that stands in a tensor."""
    return type(value), value.shards, value.divergence, value.device


@MODELS.method(Tensor, "items", "keys", "values", "get", "pop", "copy", "update")
def _mapping(call: Call[Tensor]) -> Values:
    """A batch whose shape is not known may be a dictionary."""
    tensor = call.receiver
    name = call.text(0, "key") if call.name in ("get", "pop") else None
    if name is not None:
        return part(call.do, tensor, name, call.node)
    for other in call.args[0] if call.name == "update" and call.args else ():
        for written, held in possible_pairs(call.do, other):
            set_item(call.do, tensor, written, held, call.node)
    key = singleton(tensors.key_of(tensor))
    one = singleton(part_of(call.do, as_reduced(call.do, tensor), call.allocation_site(), call.place))
    if call.name == "keys":
        return new_list(call.do, [key], call.node, exact=False)
    if call.name == "items":
        return new_list(call.do, [singleton(TupleOf((key, one)))], call.node, exact=False)
    if call.name == "values":
        return new_list(call.do, [one], call.node, exact=False)
    return one


def _names_any_entry(do: LibraryContext, key: Value | None, tensor: Tensor) -> bool:
    """It came out of going over what may be a dictionary, or over its keys."""
    if not isinstance(key, Tensor):
        return key == tensors.key_of(tensor)
    owner = do.state(key, TensorState.names_entries_of)
    return owner is not None and owner.single == tensor


@told(HOOKS.cut_by_rank)
def _cut(do: LibraryContext, found: Values, place: Location) -> None:
    """`batch[rank * share : (rank + 1) * share]`: each rank takes rows of its own."""
    loader = next((each.batch_of for each in found if each.batch_of is not None), None)
    if loader is not None:
        do.emit(BatchCut, at=place, loader=loader)


@told(HOOKS.divided)
def _averaged(do: LibraryContext, total: Value, count: Value, node: ast.AST) -> None:
    """`correct / len(dataset)`, where the ranks have a share each."""
    term = count.term
    if isinstance(term, Length) and isinstance(term.of, Dataset):
        shards = tensors.shards_in(do, [total])
        if shards:
            do.emit(Averaged, at=do.place(node), dataset=term.of, shards=shards)


@told(HOOKS.attribute_sets)
def _clears_gradient(do: LibraryContext, owner: Value, name: str, values: Values, place: Location) -> None:
    """`p.grad = None` clears as `zero_grad()` does."""
    if name != "grad" or not values.all(lambda value: value == Const(None)):
        return
    # `image.grad = None` of an adversarial input clears no parameter.
    if isinstance(owner, Unknown) or owner.origin is TensorOrigin.PARAMETER:
        do.emit(ClearGradients, at=place, target=owner, named=_is_named(do, owner))


@told(HOOKS.changes_by_itself)
def _is_gradient(owner: Value, name: str) -> bool:
    """After `p.grad = None` the next backward puts one there."""
    return name == "grad" and isinstance(owner, (Tensor, Unknown))


def _is_named(do: LibraryContext, owner: Value) -> bool:
    """`if "last_layer" in name:` leads here: it is about parameters of that name."""
    name = Unknown(ParameterName(owner))
    return any(name in asked_of(literal) for literal in do.path if literal.holds)
