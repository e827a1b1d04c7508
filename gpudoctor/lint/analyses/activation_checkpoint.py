"""Activation checkpointing: parts of a forward that run again in the backward."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.value import NONE, TRUE, Const, Value, Values
from gpudoctor.lint.events.training_step import Recompute
from gpudoctor.lint.library_call import MODELS, Call, singleton

if TYPE_CHECKING:
    from gpudoctor.lint.library_call import LibraryContext

LOOKING = Const("a look into forwards")
"""Holds the fact that forwards of the project are followed down to their parts, which otherwise count as one call."""
_NOTHING = "nothing of it is recomputed"
OPTIONS = frozenset({"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"})


def looks_inside(do: LibraryContext) -> bool:
    """Forwards are followed, to see what they do."""
    return do.fact(LOOKING, "on") is not None


def look_inside(call: Call, wrapper: Value, core: Value) -> None:
    """Log what a model recomputes in its forward, where its wrapper looks for unused parameters."""
    searching = isinstance(wrapper, Wrapper) and call.do.fact(wrapper, "searches") is not None
    # `model._set_static_graph()`: with it the first step tells which parameters are used.
    searching = searching and call.do.fact(wrapper, "static") is None
    # Without gradients nothing runs again, and what was once seen to run nothing again will not do so now.
    searching = searching and not call.do.evaluating and call.do.fact(core, _NOTHING) is None
    own = call.do.find_method(core, "forward") if searching and not looks_inside(call.do) else None
    if own is None:
        return

    def act() -> Values:
        call.do.set_fact(LOOKING, "on", singleton(TRUE))
        return call.do.call(own, call.arguments, call.node)

    found = call.do.run_speculatively(act)[1]
    if not any(isinstance(event, Recompute) for event in found):
        call.do.set_fact(core, _NOTHING, singleton(TRUE))
    for event in found:
        # What stands under a test that is not decided may be switched off.
        if isinstance(event, Recompute) and not event.condition.difference(call.do.path):
            call.do.emit(Recompute, at=event.location, reentrant=event.reentrant, module=wrapper)


@MODELS.method(Wrapper, "_set_static_graph")
def _set_static(call: Call) -> Values:
    assert call.receiver is not None
    call.do.set_fact(call.receiver, "static", singleton(TRUE))
    return singleton(NONE)


@MODELS.callable("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")
def _checkpoint(call: Call) -> Values:
    given = call.keywords.get("use_reentrant")
    # Left out, it is taken as True, with a warning.
    reentrant = given is None or given.single in (TRUE, NONE)
    unknown = given is not None and not isinstance(given.single, Const)
    call.emit(Recompute, reentrant=None if unknown or call.open_ended else reentrant)
    if call.name.endswith("_sequential") or not call.args:
        return MODELS.prefixes["torch."](call)
    keywords = {name: values for name, values in call.keywords.items() if name not in OPTIONS}
    return call.do.call(call.args[0], Arguments(call.args[1:], keywords, call.arguments.rest), call.node)
