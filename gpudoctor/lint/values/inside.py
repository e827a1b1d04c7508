"""Events of what becomes of a model after it was made, and of what goes on inside it."""

from __future__ import annotations

from gpudoctor.lint.values.base import Value
from gpudoctor.lint.values.way import Event
from gpudoctor.record import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GradientFlag(Event):
    """The parameters of `module`, or those of them that a test picks, take a gradient from here on, or none. `on` is
    None where that is not known."""

    module: Value
    on: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class PartAdded(Event):
    """After some model was wrapped, a finished module takes in another `part`, or new parameters of its own (then
    `part` is the module itself). `replaced` where something stood under that name before."""

    parent: Value
    part: Value
    name: str = ""
    replaced: bool = False
    parameters: bool | None = None
    """The part has parameters; None where that is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartExchanged(Event):
    """A model that a library has built takes in another `part`, after a state was loaded into it."""

    parent: Value
    part: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsDrawn(Event):
    """After some model was wrapped, weights of `module` are drawn anew: `call` is what draws them."""

    module: Value
    call: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ConstantMixed(Event):
    """A tensor that the program made on the CPU meets one on a GPU, in an operation or a module (`by`)."""

    by: str
    constant: Value
    other: Value
    module: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossed(Event):
    """Tensors on two GPUs meet, in an operation or a module (`by`)."""

    by: str
    tensor: Value
    other: Value
    module: Value | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorKept(Event):
    """The constructor of a module keeps a tensor that it made on the CPU, or on one GPU, as a plain attribute."""

    module: Value
    name: str
    tensor: Value
    taken_along: bool = False
    """The class has a move of its own, which may take it along."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FixedMet(Event):
    """In the copies of a model that `wrapper` runs, a tensor that the program made on one GPU (`fixed`) meets what lies
    on the GPU of each copy."""

    by: str
    wrapper: Value
    fixed: Value
    other: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class UnusedPart(Event):
    """The `forward` of `module` never looks at its layer `part`, which has parameters or may have."""

    module: Value
    part: Value
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardTalks(Event):
    """The `forward` of `module` calls a collective: it brings the ranks together itself."""

    module: Value


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCut(Event):
    """Each rank takes its own rows of a batch of `loader`, of which all ranks have the whole."""

    loader: Value
