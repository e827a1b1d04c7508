"""What a program tells Accelerate, hands over to it, and calls of it. No other program pays for this."""

from __future__ import annotations

import contextlib
import functools
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.optim.lr_scheduler import LRScheduler
from torch.utils.data.distributed import DistributedSampler

from gpudoctor.run.import_hooks import when_imported
from gpudoctor.run.instruments.losses import divided_by
from gpudoctor.run.instruments.state import State
from gpudoctor.run.places import called_by_own
from gpudoctor.run.stand_ins import standing_for

_MODULE = "accelerate.accelerator"
_MOST_LINES = 20
"""Of one kind."""
_MOST_LOSSES = 256
"""That are looked at."""
_BY_DDP = ("MULTI_CPU", "MULTI_GPU", "MULTI_XPU", "MULTI_NPU")


def watch(state: State) -> None:
    """Watch its object, once the library has been imported."""
    when_imported(_MODULE, state.recorder.guarded(_Accelerators(state).install))


class _Accelerators:
    def __init__(self, state: State) -> None:
        self._state = state
        self._guarded = state.recorder.guarded
        self._made: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """Those that the program itself has made, with where; that of a Trainer is the Trainer's affair."""
        self._told: weakref.WeakSet[Any] = weakref.WeakSet()
        self._models: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._schedules = _Schedules(state)
        self._losses = 0
        self._places: dict[str, set[tuple[Any, ...]]] = {}

    def install(self) -> None:
        """Put ourselves before what a program calls of it."""
        owner = sys.modules[_MODULE].Accelerator
        self._after(owner, "__init__", self._note_made)
        self._before(owner, "backward", self._note_backward)
        self._before(owner, "prepare_model", self._note_model)
        self._before(owner, "prepare_optimizer", self._note_optimizer)
        self._before(owner, "prepare_scheduler", self._schedules.note)
        self._before(owner, "prepare_data_loader", self._note_sharing)
        self._before(owner, "gather", self._note_gather)
        self._after(owner, "prepare_data_loader", self._note_loader)
        for module in (_MODULE, "accelerate.data_loader"):
            self._after(sys.modules[module], "skip_first_batches", self._note_skipped)
        self._within(owner, "accumulate")
        self._within(owner, "no_sync")
        self._schedules.install(sys.modules["accelerate.scheduler"].AcceleratedScheduler)

    def _before(self, owner: Any, name: str, note: Callable[..., None]) -> None:
        setattr(owner, name, self._state.recorder.before(getattr(owner, name), note))

    def _after(self, owner: Any, name: str, note: Callable[..., None]) -> None:
        setattr(owner, name, self._state.recorder.after(getattr(owner, name), note))

    def _within(self, owner: Any, name: str) -> None:
        """Count how often a context is entered, and how often it holds the step back."""
        called, noted = getattr(owner, name), self._guarded(self._note_entered)

        @standing_for(called)
        def watched(accelerator: Any, *args: Any, **keywords: Any) -> Any:
            return _entered(called(accelerator, *args, **keywords), functools.partial(noted, accelerator))

        setattr(owner, name, watched)

    def _note_made(self, made: None, accelerator: Any, *args: Any, **keywords: Any) -> None:
        if called_by_own():
            self._made[accelerator] = self._state.recorder.place()

    def _note_entered(self, accelerator: Any) -> None:
        if not self._state.resting:
            self._state.count("held back" if not accelerator.sync_gradients else "accumulated")

    def _note_backward(self, accelerator: Any, loss: Any, **keywords: Any) -> None:
        place = self._made.get(accelerator)
        if place is None:
            return
        steps = accelerator.gradient_accumulation_steps
        if accelerator not in self._told:
            self._told.add(accelerator)
            self._state.write(
                "accelerator",
                steps=steps,
                processes=accelerator.num_processes,
                plain=accelerator.distributed_type.name in _BY_DDP,
                models=self._models.get(accelerator, 0),
                place=place,
            )
        if steps > 1 and self._losses < _MOST_LOSSES:
            self._losses += 1
            if divided_by(loss, steps):
                self._tell("divided again", owner="accelerator", steps=steps, place=self._state.recorder.place())

    def _note_model(self, accelerator: Any, model: Any, *args: Any, **keywords: Any) -> None:
        self._models[accelerator] = self._models.get(accelerator, 0) + 1

    def _note_optimizer(self, accelerator: Any, optimizer: Any, *args: Any, **keywords: Any) -> None:
        self._state.prepared.add(optimizer)

    def _note_sharing(self, accelerator: Any, loader: Any, *args: Any, **keywords: Any) -> None:
        processes = accelerator.num_processes
        if processes < 2 or getattr(loader, "_is_accelerate_prepared", False):
            return
        sampler = getattr(loader, "sampler", None)
        # What `split_dataset_by_node` of the library datasets leaves.
        split = getattr(getattr(loader, "dataset", None), "_distributed", None)
        replicas = sampler.num_replicas if isinstance(sampler, DistributedSampler) else getattr(split, "world_size", 1)
        if type(replicas) is int and replicas > 1:
            by = type(sampler).__name__ if isinstance(sampler, DistributedSampler) else "split_dataset_by_node"
            made = self._state.loaders_made.get(loader)
            place = self._state.recorder.place()
            self._tell("shared again", by=by, replicas=replicas, processes=processes, made=made, place=place)

    def _note_loader(self, made: Any, accelerator: Any, *args: Any, **keywords: Any) -> None:
        self._state.prepared.add(_passed_over(made))

    def _note_skipped(self, made: Any, loader: Any, num_batches: int = 0) -> None:
        self._state.prepared.add(_passed_over(made))
        if num_batches > 0:
            self._state.skipping[_passed_over(made)] = num_batches

    def _note_gather(self, accelerator: Any, tensor: Any) -> None:
        known = accelerator.gradient_state
        # As it asks itself in `gather_for_metrics`, which calls this, too.
        if not torch.is_grad_enabled() and known.end_of_dataloader and known.remainder > 0 and called_by_own():
            self._tell("gathered padding", whole=known.remainder, place=self._state.recorder.place())

    def _tell(self, kind: str, **facts: Any) -> None:
        """Write a line, once for each place."""
        told, place = self._places.setdefault(kind, set()), facts["place"]
        if place is not None and tuple(place) not in told and len(told) < _MOST_LINES:
            told.add(tuple(place))
            self._state.write(kind, **facts)


def _passed_over(loader: Any) -> Any:
    """The loader inside of a prepared one, which is the one that PyTorch goes over."""
    return getattr(loader, "base_dataloader", loader)


@contextlib.contextmanager
def _entered(inner: Any, note: Callable[[], None]) -> Iterator[Any]:
    with inner as entered:
        note()
        yield entered


class _Schedules:
    """Prepared schedules: each call of their `step` makes one step for each process."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._made: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._known: weakref.WeakKeyDictionary[Any, dict[str, Any]] = weakref.WeakKeyDictionary()
        state.at_end.append(state.recorder.guarded(self._write))

    def install(self, prepared: Any) -> None:
        """Watch where schedules are made, and how they step."""
        step, stepped = prepared.step, self._state.recorder.guarded(self._note_step)

        @standing_for(step)
        def watched_step(scheduler: Any, *args: Any, **keywords: Any) -> None:
            inner = scheduler.scheduler
            before = getattr(inner, "last_epoch", None)
            step(scheduler, *args, **keywords)
            stepped(inner, before)

        LRScheduler.__init__ = self._state.recorder.before(LRScheduler.__init__, self._note_made)
        prepared.step = watched_step

    def note(self, accelerator: Any, scheduler: Any, *args: Any, **keywords: Any) -> None:
        """A schedule is handed over."""
        if isinstance(scheduler, LRScheduler) and scheduler not in self._known:
            self._known[scheduler] = {
                "number": len(self._known),
                "type": type(scheduler).__name__,
                "processes": accelerator.num_processes,
                **dict.fromkeys(("calls", "steps", "over"), 0),
                "made": self._made.get(scheduler),
                "place": None,
            }

    def _note_made(self, scheduler: Any, *args: Any, **keywords: Any) -> None:
        self._made[scheduler] = self._state.recorder.place()

    def _note_step(self, scheduler: Any, before: int | None) -> None:
        known = self._known.get(scheduler)
        steps = scheduler.last_epoch - before if known is not None and before is not None else 0
        # While gradients are accumulated, it waits like the optimizer.
        if known is None or not steps:
            return
        known["place"] = known["place"] or self._state.recorder.place()
        known["calls"] += 1
        known["steps"] += steps
        gone = all(float(group["lr"]) == 0 for group in scheduler.optimizer.param_groups)
        known["over"] = (known["over"] or known["calls"]) if gone else 0
        if known["calls"] & (known["calls"] - 1) == 0:
            self._state.write("schedule", **known)

    def _write(self) -> None:
        for known in self._known.values():
            self._state.write("schedule", **known)
