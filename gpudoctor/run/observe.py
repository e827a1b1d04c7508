"""The pipeline of run, as an outline: start the command, follow its ranks, read the recording, ask the rules."""

from __future__ import annotations

import functools
import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from gpudoctor.diagnostic import Finding, SeenIn, Severity
from gpudoctor.logs.error_texts import meaning_of
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.ranks.scratch import scratch
from gpudoctor.record import dataclass, replace
from gpudoctor.registry import load
from gpudoctor.rule import RuleCard
from gpudoctor.run.external_rank import RECORDING, Given, shared_folder, wait_for_the_others
from gpudoctor.run.hang import Watch
from gpudoctor.run.internal_errors import Faults
from gpudoctor.run.protocol import ENDED, STARTS, STEPS
from gpudoctor.run.recording import Process, Recording, Waiting
from gpudoctor.run.recording_reader import read
from gpudoctor.run.session import run_command
from gpudoctor.run.virtual_nodes import SlurmTasks, node_variables, slurm_path, task_variables


@dataclass(frozen=True)
class Order:
    """What to run and when to step in. `hang_after` is in seconds; `steps` ends the job after so many on each rank."""

    command: tuple[str, ...]
    hang_after: float = 30.0
    kill_on_hang: bool = False
    steps: int | None = None
    trace: bool = False
    """Write down when the parts of each step began, and not only how long they took."""
    virtual_gpus: int | None = None
    """How many virtual GPUs the command sees, instead of those of the machine."""
    skip_kernels: tuple[str, ...] = ()
    """Modules that stand-ins replace."""
    virtual_nodes: int = 1
    """How many machines this one plays."""
    slurm: SlurmTasks | None = None
    """The tasks that `srun` would start, on a machine that has none."""
    given: Given | None = None
    """The rank that this process was started as, where a launcher stands before us and not behind."""


def observe(order: Order, tell: Callable[[Sequence[Waiting]], None], faults: Faults) -> Recording:
    """Run the command of the user and return what was seen; `tell` hears of ranks that do not advance, at once."""
    with scratch(RECORDING) if order.given is None else shared_folder(order.given) as folder:
        if order.trace:
            (folder / STARTS).touch()
        if order.steps is not None:
            # Ranks of a launcher write into one folder, and read there: at no moment is it empty.
            own = folder / f"{STEPS}.{os.getpid()}"
            own.write_text(str(order.steps), encoding="ascii")
            own.replace(folder / STEPS)
        follower = Follower(order, folder, tell)
        ended = run_command(
            order.command,
            folder,
            lambda told: faults.tried("looking at the ranks", functools.partial(follower.look, told), otherwise=False),
            order.virtual_gpus,
            order.skip_kernels,
            _variables(order, folder),
        )
        if order.given is not None:
            wait_for_the_others(order.given, folder)
        nothing = Recording((), status=ended.status, seconds=ended.seconds)
        recording = faults.tried(
            "reading the recording", lambda: read(folder, status=ended.status, seconds=ended.seconds), nothing
        )
        hang = follower.hang or (follower.stood if _ended_waiting(recording) else ())
        ranks = _counted(recording, hang)
        return replace(
            recording,
            hang=hang,
            ranks=ranks,
            told_to_end=ended.told_to_end,
            virtual=order.virtual_gpus is not None,
            skipped_kernels=order.skip_kernels,
        )


def _variables(order: Order, folder: Path) -> Sequence[Mapping[str, str]]:
    """For each process that is started what it is told besides."""
    if order.slurm is not None:
        path = slurm_path(folder, order.slurm.nodes)
        return [{**each, "PATH": path} for each in task_variables(order.slurm)]
    return node_variables(order.virtual_nodes) if order.virtual_nodes > 1 else ({},)


def _counted(recording: Recording, hang: Sequence[Waiting]) -> tuple[Process, ...]:
    """The ranks, with the steps that those have told which were asked where they are."""
    told: dict[int | None, int] = {each.rank: each.steps for each in hang}
    return tuple(replace(each, counted=max(each.counted, told.get(each.rank, 0))) for each in recording.ranks)


def _ended_waiting(recording: Recording) -> bool:
    """The ranks were ended, by a person or by a time limit: none of them failed for a reason of its own."""
    if not recording.status:
        return False
    meanings = [meaning_of(f"{crash.type}: {crash.text}") for _, crash in recording.crashes()]
    return all(each is not None and each.role is not FailureRole.OWN for each in meanings)


_ENDING = 5.0
"""Seconds that a rank may take to end: who writes something and is there for longer has gone on."""


class Follower:
    """Looks at the recording while it grows."""

    def __init__(self, order: Order, folder: Path, tell: Callable[[Sequence[Waiting]], None]) -> None:
        self._order = order
        self._folder = folder
        self._watch = Watch(folder, order.hang_after)
        self._tell = tell
        self.hang: tuple[Waiting, ...] = ()
        self.stood: tuple[Waiting, ...] = ()
        """The last hang, as long as no rank is known to have gone on since."""
        self._stirred = 0.0
        self._held: bool | None = None
        """Whether they stood when they were told to end: what they do after that is no going on. None until then."""

    def look(self, told_to_end: bool) -> bool:
        """Whether the job is to be ended, which somebody may have told it by now."""
        # One watcher for all ranks of a node; the others only stay beside theirs, and end them when it does.
        if self._order.given is not None and not self._order.given.reports:
            return (self._folder / ENDED).exists()
        if told_to_end and self._held is None:
            self._held = bool(self.hang)
        ends = self._ends()
        if ends:
            (self._folder / ENDED).touch()
        return ends

    def _ends(self) -> bool:
        found = self._watch.look()
        if found:
            if [each.place for each in found] != [each.place for each in self.hang]:
                self._tell(found)
            self.hang = self.stood = found
        elif self.hang and not self._watch.standing_still:
            # They have gone on, for who is only slow does not hang, or come to their end.
            self.hang, self._stirred = (), time.monotonic()
        elif self.stood and not (self.hang or self._held) and time.monotonic() - self._stirred > _ENDING:
            self.stood = () if self._watch.has_moved_since(self._stirred) else self.stood
        # After the report to the user, who may want to see where they stood.
        if self.hang and self._order.kill_on_hang:
            return True
        return self._order.steps is not None and self._watch.enough()


def judged(recording: Recording, cards: Iterable[RuleCard], faults: Faults) -> Iterator[Finding]:
    """What the rules that a run can show have seen in this one."""
    nothing: tuple[Finding, ...] = ()
    for card in cards:
        if card.shows_in_run and not (recording.virtual and card.severity is Severity.PERF):
            yield from faults.tried(card.code, functools.partial(_seen_by, card, recording), nothing)


def _seen_by(card: RuleCard, recording: Recording) -> tuple[Finding, ...]:
    return tuple(replace(finding, seen_in=SeenIn.RUN) for finding in load(card).in_run(recording))
