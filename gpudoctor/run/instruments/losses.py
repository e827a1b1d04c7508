"""What goes backward: how each loss was scaled before, and how many graphs stay alive after."""

from __future__ import annotations

import gc
import math
import weakref
from typing import Any

import torch

from gpudoctor.run.instruments.fingerprints import Table
from gpudoctor.run.instruments.state import State

_MOST_LOSSES = 256
"""Backwards whose loss is looked at."""
_MOST_PLACES = 20
_MOST_SCALES = 6
"""Operations in a row that scale a loss."""
_MOST_GRAPHS = 10_000
_MANY = 8
_MOST_COLLECTIONS = 4


class Losses:
    """The losses of this process, by where they go backward."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._seen = self._written = self._collected = 0
        self.marked = 0
        """Losses whose graphs are looked for later."""
        self._places: dict[tuple[Any, ...], dict[str, Any]] = {}
        self._graphs: weakref.WeakSet[_GraphMark] = weakref.WeakSet()

    def note(self, tensors: Any) -> None:
        """Look at what goes backward now."""
        # An iterator can be walked but once, and an edge of a graph is a tuple, too.
        first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
        node = first.grad_fn if isinstance(first, torch.Tensor) else None
        if node is None:
            return
        if len(self._graphs) < _MOST_GRAPHS:
            # It lives exactly as long as the graph does, whoever keeps that.
            node.metadata["gpudoctor"] = mark = _GraphMark()
            self._graphs.add(mark)
            self.marked += 1
        if self._seen < _MOST_LOSSES:
            self._seen += 1
            self._look(node)

    @property
    def graphs(self) -> int:
        """How many of those are still there."""
        if len(self._graphs) >= _MANY and self._collected < _MOST_COLLECTIONS:
            # What only refers to itself is gone soon.
            self._collected += 1
            gc.collect()
        return len(self._graphs)

    def write(self) -> None:
        """Write down what is new about them."""
        if self._seen > self._written:
            self._written = self._seen
            for each in self._places.values():
                self._state.write("loss", **each)

    def _look(self, node: Any) -> None:
        place = self._state.recorder.place()
        scale, node = _scale(node)
        made_by = node.name()
        if not self._state.reads_tokens:
            positions = _positions(node)
            self._state.reads_tokens = any(_each_is_predicted(table, positions) for table in self._state.tables)
        key = (*place, made_by) if place else ()
        if key and (key in self._places or len(self._places) < _MOST_PLACES):
            known = self._places.setdefault(key, {"place": place, "made_by": made_by, "count": 0, "scales": []})
            known["count"] += 1
            if scale not in known["scales"] and len(known["scales"]) < _MOST_SCALES:
                known["scales"].append(scale)


class _GraphMark:
    """Lies in a graph."""

    __slots__ = ("__weakref__",)


def _positions(node: Any) -> int:
    """For how many positions a class was predicted, where this is what made a loss of it; 0 otherwise."""
    chances = node.next_functions[0][0] if node.name().startswith("NllLoss") else None
    # What was kept of tensors may not be asked for: a checkpoint would compute it anew.
    about = getattr(chances, "_input_metadata", None)
    shape: tuple[int, ...] = tuple(about[0].shape) if about else ()
    # The second counts the classes.
    return math.prod((*shape[:1], *shape[2:])) if shape[1:] else 0


def _each_is_predicted(table: Table, positions: int) -> bool:
    """One for each number of a table, or for each that has one before it: so are models of language trained."""
    every = table.rows * table.columns
    return positions > table.rows and positions in (every, every - table.rows)


def _scale(node: Any) -> tuple[float, Any]:
    """By which plain numbers a loss was multiplied, and the operation that made it before that."""
    scale = 1.0
    for _ in range(_MOST_SCALES):
        name = node.name()
        number = _number(node) if name in ("DivBackward0", "MulBackward0") else None
        following = [each for each, _ in node.next_functions if each is not None]
        # A tensor on the GPU is not asked for its value; that of a `GradScaler` is undone before the step.
        if len(following) != 1 or (number is None and name != "MulBackward0") or number == 0:
            break
        if number is not None:
            scale = scale / number if name == "DivBackward0" else scale * number
        node = following[0]
    return round(scale, 9), node


def divided_by(loss: Any, number: int) -> bool:
    """A loss was divided by this number, with nothing behind but other plain numbers."""
    node = loss.grad_fn if isinstance(loss, torch.Tensor) else None
    for _ in range(_MOST_SCALES):
        factor = _number(node) if node is not None and node.name() in ("DivBackward0", "MulBackward0") else None
        if node is None or factor is None:
            return False
        # `loss * (1 / number)` is the same.
        if factor == number if node.name() == "DivBackward0" else math.isclose(factor * number, 1.0, rel_tol=1e-6):
            return True
        node = next((each for each, _ in node.next_functions if each is not None), None)
    return False


def _number(node: Any) -> float | None:
    try:
        other = node._saved_other
    except RuntimeError:
        # A backward that frees it has been here already.
        return None
    if isinstance(other, torch.Tensor):
        return other.item() if other.device.type == "cpu" and other.dim() == 0 else None
    return None if other is None else float(other)
