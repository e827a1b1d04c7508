"""What the machine has: GPUs by NVML, torch's own view, the system, and the environment variables that matter.

Nothing in here initialises CUDA in this process: torch is asked in a process of its own.
"""

from __future__ import annotations

import importlib.util
import platform
from collections.abc import Sequence

from gpudoctor.probe.results import Check, Fact, Machine

__all__ = ["Sampler", "take_stock", "weak_points"]


def take_stock() -> Machine:
    """The inventory of this node. Never raises: each field that cannot be had says why.

    The rest of the probe reads `machine.visible` (GPUs in torch's order, by UUID, in `torch["visible_gpus"]`) and
    `torch["version"]`, whose value is None where torch is not installed.
    """
    return Machine(host=platform.node(), torch={"version": _torch_version(), "visible_gpus": Fact([])})


def weak_points(machine: Machine) -> tuple[Check, ...]:
    """What the inventory alone says is wrong with this node; pure."""
    return ()


class Sampler:
    """Samples the utilisation of every GPU a few times a second, in a thread of the parent. Never raises.

    A context manager; `samples` maps a GPU's UUID to pairs of (`time.time()`, percent), `why_not` says why it is empty.
    """

    def __init__(self, uuids: Sequence[str]) -> None:
        self.samples: dict[str, list[tuple[float, float]]] = {uuid: [] for uuid in uuids}
        self.why_not = "NVML is not asked yet"

    def __enter__(self) -> Sampler:
        return self

    def __exit__(self, *raised: object) -> None:
        return


def _torch_version() -> Fact:
    if importlib.util.find_spec("torch") is None:
        return Fact(None, "torch is not installed")
    from importlib.metadata import version

    return Fact(version("torch"))
