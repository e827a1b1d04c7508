"""How several devices train one model: each strategy says who takes part, and wraps the model.

`size` is the number of devices. All functions run on the ranks that `takes_part` names.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudoctor.probe.strategies import data_parallel, ddp, fsdp2, single
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Strategy:
    """`takes_part(rank, size)`; `wrap(model, ctx, size, group)` gives the model to train, moved to its device.

    `multiplies` is by how much the batch that a taking-part rank feeds is larger than that of one device.
    """

    name: str
    takes_part: Callable[[int, int], bool]
    wrap: Callable[..., Any]
    multiplies: Callable[[int], int]
    many_processes: bool


BY_NAME = {
    "single": Strategy("single", lambda rank, size: rank == 0, single.wrap, lambda size: 1, many_processes=False),
    "data_parallel": Strategy(
        "data_parallel", lambda rank, size: rank == 0, data_parallel.wrap, lambda size: size, many_processes=False
    ),
    "ddp": Strategy("ddp", lambda rank, size: rank < size, ddp.wrap, lambda size: 1, many_processes=True),
    "fsdp2": Strategy("fsdp2", lambda rank, size: rank < size, fsdp2.wrap, lambda size: 1, many_processes=True),
}
