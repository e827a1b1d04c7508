"""Files the program writes, and the keys of what it saves."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from .journal import Journal

DEPTH = 3
"""How far a state dict may lie inside the saved object."""


def watch(journal: Journal) -> None:
    """Write a line for each torch.save, and for each file opened for writing by the program itself."""
    save = torch.save

    def watched_save(obj: object, f: object, *args: object, **kwargs: object) -> None:
        target = getattr(f, "name", None) if hasattr(f, "write") else f
        path = os.path.realpath(os.fspath(target)) if isinstance(target, (str, os.PathLike)) else None
        journal.write("save", path=path, keys=sorted(set(_keys(obj, DEPTH))))
        save(obj, f, *args, **kwargs)

    torch.save = watched_save
    torch.serialization.save = watched_save
    sys.addaudithook(lambda event, args: _audit(journal, event, args))


def _audit(journal: Journal, event: str, args: tuple[object, ...]) -> None:
    if event != "open" or not isinstance(args[0], str) or not isinstance(args[1], str):
        return
    if args[1][:1] in ("w", "x", "a") and journal.within_program():
        journal.write("write", path=os.path.realpath(args[0]))


def _keys(value: object, depth: int) -> Iterator[str]:
    if isinstance(value, torch.nn.Module):
        yield from value.state_dict()
    elif isinstance(value, Mapping) and depth:
        for key, item in value.items():
            if isinstance(item, torch.Tensor):
                yield str(key)
            else:
                yield from _keys(item, depth - 1)
