"""Optimizers, schedulers and scalers."""

from __future__ import annotations

from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.function import Class
from gpudoctor.lint.domain.value import FALSE, Allocated, Value, Values
from gpudoctor.record import dataclass


@dataclass(frozen=True, eq=False, repr=False)
class Parameters(Allocated):
    """`model.parameters()` and what is made from it: the modules whose parameters it holds.

    `complete` is false where something unknown may be among them.
    """

    modules: frozenset[Value]
    complete: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class Optimizer(Allocated):
    """An optimizer and the modules (cores or wrappers, as written) whose parameters it steps."""

    is_choice = True

    made_by: str
    modules: frozenset[Value] = frozenset()
    complete: bool = True
    managed: str = ""
    averaging: bool = False
    """It is what Horovod returns for it, which averages the gradients before it steps."""
    cls: Class | None = None
    """The project's class where it is one of those."""
    class_name = "torch.optim.Optimizer"


@dataclass(frozen=True, eq=False, repr=False)
class Scheduler(Allocated):
    """A learning rate scheduler."""

    is_choice = True

    made_by: str
    optimizer: Value | None = None
    given: Arguments = NO_ARGUMENTS
    """What it was made with, the optimizer among it."""
    rates: tuple[Value, ...] = ()
    """What the functions among that make of a number of steps."""
    class_name = "torch.optim.lr_scheduler.LRScheduler"

    @property
    def made_with(self) -> list[Value]:
        """What its rates are computed from."""
        return [*self.given.values(), *self.rates]


@dataclass(frozen=True, eq=False, repr=False)
class Scaler(Allocated):
    """A gradient scaler. `enabled` as given, None where it was left out."""

    enabled: Values | None = None
    class_name = "torch.amp.GradScaler"

    @property
    def is_off(self) -> bool:
        """It surely does nothing: `enabled=False`."""
        return self.enabled is not None and self.enabled.single == FALSE
