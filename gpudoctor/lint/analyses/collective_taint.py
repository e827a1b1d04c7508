"""What collectives leave in tensors: all that is computed from them carries it on, as it does a share of data."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from gpudoctor.lint.domain.abstract_state import NO, ContainerState, TensorState
from gpudoctor.lint.domain.container import ListOf
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.function import library_name_of
from gpudoctor.lint.domain.group import Group, group_of
from gpudoctor.lint.domain.symbols import Length, Operation, Widened
from gpudoctor.lint.domain.tensor import Mark, MarkKind, Tensor, tensors_in
from gpudoctor.lint.domain.value import FALSE, NONE, Const, Unknown, Value, Values, single_of, text_of
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import Binding
from gpudoctor.lint.interface.library_call import Call, LibraryContext, flatten, singleton
from gpudoctor.manifest.compiled import operations
from gpudoctor.manifest.effects import CollectiveEffect
from gpudoctor.record import replace

Carrier = TypeVar("Carrier", bound=Value)

_SCALING = operations("scales", "overwrites")
"""Operations after which a sum is one no more, or may be something else."""


def marks_of(do: LibraryContext, tensor: Tensor) -> frozenset[Value]:
    """What the last collective left in this tensor, on all paths that lead here."""
    found = do.state(tensor, TensorState.marks)
    if found is None:
        return frozenset()
    # A collective under a test leaves nothing that is certain behind it.
    return frozenset(each.value for each in found.bindings if each.value != NONE and do.path.implies(each.condition))


def depends_on(marks: frozenset[Value]) -> Divergence:
    """How far ranks may disagree about a tensor that a collective has left these marks in."""
    on_one = any(isinstance(mark, Mark) and mark.kind is MarkKind.ON_ONE_RANK for mark in marks)
    return Divergence.LOCAL if on_one else Divergence.NONE


def set_marks(do: LibraryContext, tensor: Tensor, marks: list[Mark]) -> None:
    """The tensor, and what shares its memory, have these marks from here on and no others."""
    values = Values([Binding[Value](mark) for mark in marks]) if marks else singleton(NONE)
    for each in sharing_memory(do, tensor):
        do.set_state(each, TensorState.marks, values)


def sharing_memory(do: LibraryContext, tensor: Tensor) -> list[Tensor]:
    """The tensor, and the one whose memory it shares: `a.data` shares that of `a`."""
    return [tensor, *tensors_in(do.state(tensor, TensorState.memory) or ())]


def note_view(do: LibraryContext, view: Tensor, tensor: Tensor) -> None:
    """Two tensors share their memory: what is written into the first stands in the second."""
    root = do.state(tensor, TensorState.memory)
    do.set_state(view, TensorState.memory, root if root is not None else singleton(tensor))


def mark_result(call: Call, effect: CollectiveEffect, target: Values | None) -> None:
    """A collective has written into `target`."""
    only = single_of(target)
    if isinstance(only, Tensor):
        set_marks(call.do, only, _marks(call, effect, only, call.given(effect.sends)))
    elif isinstance(only, ListOf):
        marks = _marks(call, effect, None, call.given(effect.sends))
        for each in flatten(call.do, [only]):
            if isinstance(each, Tensor):
                set_marks(call.do, each, marks)
        more = call.do.state(only, ContainerState.more)
        if marks and more is not None:
            call.do.set_state(only, ContainerState.more, more.map(lambda each: each.if_tensor(shards=frozenset(marks))))


def gathered(call: Call, effect: CollectiveEffect, sent: Values | None) -> Values | None:
    """What a collective returns for a tensor that surely has a graph, which the result has lost, or for a mean, of
    which it is the sum; else None."""
    marks = _marks(call, effect, None, sent) if (effect.gathers or effect.sum_by) and not effect.writes else []
    own = next(iter(tensors_in(sent or ())), None)
    if not marks or own is None:
        return None
    graph = False if effect.gathers else None
    made = Tensor(call.allocation_site(), call.place, call.label, own.origin, own.device, graph=graph)
    set_marks(call.do, made, marks)
    call.do.set_flag(made, TensorState.reduced)
    return singleton(made)


def _marks(call: Call, effect: CollectiveEffect, target: Tensor | None, sent: Values | None) -> list[Mark]:
    label = target.label if target is not None else call.label
    found: list[Mark] = []
    # Scaled in place before, it is no average of this rank any more.
    added = target or (single_of(sent, Tensor) if effect.sum_by else None)
    plain = added is not None and added.mean and call.do.flag(added, TensorState.scaled) is NO
    group = group_of(call.given("group"))
    if plain and effect.adds_up and _adds(call, effect) and not (isinstance(group, Group) and group.alone):
        found.append(Mark(MarkKind.SUM, call.place, label))
    if effect.adds_up and effect.result_on:
        found.append(Mark(MarkKind.ON_ONE_RANK, call.place, label, call.given(effect.result_on)))
    to_all = effect.gathers and not effect.result_on and not effect.objects
    if to_all and sent is not None and not call.do.evaluating and _cuts(call, effect):
        cut = [each for each in sent if each.graph is True and not each.doubtful]
        # Of one of several models all outputs are.
        if cut and len(cut) == len(sent):
            found.append(Mark(MarkKind.WITHOUT_GRAPH, call.place, cut[0].label))
    return found


def _cuts(call: Call, effect: CollectiveEffect) -> bool:
    """No gradient flows through it."""
    asked = call.given(effect.passes_gradients) if effect.passes_gradients else None
    return not effect.differentiable and (asked is None or asked.single == FALSE)


def _adds(call: Call, effect: CollectiveEffect) -> bool:
    op = call.given(effect.sum_by or "op")
    return op is None or text_of(op.single) == "sum" or library_name_of(single_of(op)).endswith(".SUM")


def give_graph(do: LibraryContext, tensor: Tensor) -> None:
    """The rank's own, which has its graph, is written into what came from all ranks."""
    marks = marks_of(do, tensor)
    if any(isinstance(mark, Mark) and mark.kind is MarkKind.WITHOUT_GRAPH for mark in marks):
        set_marks(do, tensor, [])


def without(value: Carrier, kind: MarkKind) -> Carrier:
    """The value without marks of a kind."""
    if not isinstance(value, (Tensor, Unknown)) or not value.shards:
        return value
    kept = frozenset(mark for mark in value.shards if not (isinstance(mark, Mark) and mark.kind is kind))
    return value if len(kept) == len(value.shards) else replace(value, shards=kept)


def after_operation(name: str, given: list[Value], result: Value) -> Value:
    """What an operation of this name makes of the marks of its operands."""
    if not isinstance(result, Tensor) or not result.shards:
        return result
    if name in _SCALING:
        return result if len(given) > 1 and counts_rounds(given[1]) else without(result, MarkKind.SUM)
    own = any(each.graph is True and not _is_gathered(each) for each in given)
    # `torch.cat([features, *others])`: the rank's own are there with their graph.
    return without(result, MarkKind.WITHOUT_GRAPH) if name in operations("joins") and own else result


def after_operator(operator: ast.operator, right: Value, result: Value) -> Value:
    """What an operator makes of the marks of its operands."""
    if not isinstance(operator, (ast.Div, ast.Mult, ast.FloorDiv)) or counts_rounds(right):
        return result
    if isinstance(operator, ast.Div) and isinstance(result, Unknown) and isinstance(result.term, Operation):
        # `sum += loss * n`, `count += n`, `sum / count`: the average of sums over the ranks.
        parts = [each for each in averaged_in(result.term.left, right) if not isinstance(each, Const)]
        if parts and None not in parts:
            sums = (mark for each in parts if each is not None for mark in each.shards if _is_sum(mark))
            return replace(result, shards=result.shards.union(sums))
    return without(result, MarkKind.SUM)


def _is_sum(mark: Value) -> bool:
    return isinstance(mark, Mark) and mark.kind is MarkKind.SUM


_SUMMANDS = 8
"""So many steps are looked back at what a sum was made of."""


def averaged_in(total: Value, count: Value) -> list[Value | None]:
    """What `total / count` is the average of, each part without the weight that the count sums up as well. None stands
    for a part without weight over a number of samples."""
    plain, counted = count == Const(1) or counts_rounds(count), list(_summands(count))
    return [_without_weight(each, counted, plain) for each in _summands(total)]


def _without_weight(value: Value, counted: Sequence[Value], plain: bool) -> Value | None:
    match value.term:
        case Operation("*", mean, weight) if weight in counted:
            return mean
    return value if plain or isinstance(value, Const) else None


def _summands(value: Value, depth: int = _SUMMANDS) -> Iterator[Value]:
    match value.term:
        case Operation("+", left, right) if depth:
            parts: Iterable[Value] = (left, right)
        case Widened(_, values) if depth:
            parts = values
        case _:
            yield value
            return
    for each in parts:
        yield from _summands(each, depth - 1)


def _is_gathered(tensor: Value) -> bool:
    return any(isinstance(mark, Mark) and mark.kind is MarkKind.WITHOUT_GRAPH for mark in tensor.shards)


def counts_rounds(divisor: Value) -> bool:
    """It says how many batches there were, which has nothing to do with the number of ranks."""
    length = isinstance(divisor.term, Length) and isinstance(divisor.term.of, Loader)
    return length or bool(divisor.divergence & Divergence.BATCH_INDEX)


def note_in_place(do: LibraryContext, tensor: Tensor, name: str) -> None:
    """`loss.div_(world_size)` changes the tensor itself."""
    if name not in _SCALING:
        return
    for each in sharing_memory(do, tensor):
        if each.mean or each.shards:
            do.set_flag(each, TensorState.scaled)
        if do.state(each, TensorState.marks) is not None:
            kept = [mark for mark in marks_of(do, each) if isinstance(mark, Mark) and mark.kind is not MarkKind.SUM]
            set_marks(do, each, kept)
