"""Training mode and evaluation mode."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.value import FALSE, TRUE, Value
from gpudoctor.manifest.compiled import prefixes

if TYPE_CHECKING:
    from gpudoctor.lint.library_call import LibraryContext

BEGIN_EVALUATING = (*prefixes("begins_evaluating"), "unknown")


def in_training_mode(do: LibraryContext, core: Value) -> bool | None:
    """Modules begin in training mode, except for those that Hugging Face loads."""
    mode = do.own_attribute(core, "training")
    if mode is None:
        loaded = isinstance(core, Module) and core.made_by.startswith(BEGIN_EVALUATING)
        return None if loaded or not isinstance(core, Module) else True
    return True if mode.single == TRUE else False if mode.single == FALSE else None
