"""PyTorch's own optimizers step on the CPU as they do there: the same algorithm for the same numbers, and no mode.

On GPUs they would take whole lists of tensors at once; the results may differ in the last bit.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from typing import Any

import torch
from torch.optim import optimizer

from gpudoctor.virtual.device_errors import scattered_state
from gpudoctor.virtual.residence import UNKNOWN, place_of, settle


def install() -> None:
    """Have the steps of `torch.optim` see the tensors as they are."""
    kinds: list[Any] = list(vars(torch.optim).values())
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, torch.optim.Optimizer) and "step" in vars(kind):
            kind.step = _on_cpu(kind.step)  # type: ignore[attr-defined]
    _capture_on_cpu()
    clear = torch.optim.Optimizer.zero_grad

    @functools.wraps(clear)
    def zero_grad(self: torch.optim.Optimizer, set_to_none: bool = True) -> None:
        with torch._C.DisableTorchFunction():
            clear(self, set_to_none)

    torch.optim.Optimizer.zero_grad = zero_grad


def _capture_on_cpu() -> None:
    """Steps that a graph of CUDA could record (`capturable=True`) are made on the CPU, too."""
    name = "_get_capturable_supported_devices"
    devices = vars(optimizer)[name]

    @functools.wraps(devices)
    def supported(*args: Any, **kwargs: Any) -> list[str]:
        return [*devices(*args, **kwargs), "cpu"]

    for module in [module for at, module in list(sys.modules.items()) if at.startswith("torch.optim.")]:
        if vars(module).get(name) is devices:
            setattr(module, name, supported)


def _on_cpu(step: Any) -> Any:
    @functools.wraps(step)
    def stepped(self: Any, closure: Any = None) -> Any:
        before = torch._C._get_torch_function_state()

        def evaluated() -> Any:
            within = torch._C._get_torch_function_state()
            torch._C._set_torch_function_state(before)
            try:
                return closure()
            finally:
                torch._C._set_torch_function_state(within)

        with torch._C.DisableTorchFunction():
            _check(self)
            known = len(self.state)
            found = step(self) if closure is None else step(self, evaluated)
            if len(self.state) > known:
                _settle_state(self)
            return found

    return stepped


def _check(steps: Any) -> None:
    """A state that was loaded before the model was moved stays behind."""
    for parameter, place, value in _states(steps):
        if parameter.grad is not None and place != place_of(value) is not UNKNOWN and place is not UNKNOWN:
            raise scattered_state()


def _settle_state(steps: Any) -> None:
    for _, place, value in _states(steps):
        settle(value, place)


def _states(steps: Any) -> Iterator[tuple[torch.Tensor, Any, torch.Tensor]]:
    """The tensors that an optimizer keeps: of which parameter, where that lives, and the tensor."""
    for parameter, state in steps.state.items():
        if isinstance(parameter, torch.Tensor) and isinstance(state, dict):
            place = place_of(parameter)
            for value in state.values():
                # The number of steps is kept on the host.
                if isinstance(value, torch.Tensor) and value.dim():
                    yield parameter, place, value
