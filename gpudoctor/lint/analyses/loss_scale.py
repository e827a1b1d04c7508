"""Arithmetic on losses and gradients: what is still the mean of a batch, and what was divided by the world size."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from gpudoctor.diagnostic import Location
from gpudoctor.lint.analyses.collective_taint import averaged_in, counts_rounds
from gpudoctor.lint.analyses.extents import is_count
from gpudoctor.lint.domain.abstract_state import NO, ContainerState, TensorState, ValueCell
from gpudoctor.lint.domain.container import DictOf, TupleOf, items_held
from gpudoctor.lint.domain.device import CPU
from gpudoctor.lint.domain.function import Class, Instance, class_of
from gpudoctor.lint.domain.module import UNSEEN, Module
from gpudoctor.lint.domain.rank import Size, SizeKind
from gpudoctor.lint.domain.symbols import CallResult, Length, MethodResult, Operation, Widened
from gpudoctor.lint.domain.tensor import Extent, Mark, Tensor, TensorOrigin, tensors_in
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values
from gpudoctor.lint.events.training_step import ScaleGradients
from gpudoctor.lint.flow.valueset import Binding, ValueSet
from gpudoctor.lint.interface.contents import fields_of, pairs
from gpudoctor.lint.interface.library_call import LibraryContext, flatten, singleton
from gpudoctor.manifest.compiled import operations
from gpudoctor.record import replace

ReturnedPlaces: TypeAlias = "Mapping[ValueCell[Any], Sequence[Value]]"
"""What is known of what a class of models returns, with the places where that holds."""

OPERATORS: dict[type[ast.operator], str] = {
    ast.Add: "add",
    ast.Mult: "mul",
    ast.Div: "div",
    ast.Sub: "sub",
    ast.Pow: "pow",
}
FACTORY = TensorOrigin.FACTORY
WHOLE = Const(-1)
SCALING = operations("scales")
_OF_MEANS = operations("joins") | {"add"}
"""What makes of means what is one again, or several of them."""
_MEASURING = operations("reduces", "measures", "answers")
"""What says how large gradients are, or whether they are numbers."""


def operator_of(node: ast.AST) -> str:
    """The arithmetic operator of an expression or an augmented assignment, as torch calls it."""
    return OPERATORS.get(type(node.op), "") if isinstance(node, (ast.BinOp, ast.AugAssign)) else ""


def of_arithmetic(do: LibraryContext, result: Value, operands: list[Value], by: str, place: Location) -> Value:
    """The result of an operation, with what is known of the loss that it is."""
    tensors = tensors_in(operands)
    if by in SCALING and any(tensor.origin is TensorOrigin.GRADIENT for tensor in tensors):
        do.emit(ScaleGradients, at=place)
    graphs = [tensor for tensor in tensors if tensor.graph is not False]
    if not isinstance(result, Tensor):
        return result
    # The norm of gradients is none.
    if by in _MEASURING and result.origin is TensorOrigin.GRADIENT:
        result = replace(result, origin=TensorOrigin.OTHER)
    if not graphs:
        return _running_mean(do, result, operands, by)
    alike = all(tensor.mean for tensor in graphs)
    mean = (alike and by in _OF_MEANS) or (by == "div" and _is_average(do, operands))
    divided = _divided(operands, by) if len(graphs) == 1 and by in SCALING else None
    over = _divisor(operands, by) if len(graphs) == 1 and by in SCALING else None
    # `(a + b) / 2` is the mean of its parts, whatever else there are two of.
    if over is not None and over == _summands(do, graphs):
        over = None
    elif alike and by == "add" and len(graphs) > 1:
        do.set_state(result, TensorState.summands, singleton(_summands(do, graphs)))
    known = mean or divided is not None or over is not None
    return replace(result, mean=mean, divided=divided, over=over) if known else result


def _summands(do: LibraryContext, losses: list[Tensor]) -> Const:
    """Of how many losses their sum consists."""
    counts = [do.state(each, TensorState.summands) for each in losses]
    numbers = [each.single.in_python if each is not None and each.single is not None else 1 for each in counts]
    return Const(sum(each for each in numbers if isinstance(each, int)))


def _is_average(do: LibraryContext, operands: list[Value]) -> bool:
    """`(loss * mask).sum() / mask.sum()`, `loss.sum() / len(targets)`"""
    total, count = operands[0], operands[-1]
    if not isinstance(total, Tensor) or do.flag(total, TensorState.whole_sum) is NO:
        return False
    match count.term:
        case MethodResult(of=Tensor() as summed, method="item"):
            count = summed
    if isinstance(count, Tensor):
        return count.extent is Extent.NUMBER and count.graph is False
    return not count.is_constant and is_count(count)


def _running_mean(do: LibraryContext, result: Tensor, operands: list[Value], by: str) -> Tensor:
    """`running += loss.detach()`, from a tensor of zeros on, is a mean again as `running / len(loader)`, or `/ count`
    where that counts the rounds."""
    first, last = operands[0], operands[-1]
    summed = isinstance(first, Tensor) and do.flag(first, TensorState.sum_of_means) is not NO
    if by == "div" and summed and isinstance(last, Unknown):
        return replace(result, mean=True) if counts_rounds(last) else result
    means = [
        each
        for each in operands
        if isinstance(each, Tensor) and (each.mean or do.flag(each, TensorState.sum_of_means) is not NO)
    ]
    others = [each for each in operands if each not in means]
    if by == "add" and means and all(isinstance(each, Const) or each.origin is FACTORY for each in others):
        do.set_flag(result, TensorState.sum_of_means)
    return result


_SUMMANDS = 8
"""So many steps are looked back at what a sum was made of."""


_MEANS = ("numpy.mean", "numpy.average", "statistics.mean", "statistics.fmean")


def is_mean_of_batches(do: LibraryContext, value: Value, depth: int = _SUMMANDS) -> bool:
    """The number is the mean of a loss, or of several batches: `total += loss.item()` and `total / count`."""
    parts: list[Value | None] = []
    match value.term:
        case MethodResult(Tensor() as tensor, "item"):
            return tensor.mean
        case CallResult(function, ((listed, *_), _)) if function in _MEANS and isinstance(listed, ValueSet):
            parts += flatten(do, [*listed])
        case Operation("/", Unknown(term=CallResult("builtins.sum", (listed,))), Unknown(term=Length(held))):
            parts += flatten(do, [*listed]) if isinstance(listed, ValueSet) and listed.single == held else []
        case Operation("/", total, count):
            parts += averaged_in(total, count)
        case Operation("+", left, right):
            parts += [left, right]
        case Widened(_, values):
            parts += values
    parts = [each for each in parts if not isinstance(each, Const)]
    return depth > 0 and bool(parts) and all(each is not None and _is_mean(do, each, depth - 1) for each in parts)


def _is_mean(do: LibraryContext, value: Value, depth: int) -> bool:
    return value.mean or is_mean_of_batches(do, value, depth)


def known_of_returned(do: LibraryContext, returned: Values) -> ReturnedPlaces:
    """What a rehearsed forward returns, `return logits, F.cross_entropy(…)`: asked while its containers are there."""
    return {
        TensorState.returned_means: _handed_on(do, returned) or _places(do, returned, lambda value: value.mean),
        TensorState.returned_graphs: _places(do, returned, _has_graph),
        TensorState.returned_on_cpu: _places(do, returned, _is_made_on_cpu),
        TensorState.returned_constants: _constants(do, returned),
        TensorState.returned_gathered: _gathered(do, returned),
    }


def note_returned(do: LibraryContext, cls: Class, known: ReturnedPlaces) -> None:
    """Keep it for the class."""
    for cell, places in known.items():
        if places and do.state(cls, cell) is None:
            do.set_state(cls, cell, ValueSet([Binding(place) for place in places]))


def _handed_on(do: LibraryContext, returned: Values) -> list[Const]:
    """The same of what another forward has returned."""
    means = do.state(returned.single, TensorState.returned_means) if isinstance(returned.single, Tensor) else None
    return [each for each in means or () if isinstance(each, Const)]


def _places(do: LibraryContext, returned: Values, is_so: Callable[[Value], bool]) -> list[Const]:
    parts = _parts(do, returned.single)
    if parts is None:
        return [WHOLE] if returned.bindings and returned.all(is_so) else []
    right = [place for place, values in parts if values.all(is_so)]
    # Under a key that is not known may stand another's entry.
    places = [] if any(place is None for place, _ in parts) else [place for place in right if place is not None]
    # Who goes over them meets no other.
    return [*places, WHOLE] if parts and len(right) == len(parts) else places


def _gathered(do: LibraryContext, returned: Values) -> list[Value]:
    parts = _parts(do, returned.single)
    asked = [returned] if parts is None else [values for _, values in parts if values.all(lambda value: value.mean)]
    losses = [values.single for values in asked]
    return [mark for loss in losses if loss is not None for mark in loss.shards if isinstance(mark, Mark)]


def _constants(do: LibraryContext, returned: Values) -> list[Value]:
    """What the forward has made by itself and returns beside other things, each with the place where it stands."""
    found: list[Value] = []
    for place, values in _parts(do, returned.single) or ():
        only = values.single
        if place is not None and isinstance(only, Tensor) and only.root is not None and only.origin is FACTORY:
            found.append(TupleOf((singleton(place), values)))
    return found


def _parts(do: LibraryContext, returned: Value | None) -> list[tuple[Const | None, Values]] | None:
    """The parts of a container by their index, key or name, None for one that is not known; None of what is none."""
    match returned:
        case TupleOf(items):
            return [(Const(index), item) for index, item in enumerate(items)]
        case DictOf():
            more = do.state(returned, ContainerState.more)
            entries = [(key.single, values) for key, values in pairs(do, returned) or ()]
            named = [(key if isinstance(key, Const) else None, values) for key, values in entries]
            return [*named, (None, more)] if more is not None else named
        case Instance(cls=cls):
            fields = {name: do.own_attribute(returned, name) for name in fields_of(cls)}
            return [(Const(name), values) for name, values in fields.items() if values is not None]
    return None


def _has_graph(value: Value) -> bool:
    return value.graph is True and not value.doubtful


def as_returned(do: LibraryContext, output: Tensor, model: Module) -> Tensor:
    """The output of a model, with what is known of what its class returns."""
    cls = class_of(model)
    if cls is None:
        # Models of libraries return what their layers have computed, in each part of it.
        if model.made_by != UNSEEN:
            do.set_state(output, TensorState.returned_graphs, ValueSet([Binding(WHOLE)]))
        return output
    for cell in (
        TensorState.returned_means, TensorState.returned_graphs, TensorState.returned_on_cpu,
        TensorState.returned_constants, TensorState.returned_gathered,
    ):  # fmt: skip
        places = do.state(cls, cell)
        if places is not None:
            do.set_state(output, cell, places)
    if WHOLE in (do.state(cls, TensorState.returned_on_cpu) or ()):
        output = replace(output, device=CPU)
    means = do.state(cls, TensorState.returned_means)
    if means is None or WHOLE in means:
        output = _with_gathered(do, output, output)
    return replace(output, mean=True) if means is not None and means.single == WHOLE else output


def part_returned(do: LibraryContext, output: Tensor, index: object, part: Tensor) -> Tensor:
    """An entry of what a model has returned, with what is known of it."""
    made_apart = do.state(output, TensorState.returned_constants) if _is_whole(output) else None
    for place, values in map(items_held, map(singleton, made_apart or ())):
        if place.single == Const(index) and isinstance(values.single, Tensor):
            constant = values.single
            return replace(part, root=constant.root, device=constant.device, place=constant.place, graph=False)
    return _with_gathered(do, output, replace(part, mean=True)) if _is_returned_mean(do, output, index) else part


def _with_gathered(do: LibraryContext, output: Tensor, part: Tensor) -> Tensor:
    marks = do.state(output, TensorState.returned_gathered)
    return part if marks is None else replace(part, shards=part.shards.union(marks))


def is_returned_on_cpu(do: LibraryContext, output: Tensor, index: object) -> bool:
    """This entry of what a model has returned is on the CPU, wherever the model is."""
    places = do.state(output, TensorState.returned_on_cpu) if _is_whole(output) else None
    return Const(index) in (places or ())


def _is_returned_mean(do: LibraryContext, output: Tensor, index: object) -> bool:
    """This entry of what a model has returned is a mean."""
    means = do.state(output, TensorState.returned_means) if _is_whole(output) else None
    return means is not None and any(place == Const(index) for place in means)


def may_lack_graph(do: LibraryContext, output: Tensor, index: object) -> bool:
    """A model may return masks or counters beside what has a graph, and this may be one."""
    if not _is_whole(output):
        return False
    graphs = do.state(output, TensorState.returned_graphs)
    return graphs is None or all(place not in (WHOLE, Const(index)) for place in graphs)


def _is_made_on_cpu(value: Value) -> bool:
    """Filled in there by the forward: `torch.zeros(n, 5)`."""
    return value.origin is FACTORY and value.device == CPU


def _is_whole(output: Tensor) -> bool:
    return output.origin is TensorOrigin.OUTPUT and not output.part


def _divided(operands: list[Value], by: str) -> Value | None:
    """By how many processes a loss is divided after this operation."""
    size = next((value for value in operands if isinstance(value, Size)), None)
    if size is None:
        return next((value.divided for value in operands if value.divided), None)
    # `loss * world_size` undoes the average of DDP, on purpose.
    divides = by.startswith(("div", "true_div")) and not isinstance(operands[0], Size)
    return size if divides and size.kind is SizeKind.WORLD else None


def _divisor(operands: list[Value], by: str) -> Value | None:
    """The number that a loss is divided by, written there or chosen by the user; `loss * (1 / steps)` is the same."""
    loss, others = operands[0], operands[1:]
    number = others[0] if isinstance(loss, Tensor) and len(others) == 1 else None
    if not by.startswith(("div", "true_div")):
        match number:
            case Unknown(term=Operation("/", Const(value=1), divisor)):
                number = divisor
            case _:
                return None
    return number if number is not None and (number.is_constant or number.config) else None
