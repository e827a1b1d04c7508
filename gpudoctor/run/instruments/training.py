"""Backward and step: how long they take, and at some steps whether parameters and gradients are what they should be."""

from __future__ import annotations

import contextlib
import gc
import os
import resource
import sys
import time
from typing import Any

import torch
from torch.optim import optimizer as optim

from gpudoctor.run import clock
from gpudoctor.run.clock import monotonic
from gpudoctor.run.instruments.clips import Clips
from gpudoctor.run.instruments.collective_calls import memory_of
from gpudoctor.run.instruments.command_line import tell_local_rank
from gpudoctor.run.instruments.crashes import tell_the_rest
from gpudoctor.run.instruments.fingerprints import sums_of
from gpudoctor.run.instruments.kept_gradients import KeptGradients
from gpudoctor.run.instruments.losses import Losses
from gpudoctor.run.instruments.models import look, tell_searches
from gpudoctor.run.instruments.randomness import tell_generators
from gpudoctor.run.instruments.state import Span, State
from gpudoctor.run.instruments.stepped import Stepped
from gpudoctor.run.instruments.termination import tell_handler
from gpudoctor.run.protocol import ENOUGH
from gpudoctor.run.stand_ins import standing_for

_SHARD_MARKS = ("to_local", "_is_flat_param", "_fsdp_flattened")
"""What a parameter has of which each rank holds a part: that of `fully_shard`, and those of FSDP1."""
_CHECK_EVERY = 50
_SEARCHED = 12
"""Steps after each of which wrappers are asked what they searched for: PyTorch keeps that of the first ones."""
_DRAWN = 6
"""Steps after each of which the generators are looked at: whoever draws in a step does so in the first ones."""
_EACH_UNTIL, _FEWER = 256, 11
"""Each step is looked at until this one, and each eleventh of later ones; the others are only counted, which takes a
fifth of the time. By number, so that all ranks look at the same steps. An odd one, so that of two optimizers that take
turns both are seen."""
_TRACED_UNTIL = 4096
"""The same where the times of each step are asked for."""
_RARELY_AFTER = 512
"""Later steps that have been told, after which eleven times fewer are, and so on: a long run must not fill the disk,
and most of what a watched step takes longer is to tell of it."""
_AT_ONCE, _TOGETHER = 256, 0.005
"""Later steps that take less than so many seconds are written down together: one by one they would cost several times
as much."""
_MEMORY_EVERY = 0.2
"""Seconds: to ask for it takes a while."""
_CLOCKED, _CLOCKED_AGAIN = 12, 100
"""DDP clocks its first ten backwards and each hundredth; it tells of one when the next begins."""
_UNTIL_ENDED = 2.0
"""Seconds for which a rank waits after its last step: longer than others may need for theirs, and not without end."""
_MOST_BYTES = 2_000_000_000
"""Of parameters that are compared; a larger model is compared in part."""


def watch(state: State) -> None:
    """Write a line for each step of an optimizer, and look at its parameters at the first ones and now and then."""
    clips = Clips(state)
    steps = _Steps(state, clips)
    guarded = state.recorder.guarded
    guarded(clips.install)()
    optim.register_optimizer_step_pre_hook(steps.begin)
    optim.register_optimizer_step_post_hook(steps.end)
    if state.last_step:
        # Not guarded: what a handler of the program raises meanwhile is the program's.
        optim.register_optimizer_step_post_hook(steps.wait_for_the_end)
    before_backward = guarded(steps.before_backward)
    backward = torch.autograd.backward

    @standing_for(backward)
    def watched(*args: Any, **keywords: Any) -> None:
        if state.resting:
            state.backwards += 1
            whole = False
            try:
                backward(*args, **keywords)
                whole = True
            finally:
                if not whole:
                    state.failed(sys.exc_info()[1])
            return
        before_backward(*args[:1])
        state.going_back = True
        try:
            with Span(state, "backward"):
                backward(*args, **keywords)
        finally:
            state.going_back = False
        steps.after_backward()

    torch.autograd.backward = watched


class _Steps:
    def __init__(self, state: State, clips: Clips) -> None:
        self._state = state
        self._recorder = state.recorder
        self._clips = clips
        self._losses = Losses(state)
        # What they cannot read costs no more than that.
        self._note_loss = state.recorder.guarded(self._losses.note)
        self._running: list[int] = []
        self._began = 0.0
        self._last = clock.perf_counter()
        self._spent = 0.0
        self._stride = 1
        self._told = 0
        self._waited = self._joined = False
        self._looked = -_MEMORY_EVERY
        self._known: dict[int, int] = {}
        self._clocked: dict[int, int] = {}
        self._next_look = self._next_work = self._rests_until = 0
        self._before = state.recorder.guarded(self.before)
        self._after = state.recorder.guarded(self.after)
        self._look = state.recorder.guarded(look)
        self._search = state.recorder.guarded(tell_searches)
        self._handler = state.recorder.guarded(tell_handler)
        self._draw = state.recorder.guarded(tell_generators)
        self._rest = state.recorder.guarded(tell_the_rest)
        self._backward_at: Any = None
        self._kept = KeptGradients(state)
        self.after_backward = state.recorder.guarded(self._kept.after_backward)

    def begin(self, optimizer: Any, args: Any, keywords: Any) -> None:
        """Before a step. One that is only counted is not guarded, which would cost more than to count it."""
        if self._state.resting and not self._running:
            self._running.append(id(optimizer))
        else:
            self._before(optimizer)

    def end(self, optimizer: Any, args: Any, keywords: Any) -> None:
        """After a step, in the same way."""
        state = self._state
        made = state.steps + 1
        if made < self._next_work and len(self._running) == 1 and id(optimizer) in self._known:
            self._running.clear()
            state.steps = made
            if made == self._rests_until:
                state.resting = False
            if monotonic() > self._recorder.silent_until:
                self._recorder.show_life()
        else:
            self._after(optimizer)

    def before(self, optimizer: Any) -> None:
        # A step that has raised was never told to be over.
        if id(optimizer) in self._running:
            self._running.clear()
        if not self._running and not self._state.resting:
            self._spent = self._state.spent
            self._began = clock.perf_counter()
        self._running.append(id(optimizer))

    def after(self, optimizer: Any) -> None:
        if self._running:
            self._running.pop()
        # An optimizer that holds others: the outermost step is the user's.
        if self._running:
            return
        state = self._state
        # Counted over all optimizers: a program with two of them makes two steps in each round.
        state.steps += 1
        if id(optimizer) not in self._known:
            self._meet(optimizer)
        if not state.resting:
            self._look_at(optimizer)
        if state.steps <= _CLOCKED or state.steps % _CLOCKED_AGAIN == 1:
            self._tell_communication()
        if self._told == state.steps:
            self._last = clock.perf_counter()
        self._rest_or_not()

    def wait_for_the_end(self, optimizer: Any, args: Any, keywords: Any) -> None:
        """After the last step, stay here until the job is ended, so that no further one is made."""
        if self._waited or self._running or self._state.steps < self._state.last_step:
            return
        self._waited = True
        # Nobody is asked again: the job is ended from outside.
        self._rest(self._state)
        with contextlib.suppress(OSError):
            path = os.path.join(self._state.recorder.folder, ENOUGH.format(pid=os.getpid()))
            with open(path, "w", encoding="ascii") as file:
                file.write(os.environ.get("LOCAL_WORLD_SIZE", "1"))
        time.sleep(_UNTIL_ENDED)

    def _look_at(self, optimizer: Any) -> None:
        state = self._state
        # A closure that is given to the step, as Lightning does, has the forward and the backward inside of it.
        within = state.spent - self._spent
        state.spend("optimizer", max(0.0, clock.perf_counter() - self._began - within))
        self._kept.tell()
        # First, because it asks for the backwards of this step.
        clips = self._clips.counted(optimizer)
        self._tell(self._known[id(optimizer)], {**state.new_counts(), **clips})
        if state.steps & (state.steps - 1) == 0 or state.steps % (_CHECK_EVERY * self._stride) == 0:
            self._check(optimizer)
            self._look(state)
            self._search(state)
        elif state.steps < _SEARCHED:
            self._search(state)
        if state.steps == 1:
            self._handler(state)
        if state.steps <= _DRAWN:
            self._draw(state)

    def _rest_or_not(self) -> None:
        """Decide whether the next step is looked at."""
        state = self._state
        first = _TRACED_UNTIL if state.tells_starts else _EACH_UNTIL
        if state.steps == (first if self._stride == 1 else _RARELY_AFTER * self._stride):
            self._stride *= _FEWER
        following = state.steps + 1
        self._next_look = -(-following // self._stride) * self._stride
        if following <= state.last_step:
            self._next_look = min(self._next_look, state.last_step)
        self._rests_until = self._next_look - 1
        state.resting = following < self._next_look
        clocked = following + (1 - following) % _CLOCKED_AGAIN
        self._next_work = min(self._next_look, clocked) if following > _CLOCKED else 0
        if state.resting:
            state.recorder.show_life()

    def _tell(self, optimizer: int, counts: dict[str, int]) -> None:
        """Write the line of a step, which stands for those since the line before."""
        state, many = self._state, self._state.steps - self._told
        now = clock.perf_counter()
        memory = peak = None
        if now - self._looked >= _MEMORY_EVERY:
            self._looked = now
            memory, peak = _memory()
        took, cost = now - self._last, state.recorder.cost
        spans, starts = state.new_spans(), state.new_starts()
        soon = state.steps <= _AT_ONCE or took > many * _TOGETHER or state.steps == state.last_step
        told = Stepped(clock.time(), state.steps, many, optimizer, took, memory, peak, cost, spans, counts, starts)
        state.tell_step(told, at_once=soon)
        self._told = state.steps

    def before_backward(self, tensors: Any = ()) -> None:
        state = self._state
        self._note_loss(tensors)
        state.count("backwards")
        state.backwards += 1
        if self._backward_at is None:
            self._backward_at = state.backward_at = state.recorder.place()
            state.exchanges_before_backward = state.exchanges
        # Once: to go through a set of weak references takes a while.
        wrappers = list(state.wrappers)
        if any(getattr(wrapper, "require_backward_grad_sync", True) for wrapper in wrappers):
            state.count("synced backwards")
            state.counts.pop("local at the end", None)
        else:
            state.counts["local at the end"] = 1
        if any(map(_synced_all_the_same, wrappers)):
            state.count("synced in no_sync")
        self._kept.before_backward()

    def _tell_communication(self) -> None:
        """What DDP has clocked of a backward that was not told yet."""
        for wrapper in self._state.wrappers:
            ask = getattr(wrapper, "_get_ddp_logging_data", None)
            clocks = ask() if ask is not None else {}
            # No promise of PyTorch: what is not there is not told.
            took, number = clocks.get("backward_comm_time"), clocks.get("iteration", 0)
            if not took or self._clocked.get(id(wrapper)) == number:
                continue
            self._clocked[id(wrapper)] = number
            self._state.write(
                "communication",
                step=self._state.steps,
                wrapper=id(wrapper),
                iteration=number,
                took=took / 1e9,
                hidden=clocks.get("backward_compute_comm_overlap_time", 0) / 1e9,
                began=clocks.get("backward_comm_time_start", 0) / 1e9,
            )

    def _meet(self, optimizer: Any) -> None:
        """Write down whose parameters an optimizer holds that has not stepped before."""
        if not self._known:
            tell_local_rank(self._state)
        number = self._known[id(optimizer)] = len(self._known)
        if self._state.wrappers and not self._state.used:
            # A wrapper that nobody holds is still there, because its parts refer to each other.
            gc.collect()
        held = {id(each) for each in _parameters(optimizer)}
        trained, wrapped = {}, set[int]()
        for wrapper in self._state.wrappers:
            own = {id(each) for each in wrapper.parameters() if each.requires_grad}
            wrapped |= own
            trained[id(wrapper)] = len(own), len(own & held)
        # Ranks are told apart by where their parameters are.
        parameters = _parameters(optimizer)
        first = next(iter(parameters), None)
        sharded = any(map(_is_shard, parameters))
        self._state.write(
            "optimizer",
            number=number,
            type=type(optimizer).__name__,
            parameters=len(held),
            held=trained,
            sharded=sharded,
            whole=[at for at, each in enumerate(parameters) if each.requires_grad and not _is_shard(each)]
            if sharded
            else [],
            device=str(first.device) if first is not None else "",
            gpu=_gpu(first.device) if first is not None else "",
            seed=torch.initial_seed(),
            seeded=self._state.seeded or torch.initial_seed() != self._state.first_seed,
            debug=debug_switches(),
            place=self._state.recorder.place(),
            backward=self._backward_at,
            prepared=optimizer in self._state.prepared,
            unwrapped=len(held - wrapped),
        )

    def _check(self, optimizer: Any) -> None:
        wraps = self._state.wrappers
        names = {id(p): name.removeprefix("module.") for wrap in wraps for name, p in wrap.named_parameters()}
        parameters = _parameters(optimizer)
        labels = [
            names.get(id(each), f"number {place} of shape {tuple(each.shape)}") for place, each in enumerate(parameters)
        ]
        self._kept.follow(parameters)
        self._joined = self._joined or any(map(_may_join, self._state.wrappers))
        chosen = _affordable(parameters)
        self._state.write(
            "check",
            step=self._state.steps,
            optimizer=self._known[id(optimizer)],
            sums=sums_of(chosen),
            names=labels[: len(chosen)] if self._state.steps == 1 else None,
            without_gradient=sum(each.requires_grad and each.grad is None for each in parameters),
            reduced=_reduced(parameters, self._state.reduced),
            losses=self._losses.marked,
            graphs=self._losses.graphs,
            joined=self._joined,
        )
        self._state.reduced.clear()
        self._losses.write()


_DEBUG = ("CUDA_LAUNCH_BLOCKING", "TORCH_DISTRIBUTED_DEBUG", "NCCL_DEBUG", "NCCL_P2P_DISABLE", "NCCL_IB_DISABLE")


def _synced_all_the_same(wrapper: Any) -> bool:
    """The gradients of this backward are averaged under `no_sync()`, too: the forward decides it, and ran before."""
    off = not getattr(wrapper, "require_backward_grad_sync", True)
    # DDP notes in a forward that has prepared to reduce that the next one must bring buffers up to date.
    return off and bool(getattr(wrapper, "require_forward_param_sync", False))


def _may_join(wrapper: Any) -> bool:
    """It is used under `join()`, which lets ranks make unlike numbers of steps."""
    return bool(getattr(getattr(wrapper, "_join_config", None), "enable", False))


def debug_switches() -> list[str]:
    """What is switched on in this process that is meant for finding bugs, not for training."""
    variables = [name for name in _DEBUG if os.environ.get(name, "") not in ("", "0", "OFF", "WARN", "INFO")]
    return [*variables, *(["torch.autograd.set_detect_anomaly"] if torch.is_anomaly_enabled() else [])]


def _reduced(parameters: list[torch.Tensor], reduced: set[int]) -> int:
    """How many have a gradient that lies in this memory."""
    return sum(memory_of(each.grad) in reduced for each in parameters if each.grad is not None) if reduced else 0


def _parameters(optimizer: Any) -> list[torch.Tensor]:
    return [each for group in optimizer.param_groups for each in group["params"]]


def _is_shard(parameter: torch.Tensor) -> bool:
    """A part of a parameter whose other parts lie on other ranks."""
    return any(hasattr(parameter, mark) for mark in _SHARD_MARKS)


def _affordable(parameters: list[torch.Tensor]) -> list[torch.Tensor]:
    room = _MOST_BYTES
    chosen = []
    for each in parameters:
        room -= each.numel() * each.element_size()
        if room < 0:
            break
        chosen.append(each)
    return chosen


def _memory() -> tuple[int, int]:
    """Bytes that this process holds, and the most that it ever held: on its GPU where it uses one."""
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        return int(torch.cuda.memory_allocated()), int(torch.cuda.max_memory_allocated())
    # On a CPU they are one: what it holds cannot shrink, and growth is what is looked for.
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return most, most


def _gpu(device: torch.device) -> str:
    if device.type != "cuda":
        return ""
    return str(getattr(torch.cuda.get_device_properties(device), "uuid", device.index))
