"""Events of a training step: backward, gradients and their scale, the optimizer's step."""

from __future__ import annotations

from collections.abc import Hashable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.optim import Optimizer, Parameters, Scaler, Scheduler
from gpudoctor.lint.domain.tensor import Extent, Mark, MarkKind, Tensor
from gpudoctor.lint.domain.value import Unknown, Value
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.flow.condition import ALWAYS, Condition
from gpudoctor.record import dataclass


@dataclass(frozen=True, kw_only=True)
class Backward(Event):
    """`loss.backward()`, or a framework's form of it. `forwards` are the module calls in the graph of the loss;
    `complete` is false where something unknown is in that graph too."""

    loss: Tensor | Unknown
    forwards: frozenset[Hashable] = frozenset()
    complete: bool = True
    managed: str = ""
    scaler: Scaler | None = None
    """The gradient scaler that has scaled the loss."""
    plain: bool = False
    """It is `loss.backward()`, without arguments."""

    @property
    def of_each_gpu(self) -> bool:
        """Each GPU of `DataParallel` has a loss of its own, and what goes backward is all of them."""
        return self.loss.extent is Extent.EACH_GPU

    @property
    def cuts(self) -> list[Mark]:
        """Where something in the loss was gathered without its graph."""
        return [each for each in self.loss.shards if isinstance(each, Mark) and each.kind is MarkKind.WITHOUT_GRAPH]

    @property
    def uses_parameters(self) -> bool:
        """Parameters are in the loss that no forward has put there."""
        return bool(self.loss.used)


@dataclass(frozen=True, kw_only=True)
class OwnLoss(Event):
    """A trainer takes a `loss` that a method of the program has made, at `made_at`, without what the trainer had to say
    about it; the gradients of so many batches are `accumulated`. `counted`: the model takes the number of items of a
    whole step, so that the trainer leaves the division to the loss; in each version of the trainer where
    `in_all_versions`."""

    loss: Tensor | Unknown | None
    accumulated: int | None
    made_at: Location
    counted: bool
    in_all_versions: bool


@dataclass(frozen=True, kw_only=True)
class ScalerCall(Event):
    """A method of a gradient scaler: `scale`, `unscale_`, `step` or `update`, the middle two of an `optimizer`."""

    scaler: Scaler
    call: str
    optimizer: Optimizer | Wrapper | Unknown | None = None


@dataclass(frozen=True, kw_only=True)
class UnscaleGradients(Event):
    """A framework is asked to divide gradients by the scale that it has given the loss."""


@dataclass(frozen=True, kw_only=True)
class ClipGradients(Event):
    """Gradients are cut to a bound, by `call`. `modules` are those whose parameters are given, as in `Optimizer`."""

    call: str
    modules: frozenset[Module | Wrapper] = frozenset()
    by_norm: bool = True
    """By one norm of them all, and not one by one."""
    plain: bool = False
    """It is told whose gradients, and the bound, and nothing else."""
    of_all_shards: bool = False
    """The norm is that of the shards of all ranks together."""
    of_one_shard: bool = False
    """A framework that would see to that takes what it is given for something else than a whole model."""
    by: ManagedObject | Wrapper | None = None
    """What of a framework is asked to do it."""
    bound: float | None = None
    """A number that it surely is."""


@dataclass(frozen=True, kw_only=True)
class ScaleGradients(Event):
    """Gradients are multiplied or divided by hand."""


@dataclass(frozen=True, kw_only=True)
class TakeGradient(Event):
    """Gradients are asked for without being kept in parameters: `torch.autograd.grad`. Fields as in `Backward`."""

    forwards: frozenset[Hashable] = frozenset()
    complete: bool = True


@dataclass(frozen=True, kw_only=True)
class Recompute(Event):
    """A part of a forward is not kept for the backward but computed again: `torch.utils.checkpoint`.

    `reentrant` is None where that is not known; `module` is the wrapper of the model whose forward does it, where one
    looks for unused parameters."""

    reentrant: bool | None
    module: Wrapper | None = None


@dataclass(frozen=True, kw_only=True)
class GradientSync(Event):
    """The program says itself in which steps gradients are averaged over ranks: `no_sync`, `accumulate`. `target` is
    the wrapper, the model that `fully_shard` has sharded in place, or the framework."""

    target: Module | Wrapper | ManagedObject
    call: str
    never: bool = False
    """They surely are not averaged from here on: `model.require_backward_grad_sync = False`."""


@dataclass(frozen=True, kw_only=True)
class GradientsSwitched(Event):
    """`torch.set_grad_enabled`, which may be a `with` or hold from here on, or `torch.no_grad()(function)`. `on` is
    None where it is not known."""

    on: bool | None


@dataclass(frozen=True, kw_only=True)
class GroupAdded(Event):
    """`optimizer.add_param_group(...)`: it steps the parameters of these modules, too, if those are all."""

    optimizer: Optimizer
    modules: frozenset[Value]
    complete: bool


@dataclass(frozen=True, kw_only=True)
class MakeOptimizer(Event):
    """An optimizer is made."""

    optimizer: Optimizer
    rate_by_size: bool = False
    """Its learning rate is computed from how many there are of something: ranks, GPUs, nodes."""
    rate_of_own: bool = False
    """Its learning rate was chosen by what this rank alone has seen."""


@dataclass(frozen=True, kw_only=True)
class OptimizerStep(Event):
    """`optimizer.step()`, also through a scaler or a framework."""

    optimizer: Optimizer | Wrapper | Unknown
    through: str = ""

    @property
    def averages(self) -> bool:
        """The optimizer averages the gradients over all ranks before it steps, as Horovod's does."""
        return isinstance(self.optimizer, Optimizer) and self.optimizer.averaging


@dataclass(frozen=True, kw_only=True)
class EngineStep(Event):
    """An engine counts a batch, and steps its optimizer where enough of them have come."""

    engine: Wrapper


@dataclass(frozen=True, kw_only=True)
class SchedulerStep(Event):
    """`scheduler.step()`, or `scheduler.step(loss)` of what was computed from these `shards`."""

    scheduler: Scheduler
    shards: frozenset[Loader | Mark] = frozenset()


@dataclass(frozen=True, kw_only=True)
class ClearGradients(Event):
    """`optimizer.zero_grad()`, `model.zero_grad()` or `p.grad = None`."""

    target: Module | Wrapper | Optimizer | Parameters | Tensor | Unknown
    named: bool = False
    """Only that of the parameters whose name passed a test."""


@dataclass(frozen=True, kw_only=True)
class Accumulated(Event):
    """A tensor that carries a graph is added to, or kept in, something.

    `held` are the module calls in all the graphs that are kept there after it: where some are of an earlier round of
    a loop, the graphs of the rounds add up.
    """

    tensor: Tensor
    into: str
    held: frozenset[Hashable] = frozenset()
    where: Condition = ALWAYS
    """Under which tests what was kept there before is there still: a list is emptied where the others come out so."""
