"""What a workload is: a model on the CPU, batches for it, and the loss."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpudoctor.record import dataclass


@dataclass(frozen=True)
class Workload:
    """A model and its data. All tensors are made on the CPU and moved by who trains.

    `model()` makes the model, the same on each rank; `batch(samples, seed)` a pair of inputs and labels whose first
    dimension is `samples`; `loss(model, inputs, labels)` the mean loss. `autocast` runs it in bfloat16 where the GPU
    has that. `rate` is the learning rate of its optimizer, Adam.
    """

    name: str
    samples: int
    """The batch of one device."""
    model: Callable[[], Any]
    batch: Callable[[int, int], tuple[Any, Any]]
    loss: Callable[[Any, Any, Any], Any]
    rate: float = 1e-3
    autocast: bool = False
    layers: tuple[str, ...] = ()
    """Names of the children that FSDP shards one by one; the model itself is always sharded."""
