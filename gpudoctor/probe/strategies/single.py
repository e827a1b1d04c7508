"""One device, no wrapper: what all others are held against."""

from __future__ import annotations

from typing import Any


def wrap(model: Any, ctx: Any, workload: Any, size: int, group: Any) -> Any:
    """The model on the device of this rank."""
    return model.to(ctx.device)
