"""What the inventory alone says is wrong with this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.probe.inventory.weak import connections, health, software, surroundings

if TYPE_CHECKING:
    from gpudoctor.probe.inventory.facts import Inventory
    from gpudoctor.probe.inventory.weak.point import WeakPoint


def weak_points(inventory: Inventory) -> tuple[WeakPoint, ...]:
    """All weak points, the gravest first; pure."""
    found = [point for part in (software, health, connections, surroundings) for point in part.weak_points(inventory)]
    return tuple(sorted(found, key=lambda point: -point.severity.weight))
