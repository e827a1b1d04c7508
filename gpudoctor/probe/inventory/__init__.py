"""What the machine has: GPUs by NVML, torch's own view, the system, and the environment variables that matter.

Nothing in here initialises CUDA or NVML in this process: a process for each part asks, within its own limit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.probe.inventory.contract import machine
from gpudoctor.probe.inventory.sampler import Sampler
from gpudoctor.probe.inventory.take import Limits, take_inventory

if TYPE_CHECKING:
    from gpudoctor.probe.results import Check, Machine

__all__ = ["Limits", "Sampler", "take_inventory", "take_stock", "weak_points"]


def take_stock() -> Machine:
    """The inventory of this node. Never raises: each field that cannot be had says why.

    The rest of the probe reads `machine.visible` (GPUs in torch's order, by UUID, in `torch["visible_gpus"]`) and
    `torch["version"]`, whose value is None where torch is not installed.
    """
    return machine(take_inventory())


def weak_points(machine: Machine) -> tuple[Check, ...]:
    """What the inventory alone says is wrong with this node; pure."""
    return machine.weak
