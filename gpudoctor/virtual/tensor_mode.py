"""The mode of torch functions: what is asked of tensors is answered as if they lived on virtual GPUs.

PyTorch hands each call on tensors to the mode before it computes anything. What only a device can answer, and what
moves tensors, has an answer of its own (`answers.py`, `transfers.py`); all else is computed on the CPU, and its results
live where its operands do (`operands.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from torch.overrides import TorchFunctionMode

from gpudoctor.virtual.operands import Operands

TorchAnswer = Callable[[Any, tuple[Any, ...], dict[str, Any]], Any]
"""Stands in for a function of torch: gets the function, its arguments and its keywords."""


class VirtualMode(TorchFunctionMode):  # type: ignore[misc]
    """Put in place in each thread. Within an answer it is not in place, so that functions of torch are torch's own."""

    def __init__(self, operands: Operands, answers: dict[Any, TorchAnswer]) -> None:
        super().__init__()
        self._operands = operands
        # By equality: a getter of a property is a new object each time it is asked for.
        self._answers = answers

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        answer = self._answers.get(func)
        if answer is not None:
            return answer(func, args, kwargs or {})
        return self._operands.computed(func, args, kwargs or {})
