"""Which models ask for no gradient: a frozen one builds no graph of its own."""

from __future__ import annotations

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import YES, ModuleState, TensorState
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import FALSE, TRUE, Value, Values
from gpudoctor.lint.events.model import GradientFlag, WeightsSet
from gpudoctor.lint.interface.library_call import MODELS, Call, LibraryContext, singleton


def is_frozen(do: LibraryContext, module: Value) -> bool:
    """All parameters of a module were told to take no gradient, on every path that leads here."""
    return do.flag(module.core, ModuleState.frozen) is YES


def freeze(do: LibraryContext, module: Value, frozen: bool) -> None:
    """The parameters of a module take a gradient or none from here on."""
    core = module.core
    do.set_flag(core, ModuleState.frozen, frozen)
    if not frozen:
        for parent, parts in list(do.parts.items()):
            if core in parts and is_frozen(do, parent):
                freeze(do, parent, False)


def take_apart(do: LibraryContext, module: Value) -> None:
    """Parts that are not followed are taken out of a module: a frozen one may learn again by way of them."""
    # Of a model that learns anyway nothing changes.
    if is_frozen(do, module):
        do.set_flag(module.core, ModuleState.taken_apart)


@MODELS.method((Module, Wrapper), "requires_grad_")
def _of_module(call: Call[Module | Wrapper]) -> Values:
    _told(call.do, call.receiver, call.arg(0, "requires_grad") or singleton(TRUE), call.place)
    return singleton(call.receiver)


@MODELS.method(Tensor, "requires_grad_")
def _of_tensor(call: Call[Tensor]) -> Values:
    tensor = call.receiver
    _assigned(call.do, tensor, "requires_grad", call.arg(0, "requires_grad") or singleton(TRUE), call.place)
    return singleton(tensor)


@MODELS.setter(Tensor)
def _assigned(do: LibraryContext, tensor: Tensor, name: str, values: Values, place: Location) -> None:
    """`p.requires_grad = False`, in a loop over the parameters of a module."""
    if name == "requires_grad" and tensor.origin is TensorOrigin.PARAMETER:
        do.set_flag(tensor, TensorState.gradient_chosen)
        if tensor.batch_of is not None:
            _told(do, tensor.batch_of, values, place)
        # `norm.weight`: the other parameters of the layer stay as they are.
        for layer in tensor.used if tensor.batch_of is None else ():
            _told(do, layer, values, place, whole=False)
    # `p.data = p.data.unsqueeze(0)`
    elif name == "data":
        for layer in tensor.used if tensor.batch_of is None else (tensor.batch_of.core,):
            do.set_flag(layer, ModuleState.data_exchanged)
        if tensor.batch_of is not None:
            do.emit(WeightsSet, at=place, module=tensor.batch_of)


def _told(do: LibraryContext, module: Value, values: Values, place: Location, whole: bool = True) -> None:
    # `p.requires_grad = "head" in name` depends on the parameter.
    on = None if values.single not in (TRUE, FALSE) else values.single == TRUE
    # A value that is not known may leave some of them with a gradient.
    if whole or on is not False:
        freeze(do, module, on is False)
    do.emit(GradientFlag, at=place, module=module, on=on)


def parameter_of(call: Call, module: Module) -> Tensor:
    """The weight or the bias of a layer, the same one each time."""
    key = ("parameter", module.identity, call.name)
    return Tensor(key, call.place, call.label, TensorOrigin.PARAMETER, graph=True, used=frozenset([module]))
