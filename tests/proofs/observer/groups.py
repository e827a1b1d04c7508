"""Process groups: how many are made."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch.distributed.distributed_c10d as c10d

if TYPE_CHECKING:
    from .journal import Journal


def watch(journal: Journal) -> None:
    """Write a line for each process group this process makes or joins.

    The groups are kept alive until the process ends. torch 2.13 may deadlock otherwise: when the last reference to a
    destroyed gloo group is that of a DDP model, freeing the model joins the group's threads while holding the GIL, and
    such a thread may be waiting for the GIL to free the context of the last backward. At the exit of the interpreter
    the same race aborts the process ("terminate called without an active exception"). It is no claim of ours.
    """
    make = c10d._new_process_group_helper
    kept: list[object] = []

    def watched_make(*args: object, **kwargs: object) -> object:
        made = make(*args, **kwargs)
        kept.append(made)
        journal.write("group")
        return made

    c10d._new_process_group_helper = watched_make
