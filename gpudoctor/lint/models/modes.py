"""Training mode and evaluation mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.values.base import FALSE, TRUE, Value
from gpudoctor.lint.values.module import Module

if TYPE_CHECKING:
    from gpudoctor.lint.models.api import Interpreter

BEGIN_EVALUATING = ("transformers.", "diffusers.", "peft.", "unknown")


def in_training_mode(do: Interpreter, core: Value) -> bool | None:
    """Modules begin in training mode, except for those that Hugging Face loads."""
    mode = do.own_attribute(core, "training")
    if mode is None:
        loaded = isinstance(core, Module) and core.made_by.startswith(BEGIN_EVALUATING)
        return None if loaded or not isinstance(core, Module) else True
    return True if mode.only == TRUE else False if mode.only == FALSE else None
