"""Where gradients are cut: before the backwards of a step, between them, or after; and whether they are scaled then."""

from __future__ import annotations

import math
import sys
import types
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.amp.grad_scaler import GradScaler, OptState
from torch.nn.utils import clip_grad

from gpudoctor.run.import_hooks import when_imported
from gpudoctor.run.instruments.state import State
from gpudoctor.run.stand_ins import standing_for

_MOST_PLACES = 20
_MOST_STEPS = 200
"""With calls in them: what these do, all do."""
_MOST_CALLS = 64
"""Between two steps."""
_SHARDING = "torch.distributed.fsdp.fully_sharded_data_parallel"


class Clips:
    """Calls of the functions that cut gradients, from one step to the next."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._steps = 0
        self._now: list[tuple[int, int]] = []
        self._told: set[tuple[Any, ...]] = set()
        self._sharding: weakref.WeakSet[Any] = weakref.WeakSet()
        self._scaled = 0

    def install(self) -> None:
        """Watch these functions."""
        for name in ("clip_grad_norm_", "clip_grad_value_"):
            watched = self._watched(getattr(clip_grad, name))
            for module in (clip_grad, torch.nn.utils):
                setattr(module, name, watched)
        when_imported(_SHARDING, self._state.recorder.guarded(self._watch_sharding))
        GradScaler.step = self._state.recorder.before(GradScaler.step, self._note_scaled)

    def _note_scaled(self, scaler: Any, optimizer: Any, *args: Any, **keywords: Any) -> None:
        """Remember of which optimizer the gradients are still scaled when its scaler steps it."""
        known = scaler._per_optimizer_states.get(id(optimizer))
        unscaled = known is not None and known["stage"] is not OptState.READY
        self._scaled = id(optimizer) if scaler.is_enabled() and not unscaled else 0

    def _watch_sharding(self) -> None:
        owner = sys.modules[_SHARDING].FullyShardedDataParallel
        owner.__init__ = self._state.recorder.after(owner.__init__, self._note_sharded)

    def _note_sharded(self, made: None, model: Any, *args: Any, **keywords: Any) -> None:
        """Remember the models of which each rank holds a part, and whose tensors do not know that."""
        self._sharding.add(model)

    def counted(self, optimizer: Any) -> dict[str, int]:
        """Those of an optimizer that has stepped: all, those before any backward of this step, those after all, and
        those of gradients that were still scaled."""
        scaled, self._scaled = self._scaled == id(optimizer), 0
        backwards = self._state.counts.get("backwards", 0)
        self._steps += bool(self._now)
        if not self._now or not backwards or self._steps > _MOST_STEPS:
            self._now.clear()
            return {}
        held = {id(each) for group in optimizer.param_groups for each in group["params"]}
        before = [number for first, number in self._now if first in held]
        self._now.clear()
        early = before.count(0)
        counts = {"clips": len(before), "early clips": early, "late clips": before.count(backwards)}
        counts["scaled clips"] = len(before) - early if scaled else 0
        return {name: count for name, count in counts.items() if count}

    def _watched(self, clip: Callable[..., Any]) -> Callable[..., Any]:
        note = self._state.recorder.guarded(self._note)

        @standing_for(clip)
        def watched(parameters: Any, *args: Any, **keywords: Any) -> Any:
            if torch.compiler.is_compiling() or _only_asks(args[0] if args else keywords.get("max_norm")):
                return clip(parameters, *args, **keywords)
            first: list[int] = []
            cut = clip(_peeked(parameters, first), *args, **keywords)
            note(clip.__name__, first)
            return cut

        return watched

    def _note(self, call: str, first: Sequence[int]) -> None:
        if first and not self._state.resting and self._steps < _MOST_STEPS and len(self._now) < _MOST_CALLS:
            # Which parameters, and how many backwards had been made since the last step.
            self._now.append((first[0], self._state.counts.get("backwards", 0)))
            if len(self._told) < _MOST_PLACES:
                self._tell(call, first[0])

    def _tell(self, call: str, first: int) -> None:
        place = self._state.recorder.place()
        if place and tuple(place) not in self._told:
            self._told.add(tuple(place))
            self._state.write("clip", call=call, place=place, sharded=self._is_of_shards(first))

    def _is_of_shards(self, parameter: int) -> bool:
        """It is the one of that identity, of a model that is sharded."""
        sharded = (each for each in self._sharding if _is_cut_up(each))
        return any(id(each) == parameter for model in sharded for each in model.parameters())


def _is_cut_up(model: Any) -> bool:
    handle = getattr(model, "_handle", None)
    return bool(getattr(handle, "uses_sharded_strategy", False))


def _only_asks(most: Any) -> bool:
    """Nothing is cut to infinity: the program wants to know how large its gradients are."""
    return isinstance(most, float) and math.isinf(most)


def _peeked(parameters: Any, first: list[int]) -> Any:
    """The same, with the first of them noted; a generator can be looked at but once."""
    if isinstance(parameters, types.GeneratorType):
        return _noted(parameters, first)
    if isinstance(parameters, torch.Tensor):
        first.append(id(parameters))
    elif isinstance(parameters, Sequence) and parameters:
        first.append(id(parameters[0]))
    return parameters


def _noted(parameters: Iterator[Any], first: list[int]) -> Iterator[Any]:
    for each in parameters:
        first[:] = first or [id(each)]
        yield each
