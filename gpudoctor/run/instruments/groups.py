"""Process groups: where they are made, a listener for questions while the ranks hang, and what they end after."""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d

from gpudoctor.run.instruments import listener
from gpudoctor.run.instruments.backend_threads import let_backends_rest
from gpudoctor.run.places import called_by_own

if TYPE_CHECKING:
    from gpudoctor.run.instruments.state import State

_MOST_GROUPS = 200
"""Groups of some ranks that are written down, of one process."""


def watch(state: State) -> None:
    """Write a line where a process group is made."""
    if not dist.is_available():
        return
    state.recorder.guarded(listener.keep_collectives)()
    make = c10d.init_process_group
    tell = state.recorder.guarded(_tell)
    # A line of its own, so that whoever waits for the others here is known by then.
    listen = state.recorder.guarded(listener.listen)

    @functools.wraps(make)
    def watched(*args: Any, **keywords: Any) -> Any:
        tell(state, make, args, keywords)
        listen(state)
        make(*args, **keywords)

    for module in (c10d, dist):
        vars(module)["init_process_group"] = watched
    state.recorder.guarded(_watch_subgroups)(state)
    state.recorder.guarded(_watch_ends)(state)


def _watch_ends(state: State) -> None:
    """PyTorch waits for gloo's threads with Python locked, which one that still puts its work down waits for."""
    destroy = c10d.destroy_process_group
    rest = state.recorder.guarded(let_backends_rest)

    @functools.wraps(destroy)
    def watched(*args: Any, **keywords: Any) -> Any:
        rest()
        return destroy(*args, **keywords)

    for module in (c10d, dist):
        vars(module)["destroy_process_group"] = watched


def _watch_subgroups(state: State) -> None:
    make = c10d.new_group
    tell = state.recorder.guarded(_Subgroups(state).tell)

    @functools.wraps(make)
    def watched(*args: Any, **keywords: Any) -> Any:
        tell()
        return make(*args, **keywords)

    for module in (c10d, dist):
        vars(module)["new_group"] = watched


class _Subgroups:
    def __init__(self, state: State) -> None:
        self._state = state
        self._made = 0

    def tell(self) -> None:
        self._made += 1
        # A library that makes groups knows why.
        if self._made <= _MOST_GROUPS and called_by_own():
            self._state.write("new_group", step=self._state.steps, place=self._state.recorder.place())


def _tell(state: State, make: Callable[..., Any], args: Any, keywords: Any) -> None:
    given = inspect.signature(make).bind(*args, **keywords).arguments
    method = given.get("init_method") or "env://"
    state.write(
        "init_process_group",
        place=state.recorder.place(),
        again=dist.is_initialized(),
        rank=_number(given.get("rank")),
        size=_number(given.get("world_size")),
        timeout=given.get("timeout") is not None,
        address=os.environ.get("MASTER_ADDR", "") if method.startswith("env://") else method,
    )


def _number(given: Any) -> int | None:
    """A number that is given and means something: -1 stands for what the environment says."""
    return given if isinstance(given, int) and given >= 0 else None
