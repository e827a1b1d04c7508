"""What the rules about changes after a wrap ask: which wrapper a change concerns, and whether that is trained later."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.training_step import Backward

if TYPE_CHECKING:
    from gpudoctor.lint.domain.value import Value
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.program import Program


def ddp_around(program: Program, module: Value, event: Event) -> Wrap | None:
    """The last wrap in `DistributedDataParallel` before an event of a model that has this module in it."""
    core = module.core
    # `replicate` hooks a module that stays what it is: what it makes of later changes was not looked at.
    wraps = [
        wrap
        for wrap in program.events(Wrap)
        if wrap.kind is WrapperKind.DDP and isinstance(wrap.wrapper, Wrapper) and wrap.order < event.order
    ]
    # On a path where there is no wrapper, nothing is late.
    around = (wrap for wrap in reversed(wraps) if not wrap.condition.excludes(event.condition))
    return next((wrap for wrap in around if core in program.within(wrap.inner)), None)


def trained_after(program: Program, wrap: Wrap, event: Event) -> Forward | None:
    """The first call of the wrapper after an event through which gradients flow; None where it is wrapped anew first,
    or never trained again."""
    # Evaluation may call the wrapper as well; what counts is a call that is differentiated.
    used = {identity for backward in program.events(Backward) for identity in backward.forwards}
    core = wrap.inner.core
    # The first one that happens decides: a call that is too late, or a wrap that is in time.
    for call in program.events(Forward, Wrap):
        if call.order <= event.order or call.condition.excludes(event.condition):
            continue
        if isinstance(call, Wrap) and call.inner.core == core:
            return None
        if isinstance(call, Forward) and _calls(call, core) and call.graph and call.identity in used:
            return call
    return None


def _calls(call: Forward, core: Value) -> bool:
    """The wrapper is called: what goes past it is averaged by nobody anyway."""
    module = call.module
    return module.wrapped_by(WrapperKind.DDP) and module.core == core
