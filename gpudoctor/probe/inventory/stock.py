"""What the rest of the probe asks of the inventory."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.probe.inventory.contract import machine
from gpudoctor.probe.inventory.take import take_inventory

if TYPE_CHECKING:
    from gpudoctor.probe.results import Check, Machine


def take_stock() -> Machine:
    """The inventory of this node. Never raises: each field that cannot be had says why.

    The rest of the probe reads `machine.visible` (GPUs in torch's order, by UUID, in `torch["visible_gpus"]`) and
    `torch["version"]`, whose value is None where torch is not installed.
    """
    return machine(take_inventory())


def weak_points(machine: Machine) -> tuple[Check, ...]:
    """What the inventory alone says is wrong with this node; pure."""
    return machine.weak
