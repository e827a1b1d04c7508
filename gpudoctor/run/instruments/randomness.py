"""Where the seed of torch is set, where a data set is split at random, and in which states the generators are after the
first steps: each process does it for itself."""

from __future__ import annotations

import functools
import hashlib
import random
import sys
from collections.abc import Callable
from typing import Any

import torch
from torch.utils import data

from gpudoctor.run.import_hooks import when_imported
from gpudoctor.run.instruments.fingerprints import content_of
from gpudoctor.run.instruments.state import State
from gpudoctor.run.stand_ins import standing_for

_OF_WORKERS = "torch/utils/data/_utils/worker.py"
_MOST = 100
"""Lines of either kind: some programs set the seed in each step."""


def watch(state: State) -> None:
    """Write a line for each seed, and for each random split."""
    _watch_seeds(state)
    _watch_other_seeds(state)
    _watch_splits(state)


def tell_generators(state: State) -> None:
    """Write down names of the states of the generators; equal names of two ranks are equal numbers to come."""
    states = {"torch": content_of(torch.get_rng_state()), "python": repr(random.getstate()).encode()}
    if torch.cuda.is_initialized():
        states["cuda"] = content_of(torch.cuda.get_rng_state())
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        states["numpy"] = repr(numpy.random.get_state()[2:]).encode() + numpy.random.get_state()[1].tobytes()
    names = {name: hashlib.blake2b(each, digest_size=8).hexdigest() for name, each in states.items()}
    state.write("generators", step=state.steps, states=names)


def _watch_seeds(state: State) -> None:
    seed = torch.manual_seed
    told = state.recorder.guarded(_RandomnessLog(state).seed)

    @standing_for(seed)
    def watched(number: Any) -> torch.Generator:
        # Workers of a loader are seeded by torch, before they can be known as workers.
        if not torch.compiler.is_compiling() and not sys._getframe(1).f_code.co_filename.endswith(_OF_WORKERS):
            told(number)
        return seed(number)

    torch.manual_seed = torch.random.manual_seed = watched


def _watch_other_seeds(state: State) -> None:
    """Notice seeds of other generators than that of torch: who sets one of these has thought of it."""
    for module, name in ((random, "seed"), (torch.cuda, "manual_seed"), (torch.cuda, "manual_seed_all")):
        setattr(module, name, _noticed(state, getattr(module, name)))
    when_imported("numpy.random", functools.partial(state.recorder.guarded(_watch_numpy), state))


def _watch_numpy(state: State) -> None:
    numpy_random = sys.modules["numpy.random"]
    numpy_random.seed = _noticed(state, numpy_random.seed)  # type: ignore[attr-defined]


def _noticed(state: State, seed: Callable[..., Any]) -> Callable[..., Any]:
    @standing_for(seed)
    def watched(*args: Any, **keywords: Any) -> Any:
        # Without a number it is the system that chooses.
        state.seeded = state.seeded or bool(args or keywords)
        return seed(*args, **keywords)

    return watched


def _watch_splits(state: State) -> None:
    watched = state.recorder.after(data.random_split, _RandomnessLog(state).split)
    data.random_split = data.dataset.random_split = watched


class _RandomnessLog:
    def __init__(self, state: State) -> None:
        self._state = state
        self._left = _MOST

    def seed(self, number: Any) -> None:
        self._write("seed", seed=int(number))

    def split(self, parts: Any, *args: Any, **keywords: Any) -> None:
        self._write("split", parts=[id(part) for part in parts])

    def _write(self, kind: str, **facts: Any) -> None:
        self._left -= 1
        if self._left >= 0:
            self._state.write(kind, step=self._state.steps, place=self._state.recorder.place(), **facts)
