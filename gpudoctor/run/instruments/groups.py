"""Process groups: where they are made, a listener for questions while the ranks hang, and what they end after."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from gpudoctor.run.instruments import listener
from gpudoctor.run.instruments.backend_threads import let_backends_rest
from gpudoctor.run.instruments.state import State
from gpudoctor.run.places import called_by_own

_MOST_GROUPS = 200
"""Groups of some ranks that are written down, of one process."""


def watch(state: State) -> None:
    """Write a line where a process group is made."""
    if not dist.is_available():
        return
    state.recorder.guarded(listener.keep_collectives)()
    groups = _Groups(state)
    # Two of them, so that whoever waits for the others here is known by then.
    _watch(state, "init_process_group", groups.listen)
    _watch(state, "init_process_group", groups.note_made)
    state.recorder.guarded(_watch)(state, "new_group", groups.note_subgroup)
    state.recorder.guarded(_watch)(state, "destroy_process_group", groups.rest)


def _watch(state: State, name: str, note: Callable[..., None]) -> None:
    watched = state.recorder.before(getattr(c10d, name), note)
    for module in (c10d, dist):
        vars(module)[name] = watched


class _Groups:
    def __init__(self, state: State) -> None:
        self._state = state
        self._subgroups = 0

    def note_made(self, *args: Any, **keywords: Any) -> None:
        given = inspect.signature(c10d.init_process_group).bind(*args, **keywords).arguments
        method = given.get("init_method") or "env://"
        self._state.write(
            "init_process_group",
            place=self._state.recorder.place(),
            rank=_number(given.get("rank")),
            size=_number(given.get("world_size")),
            timeout=given.get("timeout") is not None,
            address=os.environ.get("MASTER_ADDR", "") if method.startswith("env://") else method,
        )

    def listen(self, *args: Any, **keywords: Any) -> None:
        listener.listen(self._state)

    def note_subgroup(self, *args: Any, **keywords: Any) -> None:
        self._subgroups += 1
        # A library that makes groups knows why.
        if self._subgroups <= _MOST_GROUPS and called_by_own():
            given = inspect.signature(c10d.new_group).bind(*args, **keywords).arguments
            alone = list(given.get("ranks") or ()) == [dist.get_rank()]
            of_all = not given.get("use_local_synchronization") and not alone
            place = self._state.recorder.place()
            self._state.write("new_group", step=self._state.steps, place=place, of_all=of_all)

    def rest(self, *args: Any, **keywords: Any) -> None:
        # PyTorch waits for gloo's threads with Python locked, which one that still puts its work down waits for.
        let_backends_rest()


def _number(given: Any) -> int | None:
    """A number that is given and means something: -1 stands for what the environment says."""
    return given if isinstance(given, int) and given >= 0 else None
