"""What the rules about changes after a wrap ask: which wrapper a change concerns, and whether that is trained later."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.module import Wrapper, WrapperKind
from gpudoctor.lint.domain.value import Value
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.repair.snippets import own
from gpudoctor.rule import Program


def ddp_around(program: Program, module: Value, event: Event) -> Wrap | None:
    """The last wrap in `DistributedDataParallel` before an event of a model that has this module in it."""
    core = module.core
    # `replicate` hooks a module that stays what it is: what it makes of later changes was not looked at.
    wraps = [
        wrap
        for wrap in program.events(Wrap)
        if wrap.is_ddp and isinstance(wrap.wrapper, Wrapper) and wrap.order < event.order
    ]
    # On a path where there is no wrapper, nothing is late.
    around = (wrap for wrap in reversed(wraps) if not wrap.condition.excludes(event.condition))
    return next((wrap for wrap in around if core in program.within(wrap.inner)), None)


def before_wrap(program: Program, wrap: Wrap) -> str:
    """Where the model can still be changed; empty where that is just before the line that wraps it."""
    return own(program, "wraps_behind") if wrap.handed_to == "" else ""


def how_to_search(program: Program, wrap: Wrap) -> str:
    """What has the wrapper look for parameters that a step leaves out."""
    framework = own(program, "searches_by") if wrap.handed_to is not None else ""
    return framework or "give the wrapper `find_unused_parameters=True`"


def trained_after(program: Program, wrap: Wrap, event: Event) -> Forward | None:
    """The first call of the wrapper after an event through which gradients flow; None where it is wrapped anew first,
    or never trained again."""
    # Evaluation may call the wrapper as well; what counts is a call that is differentiated.
    used = {identity for backward in program.events(Backward) for identity in backward.forwards}
    core = wrap.inner.core
    anew = _wrapped_anew(program, core, event)
    # The first one that happens decides: a call that is too late, or a wrap that is in time.
    for call in program.events(Forward):
        if call.order <= event.order or call.condition.excludes(event.condition):
            continue
        if _calls(call, core) and call.graph and call.identity in used:
            path = call.condition.and_(event.condition)
            if not any(order < call.order and path.implies(condition) for order, condition in anew):
                return call
    return None


def _wrapped_anew(program: Program, core: Value, event: Event) -> list[tuple[int, Condition]]:
    """Where the module is wrapped once more after an event, from when on, and in which case: what it is by then may
    differ, which is no case of its own."""
    found: dict[Location, tuple[int, Condition]] = {}
    for wrap in program.events(Wrap):
        if wrap.order > event.order and wrap.inner.core == core and not wrap.condition.excludes(event.condition):
            order, condition = found.get(wrap.location, (wrap.order, wrap.condition))
            found[wrap.location] = order, condition.intersection(wrap.condition)
    return list(found.values())


def _calls(call: Forward, core: Value) -> bool:
    """The wrapper is called: what goes past it is averaged by nobody anyway."""
    module = call.module
    return module.wrapped_by(WrapperKind.DDP) and module.core == core
