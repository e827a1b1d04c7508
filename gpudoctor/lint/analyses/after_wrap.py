"""What is done to models after one was wrapped or given to an optimizer: parts that join it, weights drawn anew."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.lint.analyses.freezing import is_frozen
from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ModuleState, ProcessState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.module import Module, Wrapper, any_part
from gpudoctor.lint.domain.tensor import TensorOrigin
from gpudoctor.lint.domain.value import NONE, Value, Values
from gpudoctor.lint.events.model import GradientFlag, PartAdded, PartExchanged, WeightsDrawn
from gpudoctor.lint.interface.library_call import MODELS, Call, LibraryContext, singleton
from gpudoctor.manifest.effects import DrawEffect


def watch_models(do: LibraryContext) -> None:
    """A model is wrapped, or given to an optimizer: from here on it counts what becomes of models."""
    do.set_flag(PROCESS, ProcessState.models_watched)


def are_watched(do: LibraryContext) -> bool:
    """Some model may have been wrapped, or given to an optimizer. Until then, building models is nothing to log."""
    return do.flag(PROCESS, ProcessState.models_watched) is not NO


def is_trainable(do: LibraryContext, module: Module | Wrapper) -> bool | None:
    """Whether a wrapper finds a parameter that takes a gradient; None where that is not known."""
    # A wrapper around a wrapper asks the same parameters.
    core = module.core
    if is_frozen(do, core):
        return False if do.flag(core, ModuleState.taken_apart) is NO else None
    # A loss has no weights: nothing but its own constructor could give it any.
    is_loss = core.cls is None and core.parameters is False
    return False if is_loss and do.parts.get(core) is None else None


def part_added(
    do: LibraryContext, parent: Value, part: Value, name: str, parameters: bool | None, place: Location
) -> None:
    """A module takes in another one, or parameters of its own, which matters where it is wrapped already."""
    core = parent.core
    # `resnet.fc = nn.Linear(n, classes)`: what was loaded before is not what this program saves.
    if isinstance(core, Module) and core.cls is None and do.flag(core, ModuleState.restored) is not NO:
        do.emit(PartExchanged, at=place, parent=core, part=part)
    if not are_watched(do):
        return
    # `model.head = model.head.cuda()` puts back what was there.
    if part.core in do.parts.get(core, ()):
        return
    # While its own constructor runs, nobody has wrapped it.
    if isinstance(core, Module) and (core.cls is None or do.flag(core, ModuleState.constructed) is not NO):
        # A norm of the weight takes the place of the weight.
        # `self.extra = None` keeps a place; only a layer that goes leaves parameters behind.
        before = do.own_attribute(core, name)
        replaced = name == "weight" or (before is not None and before.has(Module))
        do.emit(
            PartAdded, at=place, parent=core, part=part, name=name, replaced=replaced, parameters=parameters,
            fresh=_below(do, part.core).isdisjoint(_below(do, core)),
        )  # fmt: skip


def _below(do: LibraryContext, module: Value) -> set[Value]:
    """A module and the parts of it, those of parts included."""
    found, waiting = {module}, [module]
    while waiting:
        more = do.parts.get(waiting.pop(), set()) - found
        found |= more
        waiting += more
    return found


@MODELS.callable("torch.nn.init.*")
def _draw(call: Call) -> Values:
    """`nn.init.normal_(p)`: the same tensor with other numbers."""
    # Constants are the same on all ranks, whoever writes them.
    drawn = call.effect(DrawEffect) if are_watched(call.do) else None
    for value in (call.given(drawn.fills) or ()) if drawn is not None else ():
        owner = _owner(value)
        if owner is not None:
            call.emit(WeightsDrawn, module=owner, call=call.name.rpartition(".")[2])
    return MODELS.prefixes["torch."](call)


def _owner(value: Value) -> Value | None:
    """The module whose parameter this is."""
    if value.origin is TensorOrigin.PARAMETER:
        return value.batch_of or min(value.used, key=lambda each: each.place, default=None)  # type: ignore[arg-type, return-value]
    return None


def note_applied(call: Call, module: Module | Wrapper) -> None:
    """`model.apply(init_weights)` does to each part what the function does to one."""
    function = call.arg(0, "fn")
    if function is None or not are_watched(call.do):
        return
    # Tests of its kind are open then, and both sides are followed.
    part = any_part(module)
    with call.do.execution.speculative() as run:
        call.do.call(function, Arguments((singleton(part),)), call.node)
    drawn = next((event for event in run.events if isinstance(event, WeightsDrawn)), None)
    if drawn is not None:
        call.emit(WeightsDrawn, module=module, call=drawn.call)
    call.do.parts.setdefault(module.core, set()).add(part)
    for event in run.events:
        if isinstance(event, GradientFlag):
            call.do.execution.replay_event(event)


@MODELS.callable(
    "torch.nn.utils.weight_norm", "torch.nn.utils.spectral_norm", "torch.nn.utils.remove_weight_norm",
    "torch.nn.utils.parametrizations.weight_norm", "torch.nn.utils.parametrizations.spectral_norm",
)  # fmt: skip
def _normalised(call: Call) -> Values:
    """The same layer; a spectral norm keeps its vectors as buffers."""
    for value in call.args[0] if call.args else ():
        if "spectral" in call.name and isinstance(value, Module):
            call.do.set_flag(value, ModuleState.own_buffers)
        # The weight is computed from new parameters from here on.
        part_added(call.do, value, value, "weight", True, call.place)
    return call.args[0] if call.args else singleton(NONE)
