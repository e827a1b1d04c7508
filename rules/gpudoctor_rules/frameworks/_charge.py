"""Which object of a framework has what under its care, and with which settings it was made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.value import Const
from gpudoctor.lint.events.knowledge import Prepare, UseManaged

if TYPE_CHECKING:
    from gpudoctor.lint.domain.group import ManagedObject
    from gpudoctor.lint.domain.value import Value, Values
    from gpudoctor.lint.events.training_step import Backward
    from gpudoctor.lint.program import Program

ACCELERATE, LIGHTNING = "accelerate", "lightning"


def taken_in_charge(program: Program, managed: ManagedObject) -> UseManaged | None:
    """Where this object was made, with its settings."""
    return next((each for each in program.events(UseManaged) if each.made == managed), None)


def preparing(program: Program, model: Value) -> Prepare | None:
    """Where a framework made this wrapper, or one that lies in it."""
    chain = model.chain if isinstance(model, Wrapper) else ()
    return next((each for each in program.events(Prepare) if each.made in chain), None)


def prepared_for(program: Program, backward: Backward) -> Prepare | None:
    """Where a model was prepared through which these gradients flow."""
    found = (preparing(program, call.module) for call in program.calls_in_graph(backward))
    return next((each for each in found if each is not None), None)


def constant(values: Values | None) -> object:
    """The constant that a setting surely is; None where it was left out or is not known."""
    only = values.single if values is not None else None
    return only.value if isinstance(only, Const) else None
