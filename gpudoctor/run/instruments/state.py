"""What instruments know in common: the models that were wrapped, and what has happened since the last step."""

from __future__ import annotations

import os
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch.utils.data import get_worker_info

from gpudoctor.run import clock
from gpudoctor.run.instruments.fingerprints import Table
from gpudoctor.run.instruments.stepped import Stepped
from gpudoctor.run.protocol import STARTS, STEPS
from gpudoctor.run.recorder import Recorder

_MOST_FAILURES = 20
"""Errors of one process that are written down: a program may try again and again."""


_TOGETHER = 0.02
"""Seconds of which steps may be written down together: so much of a process that is killed is not known."""
_MOST_STARTS = 200
"""Of one step; an evaluation between two steps may have thousands of batches."""


class State:
    """Of one process. `spans` are seconds of the current step, by what they were spent on."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.wrappers: weakref.WeakSet[torch.nn.Module] = weakref.WeakSet()
        self.prepared: weakref.WeakSet[Any] = weakref.WeakSet()
        """Optimizers that Accelerate was given, and loaders that it has made."""
        self.skipping: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        """Loaders that leave out so many batches in each pass."""
        self.loaders_made: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        """Where loaders were made."""
        self.spans: dict[str, float] = {}
        self.waited = 0.0
        """Seconds of the current step that loaders took: the span `wait`, while nobody asks when it began."""
        self.counts: dict[str, int] = {}
        self.used = False
        """Some wrapper was called."""
        self.steps = 0
        self.batches = 0
        """That loaders have handed out, for training and for all else."""
        self.last_step = _number_in(os.path.join(recorder.folder, STEPS))
        """After which the job is to be ended; 0 where that is not asked for."""
        self.resting = False
        """The step that goes on now is only counted."""
        self.forwards = 0
        """Of wrappers, whose input was looked at."""
        self.backwards = 0
        self.first_seed = torch.initial_seed()
        """Of torch, before the program set one."""
        self.seeded = False
        """The program has set the seed of another generator."""
        self.tables: deque[Table] = deque(maxlen=2)
        """Of the last batches: some frameworks read one ahead."""
        self.reads_tokens = False
        """Such tables are known to be sequences of tokens."""
        self.exchanges = 0
        """Collectives that the program has called."""
        self.reduced: set[int] = set()
        """Where tensors lie that all ranks have added up since the last step, in the first ones without a wrapper."""
        self.exchanges_before_backward = 0
        """The same at the first backward."""
        self.at_end: list[Callable[[], None]] = []
        """What instruments write when the process ends."""
        self.left: tuple[list[Any] | None, int] = None, 0
        """The line of the program that called `sys.exit`, and the steps and exchanges that were made then."""
        self.told_the_rest = False
        """They have, and so have those who know the collectives."""
        self.before_compiling: list[Callable[[], None]] = []
        """What leaves when the program compiles something."""
        self.inside = 0
        """Spans that go on."""
        self.backward_at: Any = None
        """Where the first backward was called."""
        self.going_back = False
        """A backward is running."""
        self.options: tuple[Any, Any] | None = None
        """What was parsed of the command line where that tells the local rank, and where."""
        self.failed = recorder.guarded(self._failed)
        self._failures = 0
        self._told: list[Stepped] = []
        # A process that is forked must not tell those of its parent.
        os.register_at_fork(after_in_child=self._told.clear)
        self._group: int | None = None
        self._starts: list[tuple[str, float, float]] = []
        self.tells_starts = os.path.exists(os.path.join(recorder.folder, STARTS))
        # Of one clock with the lines, and as steady as what parts are measured by.
        self._epoch = clock.time() - clock.perf_counter()

    def note_table(self, table: Table) -> None:
        """A batch has this."""
        self.tables.append(table)
        self.reads_tokens |= table.tokens

    def spend(self, what: str, seconds: float) -> None:
        self.spans[what] = self.spans.get(what, 0.0) + seconds
        if self.tells_starts and len(self._starts) < _MOST_STARTS:
            began = self._epoch + clock.perf_counter() - seconds
            self._starts.append((what, round(began, 6), round(seconds, 6)))

    def count(self, what: str, number: int = 1) -> None:
        self.counts[what] = self.counts.get(what, 0) + number

    def new_spans(self) -> dict[str, float]:
        """What was spent since this was asked last."""
        spans, self.spans = self.spans, {}
        if self.waited:
            spans["wait"], self.waited = self.waited, 0.0
        return spans

    @property
    def spent(self) -> float:
        """Seconds of the current step that are known to be spent on something."""
        return sum(self.spans.values()) + self.waited

    def new_counts(self) -> dict[str, int]:
        """What was counted since this was asked last."""
        counts, self.counts = self.counts, {}
        return counts

    def new_starts(self) -> list[tuple[str, float, float]]:
        """When the parts since the last step began; empty where nobody asked for it."""
        starts, self._starts = self._starts, []
        return starts

    def write(self, kind: str, /, **facts: Any) -> None:
        """Append a line, where this is not a process that only loads data."""
        if get_worker_info() is None:
            self._tell_group()
            self._write_steps()
            self.recorder.write(kind, **facts)

    def tell_step(self, told: Stepped, at_once: bool) -> None:
        """Write the line of a step, together with those of the next ones where there is no hurry."""
        if get_worker_info() is not None:
            return
        self._told.append(told)
        if at_once or told.at - self._told[0].at > _TOGETHER:
            self._tell_group()
            self._write_steps()

    def _write_steps(self) -> None:
        if self._told:
            self.recorder.append("\n".join([told.line() for told in self._told]))
            self._told.clear()

    def _failed(self, error: BaseException | None) -> None:
        """An error goes through what we watch; somebody may catch it further out."""
        # The end of a loader is no failure.
        if isinstance(error, Exception) and not isinstance(error, StopIteration) and self._failures <= _MOST_FAILURES:
            text, place = str(error)[:500], self.recorder.place()
            self._failures += 1
            self.write("failed", type=type(error).__name__, text=text, step=self.steps, place=place)

    def _tell_group(self) -> None:
        """Whoever has made the process group, the ranks are known before anything else is said."""
        group = dist.group.WORLD if dist.is_available() else None
        if group is None:
            self._group = None
        elif id(group) != self._group:
            # Not the group: who keeps it keeps it alive.
            self._group = id(group)
            rank, world = dist.get_rank(), dist.get_world_size()
            self.recorder.write("group", rank=rank, world=world, backend=_backend(), pid=os.getpid())


def _backend() -> str:
    """The backend of the default group. One that was made without a name has a backend for each kind of device."""
    name = str(dist.get_backend())
    if name != dist.Backend.UNDEFINED:
        return name
    of_devices = dict(each.split(":") for each in str(dist.get_backend_config()).split(","))
    return of_devices.get("cuda" if torch.cuda.is_available() else "cpu", name)


class Span:
    """`with Span(state, "backward"):` spends the `seconds` between, and tells an error that goes through."""

    __slots__ = ("_began", "_state", "_what", "seconds")

    def __init__(self, state: State, what: str) -> None:
        self._state = state
        self._what = what
        self._began = self.seconds = 0.0

    def __enter__(self) -> Span:
        self._state.inside += 1
        self._began = clock.perf_counter()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.seconds = clock.perf_counter() - self._began
        self._state.inside -= 1
        self._state.spend(self._what, self.seconds)
        if error is not None:
            self._state.failed(error)


def _number_in(path: str) -> int:
    try:
        with open(path, encoding="ascii") as file:
            return int(file.read())
    except (OSError, ValueError):
        return 0
