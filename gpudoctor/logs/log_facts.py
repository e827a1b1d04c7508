"""What a log says, as plain records. Each knows who said it, and in which line of which file."""

from __future__ import annotations

from gpudoctor.logs.speakers import Speaker
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class LogPlace:
    """Where in the log: file and line, how many lines were read before (`order`), and the time in front of it."""

    path: str
    line: int
    order: int
    at: str = ""


@dataclass(frozen=True)
class LoggedFrame:
    """One call of a stack, as Python prints it."""

    path: str
    line: int
    function: str

    @property
    def own(self) -> bool:
        """The file is the user's: neither Python's nor an installed package's."""
        path = self.path.replace("\\", "/")
        return not (path.startswith("<") or any(part in path for part in _FOREIGN))


_FOREIGN = (
    "/site-packages/", "/dist-packages/", "/lib/python3", "/torch/_", "/torch/nn/", "/torch/distributed/",
    "/torch/utils/", "/torch/optim/", "/torch/cuda/", "/bin/torchrun", "/bin/accelerate", "/bin/deepspeed",
)  # fmt: skip


@dataclass(frozen=True)
class LoggedCrash:
    """An exception that ended a process, with its stack, outermost call first.

    `text` may have several lines. `raised_first` is the exception that led to it, where Python told one. `mixed`:
    lines of several processes ran into each other, and the stack may have calls of another.
    """

    by: Speaker
    at: LogPlace
    type: str
    text: str
    frames: tuple[LoggedFrame, ...]
    raised_first: LoggedCrash | None = None
    mixed: bool = False

    @property
    def place(self) -> LoggedFrame | None:
        """The innermost line of the user's own code."""
        return next((frame for frame in reversed(self.frames) if frame.own), None)


@dataclass(frozen=True)
class Timeout:
    """NCCL's watchdog gave up on a collective. `number` counts those of the group, None in logs of old versions."""

    by: Speaker
    at: LogPlace
    operation: str
    number: int | None
    elements: int | None
    seconds: float
    group: str = ""


@dataclass(frozen=True)
class GroupProgress:
    """How far a rank was in the collectives of a group when the watchdog spoke."""

    by: Speaker
    at: LogPlace
    group: str
    failed: int | None
    enqueued: int
    completed: int


@dataclass(frozen=True)
class CollectiveStack:
    """Where the program called the collective that timed out, as the flight recorder knew it, innermost call first."""

    by: Speaker
    at: LogPlace
    frames: tuple[LoggedFrame, ...]


@dataclass(frozen=True)
class ProcessExit:
    """How a launcher saw a process end. `signal` is 0 where it ended by itself; `root`: the launcher saw it first."""

    by: Speaker
    at: LogPlace
    code: int
    signal: int
    time: str = ""
    root: bool = False


@dataclass(frozen=True)
class Notice:
    """A line that says by itself what happened: of NCCL, a scheduler, the kernel."""

    by: Speaker
    at: LogPlace
    text: str


LogFact = LoggedCrash | Timeout | GroupProgress | CollectiveStack | ProcessExit | Notice
