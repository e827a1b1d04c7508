"""Random numbers: a virtual GPU has no stream of its own, but draws from the host's, as the same program on the CPU.

So a run gives the numbers of that program; two streams for one seed would not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from gpudoctor.virtual.ordinals import VirtualGpus

_OnHost: Any = torch.Generator


class _GeneratorType(type(_OnHost)):  # type: ignore[misc]
    """All generators are instances, also those that torch has made itself."""

    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, _OnHost)


class VirtualGenerator(_OnHost, metaclass=_GeneratorType):  # type: ignore[misc]
    """A generator of the host that says that it is one of a virtual GPU, where it was made for one."""

    def __new__(cls, device: Any = "cpu") -> Any:
        """As `torch.Generator(device)`."""
        where = torch.device(device)
        if where.type != "cuda":
            return _OnHost(device)
        made = _OnHost.__new__(cls)
        made.where = where
        return made

    where = torch.device("cpu")

    @property
    def device(self) -> torch.device:
        """The device that it was made for."""
        return self.where


class DeviceRandom:
    """The functions of `torch.cuda.random`."""

    def __init__(self, gpus: VirtualGpus) -> None:
        self._gpus = gpus

    def functions(self) -> dict[str, Callable[..., Any]]:
        """By their names."""
        return {
            "get_rng_state": lambda device="cuda": torch.get_rng_state(),
            "get_rng_state_all": lambda: [torch.get_rng_state() for _ in range(self._gpus.count)],
            "set_rng_state": lambda new_state, device="cuda": torch.set_rng_state(new_state.cpu()),
            "set_rng_state_all": self._set_all,
            "manual_seed": lambda seed: None,
            "manual_seed_all": lambda seed: None,
            "seed": lambda: None,
            "seed_all": lambda: None,
            "initial_seed": torch.initial_seed,
        }

    def _set_all(self, new_states: Sequence[torch.Tensor]) -> None:
        if new_states:
            torch.set_rng_state(new_states[0].cpu())
