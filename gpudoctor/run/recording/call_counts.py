"""What was seen of the calls that a program makes beside its steps: what it adds up, reads, cuts, keeps and opens."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class RecordedCollective:
    """One collective as PyTorch's flight recorder has it. `began` is in seconds since the epoch."""

    name: str
    number: int
    group: str
    began: float
    elements: int
    """Numbers that this rank puts in."""
    of_wrapper: bool
    """A wrapper called it, and not the program."""
    place: Location | None
    members: tuple[int, ...] = ()
    """The ranks of the group, where that is known: of one that goes on."""
    function: str = ""
    """Of the program, in which `place` is, where that is known."""
    dtype: str = ""
    """Of the numbers that this rank puts in, where that is known."""


@dataclass(frozen=True)
class Subgroup:
    """`new_group` was called, after so many steps. `of_all`: every rank has to call it, whoever its members are."""

    step: int
    place: Location | None
    of_all: bool = True


@dataclass(frozen=True)
class Again:
    """A gradient that a wrapper had averaged over the ranks was given to `all_reduce`, after so many steps."""

    step: int
    place: Location | None


@dataclass(frozen=True)
class BetweenSteps:
    """What so many backwards between two steps found of gradients: those of the step before were `kept`; and how many
    found nothing more of what the one before, of the same place, had left."""

    kept: bool
    backwards: int
    lost: int
    place: Location | None


@dataclass(frozen=True)
class SteppedEarly:
    """An optimizer took a gradient that a `call`, begun at `place`, may still have been writing: nobody had waited."""

    call: str
    step: int
    place: Location | None


@dataclass(frozen=True)
class Fetch:
    """Something was asked for over the network, or a file was locked (`locks`)."""

    locks: bool
    at: float
    place: Location | None


@dataclass(frozen=True)
class RecordedOption:
    """What the option for the local rank said when training began; None where it was no number."""

    value: int | None
    place: Location | None


@dataclass(frozen=True)
class Compiled:
    """`torch.compile` was called here first."""

    place: Location | None


@dataclass(frozen=True)
class GatheredIntoOne:
    """A collective was given one tensor for what comes from each rank."""

    call: str
    place: Location | None


@dataclass(frozen=True)
class Loss:
    """What goes backward at a place: the operation that made it, how often it was looked at, and by which plain numbers
    it had been multiplied."""

    made_by: str
    count: int
    scales: tuple[float, ...]
    place: Location | None


@dataclass(frozen=True)
class Clip:
    """A function that cuts gradients was called here."""

    call: str
    place: Location | None
    sharded: bool = False
    """They are those of a model of which each rank holds a part, in tensors that do not know that."""


@dataclass(frozen=True)
class Sum:
    """A single number that the program had the ranks add up, by `all_reduce` or `reduce`; `dst` has the result of the
    latter. `before` and `after` are what this rank had in its tensor."""

    number: int
    call: str
    op: str
    dst: int | None
    step: int
    before: float
    after: float
    dropped: bool
    """The result went into a tensor that was gone at once."""
    place: Location | None


@dataclass(frozen=True)
class Result:
    """A number that the program read after `step`, and how it comes from a `Sum`: `result`, `mean` (divided by the
    number of ranks), `own` (what this rank had before) or `part` (of which the mean consists)."""

    step: int
    value: float
    sum: int
    relation: str


@dataclass(frozen=True)
class TensorRead:
    """A line that asks tensors for their numbers: how often, and after how many steps.

    `early` is a collective that was still writing the tensor, and that nobody had waited for."""

    device: str
    count: int
    steps: int
    results: tuple[Result, ...]
    early: str
    started: Location | None
    """Where that collective was started."""
    place: Location | None


@dataclass(frozen=True)
class Logger:
    """An experiment logger that the program opened. `mute` where it logs nothing, `meant` where what it was given says
    that there are to be several."""

    call: str
    given: tuple[str, ...]
    mute: bool
    meant: bool
    place: Location | None
