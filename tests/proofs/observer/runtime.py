"""Waits of the host for a tensor's value, counted where the user's own code asks for it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .journal import Journal

ASKING = ("item", "cpu", "tolist", "numpy", "__float__", "__int__", "__bool__", "__format__", "__repr__")


def watch(journal: Journal) -> None:
    """Write a line for each place where the program takes a tensor's value to the host."""
    for name in ASKING:
        setattr(torch.Tensor, name, _counted(journal, name, getattr(torch.Tensor, name)))
    move = torch.Tensor.to

    @functools.wraps(move)
    def counted_move(tensor: torch.Tensor, *args: object, **kwargs: object) -> torch.Tensor:
        # A device object is where this run happens to be, and moving a batch to it asks for nothing.
        if "cpu" in (*args, *kwargs.values()) and journal.called_by_program():
            journal.write("sync", call="to")
        return move(tensor, *args, **kwargs)

    torch.Tensor.to = counted_move


def _counted(journal: Journal, name: str, method: Callable[..., object]) -> Callable[..., object]:
    @functools.wraps(method)
    def counted(tensor: torch.Tensor, *args: object, **kwargs: object) -> object:
        if journal.called_by_program():
            journal.write("sync", call=name)
        return method(tensor, *args, **kwargs)

    return counted
