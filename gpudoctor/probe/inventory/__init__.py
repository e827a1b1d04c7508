"""What the machine has: GPUs by NVML, torch's own view, the system, and the environment variables that matter.

Nothing in here initialises CUDA or NVML in this process: a process for each part asks, within its own limit. Those
processes, and `gpudoctor env`, need one module each and start at once: so the names below are loaded when asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpudoctor.probe.inventory.sampler import UtilisationSampler
    from gpudoctor.probe.inventory.stock import take_stock, weak_points, weak_points_under_load
    from gpudoctor.probe.inventory.take import Limits, take_inventory

__all__ = ["Limits", "UtilisationSampler", "take_inventory", "take_stock", "weak_points", "weak_points_under_load"]

_HOMES = {
    "Limits": "take",
    "UtilisationSampler": "sampler",
    "take_inventory": "take",
    "take_stock": "stock",
    "weak_points": "stock",
    "weak_points_under_load": "stock",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
