"""Events of files: checkpoints that are written and read, folders, downloads."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.optim import Optimizer, Scaler, Scheduler
from gpudoctor.lint.domain.symbols import CallResult, IsTrue
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Unknown, Value, Values
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.manifest.compiled import functions
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.lint.flow.condition import Literal


@dataclass(frozen=True, kw_only=True)
class Save(Event):
    """A file is written. `call` is the callable; `collective` where all ranks must call it (a sharded save);
    `checkpoint` where it holds weights."""

    call: str
    path: Values | None
    content: Values | None = None
    collective: bool = False
    checkpoint: bool = True
    states: tuple[tuple[str, Value], ...] = ()
    """The state dicts and modules that are written, each with its entry in a dictionary, or an empty text."""
    states_when: tuple[Condition, ...] = ()
    """On which paths each of them is the one, where there are several for an entry."""
    on_cpu: bool = False
    """All of it lies on the CPU, where `torch.load` puts it again."""
    whole: bool = False
    """No checkpoint, but written as one: two processes at a time leave a file that nobody can read."""
    spelled: str = ""
    """How the program writes the path: `out / "model.pt"`; an empty text where that is not known."""
    shards: bool = False
    """What it writes is the part of this rank alone: the state of a model that was sharded in place, not gathered."""
    emptied: bool = False
    """ZeRO keeps the parameters elsewhere, and what is written in their place is empty."""
    adds: bool = False
    """It stands behind what is in the file already."""
    by_logger: bool = False
    """It is the first line that all ranks log there."""
    told_who: bool = False
    """It is told which rank is to write, or writes by a function that knows: `save_function=accelerator.save`."""


@dataclass(frozen=True, kw_only=True)
class ShardedState(Event):
    """A state is asked for of which each rank holds a part. `gathers` where all ranks must call it, since it brings
    the parts together."""

    call: str
    owner: Module | Wrapper | Optimizer | Tensor | Unknown
    gathers: bool


@dataclass(frozen=True, kw_only=True)
class Load(Event):
    """`torch.load` and its kind."""

    call: str
    path: Values | None
    spelled: str = ""
    map_location: Values | None = None
    result: Unknown | None = None


@dataclass(frozen=True, kw_only=True)
class LoadState(Event):
    """`load_state_dict(state)`."""

    target: Module | Wrapper | Optimizer | Scheduler | Scaler | Unknown
    state: Values | None
    strict: bool | None = True
    """True, False, or None where that is not known."""
    loaded: Unknown | None = None
    """The result of the `Load` that it is, or is an entry of."""
    entry: str | None = None
    """Which entry: `model` for `checkpoint["model"]`, an empty text for the whole, None where it was changed."""


EXISTENCE = functions("IsThere")
"""Who asks whether a file is there: with its path, the key of the answer."""


@dataclass(frozen=True, kw_only=True)
class ReadFile(Event):
    """A file is read: `call` says by what."""

    call: str


@dataclass(frozen=True, kw_only=True)
class ChangeFolder(Event):
    """A folder is made, or removed with all that is in it (`removes`). `tolerated` where it is no error that another
    process has done so before."""

    call: str
    path: Values | None
    spelled: str = ""
    tolerated: bool = False
    removes: bool = False


@dataclass(frozen=True, kw_only=True)
class Download(Event):
    """Files are fetched to `path`, without a lock, where they are not there yet. `call` is the data set or function."""

    call: str
    path: Values | None


def missing(when: Condition, path: Values | None) -> bool:
    """The program comes by only where it has found that there is no such file."""
    return any(not asked.isdisjoint(path or ()) for asked in map(_not_there, when))


def lacking(when: Condition) -> bool:
    """The program comes by only where it has found that some file is not there."""
    return any(map(_not_there, when))


def _not_there(literal: Literal) -> set[object]:
    """The paths that this answer says are not there."""
    match literal.atom.key:
        case IsTrue(Unknown(term=CallResult(str(question), (ValueSet() as paths, *_)))) if question in EXISTENCE:
            return set() if literal.holds else set(paths)
    return set()
