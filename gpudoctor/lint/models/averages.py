"""Arithmetic on losses and gradients: what is still the mean of a batch, and what was divided by the world size."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

from gpudoctor.lint.values.base import Unknown
from gpudoctor.lint.values.data import Loader
from gpudoctor.lint.values.event import ScaleGradients
from gpudoctor.lint.values.rank import Size, SizeKind
from gpudoctor.lint.values.tensor import Tensor, TensorOrigin
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Location
    from gpudoctor.lint.models.api import Interpreter
    from gpudoctor.lint.values.base import Value

OPERATORS: dict[type[ast.operator], str] = {ast.Add: "add", ast.Mult: "mul", ast.Div: "div", ast.Sub: "sub"}
SCALING = frozenset({"mul", "div", "mul_", "div_", "multiply", "divide", "true_divide", "true_divide_", "multiply_"})


def operator_of(node: ast.AST) -> str:
    """The arithmetic operator of an expression or an augmented assignment, as torch calls it."""
    return OPERATORS.get(type(node.op), "") if isinstance(node, (ast.BinOp, ast.AugAssign)) else ""


def of_arithmetic(do: Interpreter, result: Value, operands: list[Value], by: str, place: Location) -> Value:
    """The result of an operation, with what is known of the loss that it is."""
    tensors = [value for value in operands if isinstance(value, Tensor)]
    if by in SCALING and any(tensor.origin is TensorOrigin.GRADIENT for tensor in tensors):
        do.emit(ScaleGradients, at=place)
    graphs = [tensor for tensor in tensors if tensor.graph is not False]
    if not isinstance(result, Tensor):
        return result
    if not graphs:
        return replace(result, mean=True) if _is_running_mean(tensors, operands, by) else result
    mean = by == "add" and all(tensor.mean for tensor in graphs)
    divided = _divided(operands, by) if len(graphs) == 1 and by in SCALING else None
    return replace(result, mean=mean, divided=divided) if mean or divided is not None else result


def _is_running_mean(tensors: list[Tensor], operands: list[Value], by: str) -> bool:
    """`running += loss.detach()`, from a tensor of zeros on, and `running / len(loader)`."""
    if by == "div" and len(tensors) == 1 and tensors[0].mean:
        key = operands[-1].key if isinstance(operands[-1], Unknown) else None
        return isinstance(key, tuple) and key[0] == "len" and isinstance(key[1], Loader)
    added = by in ("add", "add_") and len(tensors) == len(operands) and any(tensor.mean for tensor in tensors)
    return added and all(tensor.mean or tensor.origin is TensorOrigin.FACTORY for tensor in tensors)


def _divided(operands: list[Value], by: str) -> Value | None:
    """By how many processes a loss is divided after this operation."""
    size = next((value for value in operands if isinstance(value, Size)), None)
    if size is None:
        return next((value.divided for value in operands if isinstance(value, Tensor) and value.divided), None)
    # `loss * world_size` undoes the average of DDP, on purpose.
    divides = by.startswith(("div", "true_div")) and not isinstance(operands[0], Size)
    return size if divides and size.kind is SizeKind.WORLD else None
