"""What the inventory alone says is wrong with this machine."""

from __future__ import annotations

from gpudoctor.probe.inventory.facts import Inventory
from gpudoctor.probe.inventory.findings import connections, health, software, surrounding_software, tenancy, xids
from gpudoctor.probe.inventory.findings.point import WeakPoint, merged

_PARTS = (software, health, xids, tenancy, connections, surrounding_software)


def weak_points(inventory: Inventory) -> tuple[WeakPoint, ...]:
    """All weak points, the gravest first; pure."""
    found = merged(point for part in _PARTS for point in part.weak_points(inventory))
    return tuple(sorted(found, key=lambda point: -point.severity.weight))
