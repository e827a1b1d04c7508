"""The program's own collectives: how many, what single numbers they add up, and which go on in the background."""

from __future__ import annotations

import sys
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import distributed_c10d as c10d
from torch.optim import optimizer as optim

from gpudoctor.manifest.compiled import Declared, declared, functions
from gpudoctor.manifest.effects import CollectiveEffect
from gpudoctor.run.instruments import listener
from gpudoctor.run.instruments.state import State
from gpudoctor.run.places import called_by_own
from gpudoctor.run.stand_ins import standing_for


def _functions() -> Iterator[tuple[str, Declared, CollectiveEffect | None]]:
    """What is watched of torch.distributed."""
    for name in (*functions("collective"), *functions("between_two")):
        module, _, last = name.rpartition(".")
        function = declared(name)
        effect = function.effect(CollectiveEffect) if function is not None else None
        # To wait exchanges nothing.
        if module == "torch.distributed" and function is not None and not (effect is not None and effect.waits):
            yield last, function, effect


_CALLS = tuple(name for name, _, _ in _functions())
_SUMS = {
    name: function.positional
    for name, function, effect in _functions()
    if effect is not None and effect.adds_up and function.kind(effect.writes) == "Tensor"
}
"""Those whose result lies in the tensor that they are given, and what they are given in order."""
_LISTS = {
    name: (function.positional, effect.writes)
    for name, function, effect in _functions()
    if effect is not None and effect.gathers and effect.writes and not effect.objects
}
"""Those that put the values of ranks into tensors, with what they are given in order and what those are called."""
_DONE_BY = ("wait", "synchronize", "get_future", "get_future_result", "block_current_stream", "result")
"""Methods of a handle after which it is no longer our business whether the work is done."""
_MOST_SUMS = 40
"""Of one place: what is read of the first ones is what is read of the others."""
_MOST_PLACES = 50
_MOST_CALLS = 2_000
"""After so many nobody looks any more where they are made."""
_KEPT = 8
"""The last ones, which a number that the program reads is compared with."""
_MOST_UNDER_WAY = 64
_FIRST_STEPS = 3
"""In which gradients are looked for."""
_MOST_GRADIENTS = 100


def watch(state: State) -> Exchanges:
    """Count the collectives, and look at the first numbers that they add up."""
    exchanges = Exchanges(state)
    if dist.is_available():
        exchanges.install()
    return exchanges


class SumOnDevice:
    """One number that the ranks have added up. `before` and `after` are copies of it, on its device."""

    def __init__(self, number: int, call: str, op: str, dst: int | None, step: int, place: list[Any]) -> None:
        self.number = number
        self.place = place
        self.about: dict[str, Any] = {
            "number": number,
            "call": call,
            "op": op,
            "dst": dst,
            "step": step,
            "place": place,
        }
        self.before: Any = None
        self.after: Any = None
        self.dropped = False
        """Nothing holds the result: it went into a copy without a name."""
        self.told = False
        self.watch: Any = None
        """Lives for as long as what it waits for."""


class Exchanges:
    """The collectives that the program has called. `under_way` holds the handles of those that nobody waited for, by
    the memory that they write."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._made = self._again = self._asked = self._into_one = 0
        self._averaged: tuple[int, set[int]] = (0, set())
        """Where the gradients are, after so many backwards."""
        self._at: dict[tuple[Any, ...], int] = {}
        self.sums: deque[SumOnDevice] = deque(maxlen=_KEPT)
        self.under_way: dict[int, tuple[weakref.ref[Any], str, list[Any]]] = {}
        self._steps: Any = None
        """What watches the steps of optimizers, from the first collective on that the program does not wait for at
        once: most have none."""
        self._notes = dist.is_available() and not listener.records_all()

    def install(self) -> None:
        """Watch the functions of torch.distributed, and the handles that some of them return."""
        for name in _CALLS:
            call = getattr(c10d, name, None)
            if call is not None:
                watched = self._watched(call, name)
                for module in (c10d, dist):
                    setattr(module, name, watched)
        for name in _DONE_BY:
            method = getattr(c10d.Work, name, None)
            if method is not None:
                setattr(c10d.Work, name, self._done_by(method))

    @property
    def ranks(self) -> int:
        """How many there are."""
        return dist.get_world_size() if dist.is_initialized() else 1

    def _watched(self, call: Callable[..., Any], name: str) -> Callable[..., Any]:
        guarded = self._state.recorder.guarded
        begin, end = guarded(self._begin), guarded(self._end)
        looks = name in _SUMS or name in _LISTS

        @standing_for(call)
        def watched(*args: Any, **keywords: Any) -> Any:
            if torch.compiler.is_compiling():
                return call(*args, **keywords)
            self._state.exchanges += 1
            begun = begin(name, args, keywords) if looks or self._notes else None
            result = call(*args, **keywords)
            # Of most there is nothing to look at, and no handle.
            if begun is not None or result is not None:
                end(name, begun, result, args, keywords)
            return result

        return watched

    def _done_by(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @standing_for(method)
        def watched(work: Any, *args: Any, **keywords: Any) -> Any:
            if not torch.compiler.is_compiling() and self.under_way:
                self._forget(work)
            return method(work, *args, **keywords)

        return watched

    def _forget(self, work: Any) -> None:
        self.under_way = {at: entry for at, entry in self.under_way.items() if entry[0]() is not work}

    def _begin(self, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> SumOnDevice | None:
        if self._notes and called_by_own():
            self._note(name, (*args, *keywords.values()))
        if name in _LISTS:
            self._look_for_one_tensor(name, args, keywords)
        if name not in _SUMS:
            return None
        if self._state.steps >= _FIRST_STEPS:
            first: Any = args[0] if args else keywords.get("tensor")
            if self._asked > _MOST_CALLS or type(first) is not torch.Tensor or first.numel() != 1:
                return None
        given = {**dict(zip(_SUMS[name], args, strict=False)), **keywords}
        tensor: Any = given.get("tensor")
        if name == "all_reduce" and given.get("group") is None and self._state.steps < _FIRST_STEPS:
            self._look_for_gradients(tensor)
        if type(tensor) is not torch.Tensor or tensor.numel() != 1 or not _can_be_copied(tensor):
            return None
        if (
            given.get("async_op")
            or not tensor.is_floating_point()
            or given.get("group") not in (None, c10d.group.WORLD)
        ):
            return None
        place = self._counted()
        if place is None:
            return None
        self._made += 1
        noted = SumOnDevice(self._made, name, _op_of(given.get("op")), _dst_of(given), self._state.steps, place)
        noted.before = tensor.detach().clone()
        return noted

    def _note(self, name: str, given: Iterable[Any]) -> None:
        """Remember a call that PyTorch does not record, with the numbers of its largest tensor."""
        parts = [part for each in given for part in (each if isinstance(each, list) else [each])]
        elements = max((part.numel() for part in parts if isinstance(part, torch.Tensor)), default=0)
        entry = {"name": name, "number": 0, "group": "", "elements": elements, "of_wrapper": False, "done": True}
        listener.CALLED.append({**entry, "began": 0.0, "place": self._state.recorder.place()})

    def _look_for_one_tensor(self, name: str, args: tuple[Any, ...], keywords: dict[str, Any]) -> None:
        """Write a line where a list has the same tensor for each rank."""
        names, writes = _LISTS[name]
        made: Any = {**dict(zip(names, args, strict=False)), **keywords}.get(writes)
        if isinstance(made, list) and len(made) > 1 and made[0] is made[-1] and self._into_one < _MOST_PLACES:
            self._into_one += 1
            self._state.write("gathered into one", call=name, place=self._state.recorder.place())

    def _look_for_gradients(self, tensor: Any) -> None:
        """Write a line for a gradient that a wrapper has averaged over the ranks already; note what may be one else."""
        if not isinstance(tensor, torch.Tensor) or not self._state.backwards:
            return
        if not self._state.wrappers:
            self._state.reduced.add(memory_of(tensor))
            return
        if self._averaged[0] != self._state.backwards:
            self._averaged = self._state.backwards, _averaged_gradients(self._state)
        if memory_of(tensor) in self._averaged[1] and self._again < _MOST_GRADIENTS:
            self._again += 1
            self._state.write("averaged again", step=self._state.steps, place=self._state.recorder.place())

    def _counted(self) -> list[Any] | None:
        """The line of the program, where it has not been here too often."""
        self._asked += 1
        if self._asked > _MOST_CALLS:
            return None
        place = self._state.recorder.place()
        key = tuple(place or ())
        often = self._at.get(key, 0)
        if place is None or often >= _MOST_SUMS or (not often and len(self._at) >= _MOST_PLACES):
            return None
        self._at[key] = often + 1
        return place

    def _end(
        self, name: str, noted: SumOnDevice | None, result: Any, args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> None:
        first: Any = args[0] if args else keywords.get("tensor")
        if noted is not None:
            noted.after = first.detach().clone()
            _wait_for_backend(first)
            if not _is_shared(first):
                _tell_when_dropped(noted, first)
            self.sums.append(noted)
        elif isinstance(result, c10d.Work) and isinstance(first, torch.Tensor) and called_by_own():
            place = self._state.recorder.place()
            if len(self.under_way) >= _MOST_UNDER_WAY:
                self.under_way = {at: entry for at, entry in self.under_way.items() if entry[0]() is not None}
            if place is not None and len(self.under_way) < _MOST_UNDER_WAY:
                self.under_way[memory_of(first)] = weakref.ref(result), name, place
                if self._steps is None:
                    look = self._state.recorder.guarded(self._look_at_step)
                    self._steps = optim.register_optimizer_step_pre_hook(look)

    def _look_at_step(self, optimizer: Any, args: Any, keywords: Any) -> None:
        """Write a line, once, where an optimizer takes a gradient to which a collective may still be adding."""
        taken = (each.grad for group in optimizer.param_groups for each in group["params"] if each.grad is not None)
        for gradient in taken:
            work, name, place = self.under_way.get(memory_of(gradient), (None, "", []))
            handle = work() if work is not None else None
            if work is not None and (handle is None or not handle.is_completed()):
                self._steps.remove()
                self._state.write("stepped early", call=name, step=self._state.steps, place=place)
                return

    def unfinished(self, tensor: torch.Tensor) -> tuple[str, list[Any]] | None:
        """The collective that may be writing this tensor now, and that nobody has waited for."""
        at = memory_of(tensor)
        work, name, place = self.under_way.get(at, (None, "", []))
        handle = work() if work is not None else None
        # Whose handle is gone cannot be asked any more.
        if handle is None or handle.is_completed():
            self.under_way.pop(at, None)
            return None
        return name, place


def _averaged_gradients(state: State) -> set[int]:
    """Where those of wrappers are that have just averaged them, in the way that they do without a hook."""
    every = (each for each in state.wrappers if getattr(each, "require_backward_grad_sync", False))
    plain = (each for each in every if not getattr(each, "_comm_hooks", None))
    return {memory_of(one.grad) for each in plain for one in each.parameters() if one.grad is not None}


def memory_of(tensor: torch.Tensor) -> int:
    """Where its numbers lie."""
    return int(tensor.untyped_storage().data_ptr())


def _can_be_copied(tensor: torch.Tensor) -> bool:
    # What is recorded as a graph of kernels would be repeated with our copy in it.
    return tensor.layout is torch.strided and not (tensor.is_cuda and torch.cuda.is_current_stream_capturing())


def _op_of(op: Any) -> str:
    return "SUM" if op is None else str(op).rpartition(".")[2]


def _dst_of(given: dict[str, Any]) -> int | None:
    dst = given.get("dst", given.get("group_dst"))
    return dst if isinstance(dst, int) and given.get("group") is None else None


def _is_shared(tensor: torch.Tensor) -> bool:
    """Another tensor has the same memory; also where that cannot be asked."""
    ask = getattr(torch._C, "_storage_Use_Count", None)
    storage = tensor.untyped_storage()
    # The tensor, and the handle that was made for asking.
    return ask is None or ask(storage._cdata) > _OWN_USES


_OWN_USES = 2
_LOOKS, _BETWEEN_S = 10, 0.0001


def _wait_for_backend(tensor: torch.Tensor) -> None:
    """Let a thread of gloo put the tensor down, which may hold it for a moment longer than the call takes.

    Else it is this thread that lets go of it last, and nobody knows at which line the program did.
    """
    for _ in range(0 if tensor.is_cuda else _LOOKS):
        if tensor._use_count() <= 1:
            return
        time.sleep(_BETWEEN_S)


def _tell_when_dropped(noted: SumOnDevice, tensor: torch.Tensor) -> None:
    """A copy without a name is gone before the line that has made it ends."""
    path, line = noted.place
    frame = next((each for each in _frames() if _is_at(each, path, line)), None)
    code = frame.f_code if frame is not None else None
    # Where Python ends, modules are empty before the last tensors die.
    running = sys._getframe
    del frame

    def died(_: Any) -> None:
        # A thread of the backend, which held it last, comes from no line of the program.
        now = running().f_back
        noted.dropped = now is not None and now.f_code is code and now.f_lineno == line

    noted.watch = weakref.ref(tensor, died)


def _is_at(frame: Any, path: str, line: int) -> bool:
    return bool(frame.f_lineno == line and path.endswith(frame.f_code.co_filename.rpartition("/")[2]))


def _frames() -> Iterator[Any]:
    frame = sys._getframe(1)
    while frame is not None:
        yield frame
        frame = frame.f_back  # type: ignore[assignment]
