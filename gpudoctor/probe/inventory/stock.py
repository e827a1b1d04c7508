"""What the rest of the probe asks of the inventory."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.probe.inventory.contract import checks, gpus_of, machine
from gpudoctor.probe.inventory.facts import Moment
from gpudoctor.probe.inventory.findings.load import weak_under_load
from gpudoctor.probe.inventory.take import take_inventory
from gpudoctor.probe.results import Check, ProbedMachine


def take_stock() -> ProbedMachine:
    """The inventory of this node. Never raises: each field that cannot be had says why.

    The rest of the probe reads `machine.visible` (GPUs in torch's order, by UUID, in `torch["visible_gpus"]`) and
    `torch["version"]`, whose value is None where torch is not installed.
    """
    return machine(take_inventory())


def weak_points(machine: ProbedMachine) -> tuple[Check, ...]:
    """What the inventory alone says is wrong with this node; pure."""
    return machine.weak


def weak_points_under_load(machine: ProbedMachine, moments: Sequence[Moment]) -> tuple[Check, ...]:
    """What a `UtilisationSampler` saw while the GPUs worked that is wrong with them; pure.

    Narrow links and low clocks only count here: at rest both are turned down to save power. Nothing is said twice.
    """
    # Where torch can use no GPU, the load was somebody else's.
    if not machine.visible:
        return ()
    said = {check.name for check in machine.weak}
    return tuple(
        check for check in checks(weak_under_load(gpus_of(machine), moments), machine.host) if check.name not in said
    )
