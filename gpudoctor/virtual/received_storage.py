"""What another process has sent: it may be the first thing of ours, and of torch, that this process hears of.

So nothing of torch is imported before it is received: `import torch` makes the GPUs of this process virtual.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

RECEIVE: list[Callable[[Any, int | None], Any]] = []
"""Puts a storage where it lives; there is one as soon as the GPUs are virtual."""


def received(place: int | None, rebuild: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
    """The storage, in memory that both processes see."""
    import torch  # noqa: F401

    [receive] = RECEIVE
    return receive(rebuild(*arguments), place)
