"""DeepSpeed's engine: how it was configured, and which events are its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.domain.module import Wrapper, chain_of
from gpudoctor.lint.domain.symbols import MethodResult
from gpudoctor.lint.domain.value import Unknown
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor_rules.frameworks._charge import DEEPSPEED

if TYPE_CHECKING:
    from gpudoctor.api.pack import Program, Value

STEPS = "gradient_accumulation_steps"


def made_at(program: Program, engine: Value) -> UseManaged | None:
    """Where the engine was made, with its configuration."""
    found = {each.place for each in chain_of(engine)}
    charges = (each for each in program.events(UseManaged) if each.framework == DEEPSPEED)
    return next((each for each in charges if each.location in found), None)


def asks_engine(number: Value) -> bool:
    """`engine.gradient_accumulation_steps()`."""
    match number:
        case Unknown(term=MethodResult(of=Wrapper(), method=method)):
            return method == STEPS
    return False
