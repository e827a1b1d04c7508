"""Activation checkpointing: parts of a forward that run again in the backward."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ModuleState, ProcessState, WrapperState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.symbols import Attribute, IsTrue
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import NONE, TRUE, Const, Unknown, Values
from gpudoctor.lint.events.training_step import Recompute
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.interface.contents import find_method
from gpudoctor.lint.interface.library_call import MODELS, Call, LibraryContext, singleton

OPTIONS = frozenset({"use_reentrant", "preserve_rng_state", "context_fn", "determinism_check", "debug", "early_stop"})


def looks_inside(do: LibraryContext) -> bool:
    """Forwards are followed, to see what they do."""
    return do.flag(PROCESS, ProcessState.looks_inside) is not NO


def look_inside(call: Call, wrapper: Module | Wrapper, core: Module) -> None:
    """Log what a model recomputes in its forward, where its wrapper looks for unused parameters."""
    if not isinstance(wrapper, Wrapper):
        return
    searching = call.do.flag(wrapper, WrapperState.finds_unused) is not NO
    # `model._set_static_graph()`: with it the first step tells which parameters are used.
    searching = searching and call.do.flag(wrapper, WrapperState.static_graph) is NO
    # Without gradients nothing runs again, and what was once seen to run nothing again will not do so now.
    searching = searching and not call.do.evaluating and call.do.flag(core, ModuleState.recomputes_nothing) is NO
    own = find_method(call.do, core, "forward") if searching and not looks_inside(call.do) else None
    if own is None:
        return
    with call.do.execution.speculative() as run:
        call.do.set_flag(PROCESS, ProcessState.looks_inside)
        call.do.call(own, call.arguments, call.node)
    if not any(isinstance(event, Recompute) for event in run.events):
        call.do.set_flag(core, ModuleState.recomputes_nothing)
    for event in run.events:
        # What stands under a test that is not decided may be switched off, but for `if self.training`.
        left = event.condition.difference(call.do.path)
        if isinstance(event, Recompute) and all(map(_holds_in_training, left)):
            call.do.emit(Recompute, at=event.location, reentrant=event.reentrant, module=wrapper)


def _holds_in_training(test: Literal) -> bool:
    match test.atom.key:
        case IsTrue(Unknown(Attribute(Module(), "training"))):
            return test.holds
    return False


def _is_without_graph(given: Sequence[Values]) -> bool:
    """Of batches alone the reentrant form makes no graph at all: nothing is computed again."""
    tensors = [value for values in given for value in values if isinstance(value, Tensor)]
    return bool(tensors) and all(each.origin is TensorOrigin.BATCH and not each.forwards for each in tensors)


@MODELS.method(Wrapper, "_set_static_graph")
def _set_static(call: Call[Wrapper]) -> Values:
    call.do.set_flag(call.receiver, WrapperState.static_graph)
    return singleton(NONE)


@MODELS.callable("torch.utils.checkpoint.checkpoint", "torch.utils.checkpoint.checkpoint_sequential")
def _checkpoint(call: Call) -> Values:
    given = call.keywords.get("use_reentrant")
    # Left out, it is taken as True, with a warning.
    reentrant = given is None or given.single in (TRUE, NONE)
    unknown = given is not None and not isinstance(given.single, Const)
    unknown = unknown or call.open_ended or _is_without_graph(call.args[1:])
    call.emit(Recompute, reentrant=None if unknown else reentrant)
    if call.name.endswith("_sequential") or not call.args:
        return MODELS.prefixes["torch."](call)
    keywords = {name: values for name, values in call.keywords.items() if name not in OPTIONS}
    return call.do.call(call.args[0], Arguments(call.args[1:], keywords, call.arguments.rest), call.node)
