"""What a stage of a rank works with: who it is, its device, the process group, and a way to meet the others."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from gpudoctor.probe.measurement_plan import MeasurementPlan
from gpudoctor.record import dataclass

Facts: TypeAlias = dict[str, Any]
"""What a stage found out on one rank: plain data, written as JSON."""

# The parent ends what takes too long, and says why; an earlier error here would hide who is to blame.
PATIENCE = datetime.timedelta(minutes=30)


class NotHereError(Exception):
    """The stage cannot be done on this machine, on any rank; the message says why."""


@dataclass(frozen=True)
class Context:
    """One rank at work. `store` is a torch.distributed store, `device` a torch.device, `log` tells the parent."""

    plan: MeasurementPlan
    rank: int
    local_rank: int
    device: Any
    store: Any
    folder: Path
    """Shared by the ranks of a node, gone afterwards."""
    log: Callable[[dict[str, Any]], None]

    @property
    def size(self) -> int:
        """The world size."""
        return self.plan.world.size

    @property
    def node(self) -> str:
        """The host of this rank."""
        return self.plan.world.nodes[self.rank]

    def mark(self, text: str) -> None:
        """Tell the parent what comes next, so that it can say where a rank stands when it hangs."""
        self.log({"event": "mark", "text": text})

    def meet(self, name: str) -> None:
        """Wait for all ranks, without a collective and without keeping a GPU busy. Each name is used once."""
        if self.store.add(f"{name}/here", 1) == self.size:
            self.store.set(f"{name}/all", b"1")
        self.store.wait([f"{name}/all"], PATIENCE)

    def gather(self, name: str, value: Any) -> list[Any]:
        """The values of all ranks, by rank; through the store, so that it works where collectives do not."""
        self.store.set(f"{name}/{self.rank}", json.dumps(value).encode())
        keys = [f"{name}/{rank}" for rank in range(self.size)]
        self.store.wait(keys, PATIENCE)
        return [json.loads(self.store.get(key)) for key in keys]

    @property
    def has_bfloat16(self) -> bool:
        """Whether this device computes in bfloat16 by itself; torch also says so of older GPUs, which emulate it."""
        import torch

        return self.device.type == "cuda" and bool(torch.cuda.get_device_capability(self.device)[0] >= 8)

    def synchronize(self) -> None:
        """Wait until the device has done its work."""
        if self.device.type == "cuda":
            import torch

            torch.cuda.synchronize(self.device)

    def clock(self) -> float:
        """Seconds, once the device has done its work."""
        self.synchronize()
        return time.perf_counter()
