"""How processes ended, and where they stood then."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterable, Sequence

from gpudoctor.diagnostic import Location
from gpudoctor.logs.error_texts import meaning_of
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.record import dataclass

_SENTENCE = 200


@dataclass(frozen=True)
class StackFrame:
    """One call of a stack: where, in which function, and whether that is the user's own code."""

    location: Location
    function: str
    own: bool


STATES = ("torch/distributed/checkpoint/", "state_dict_utils.py", "_optim_utils.py", "zero_redundancy_optimizer.py")
"""Files, or folders, of torch through which parts of a state are asked for."""


def is_inside_of(files: Sequence[str], innermost_first: Iterable[StackFrame]) -> bool:
    inner = itertools.takewhile(lambda frame: not frame.own, innermost_first)
    return any(part in frame.location.path for frame in inner for part in files)


_WAITING_IN = (
    "torch/distributed/distributed_c10d.py",
    "torch/distributed/rendezvous.py",
    "torch/distributed/utils.py",
    "torch/autograd/graph.py",
    "torch/nn/parallel/distributed.py",
    "torch/distributed/_functional_collectives.py",
)
"""Files of torch in which a rank waits for others: a backward waits in the collectives of DDP."""
_ON_THE_WAY = ("torch/_ops.py", "torch/_library/")
"""Files through which collectives go that are operators, as those of sharded parameters."""


def waits_for_others(innermost_first: Iterable[StackFrame]) -> bool:
    """The rank is inside of torch's code for several processes, and has called nothing from there."""
    paths = (frame.location.path.replace(os.sep, "/") for frame in innermost_first)
    first = next((path for path in paths if not any(part in path for part in _ON_THE_WAY)), "")
    return any(part in first for part in _WAITING_IN)


class EndedAt:
    """Where a process ended: `frames` are outermost first."""

    frames: tuple[StackFrame, ...]

    @property
    def place(self) -> Location | None:
        """The innermost line of the user's own code."""
        return next((frame.location for frame in reversed(self.frames) if frame.own), None)

    @property
    def asks_for_state(self) -> bool:
        """The program had called what puts a sharded state together."""
        return is_inside_of(STATES, reversed(self.frames))


@dataclass(frozen=True)
class Terminated(EndedAt):
    """SIGTERM ended it, without a word of its own."""

    frames: tuple[StackFrame, ...]

    @property
    def waited(self) -> bool:
        """For other ranks, as far as the files of torch tell it."""
        return waits_for_others(reversed(self.frames))


@dataclass(frozen=True)
class Crash(EndedAt):
    """An exception that nobody caught. `step` counts the steps made before."""

    type: str
    text: str
    step: int
    frames: tuple[StackFrame, ...]
    near_group: bool = False
    """The files of the user's code in which it happened call `init_process_group` somewhere."""
    at: float = 0.0
    of_child: bool = False
    """In a process of `multiprocessing`: its parent may end well all the same."""
    trainable: tuple[tuple[int, int], ...] = ()
    """Each wrapper, and how many of its parameters were trainable then."""

    @property
    def summary(self) -> str:
        """Its type and the first sentence of its text; of a traceback that was handed on, the error at its end."""
        text = self.text.strip().rpartition("\n")[2] if "\nTraceback (most recent" in self.text else self.text
        sentence = " ".join(text.split()).partition(". ")[0]
        return f"{self.type}: {sentence if len(sentence) <= _SENTENCE else sentence[:_SENTENCE] + ' ...'}"

    @property
    def lost_connection(self) -> bool:
        """Another rank had gone: gloo notices that, where NCCL waits."""
        meaning = meaning_of(f"{self.type}: {self.text}")
        return meaning is not None and meaning.role is FailureRole.PEER

    def through(self, file: str) -> bool:
        """It came through a file of this name."""
        return any(frame.location.path.endswith(file) for frame in self.frames)

    @property
    def raised_in(self) -> str:
        """The file whose line raised it; of a traceback that was handed on, the one at its end."""
        _, handed_on, rest = self.text.rpartition('File "')
        return rest.partition('"')[0] if handed_on else self.frames[-1].location.path if self.frames else ""


@dataclass(frozen=True)
class Fatal(EndedAt):
    """A signal that ended a process, in Python's words."""

    signal: str
    frames: tuple[StackFrame, ...]

    @property
    def aborts(self) -> bool:
        """Native code has ended it, as gloo does with a rank that meets another collective than its own."""
        return self.signal == "Aborted"
