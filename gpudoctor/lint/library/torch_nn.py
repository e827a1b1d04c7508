"""Modules: layers, containers, moves, modes and what hangs on a module. Their calls stand in `forwards`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TypeGuard

from gpudoctor.diagnostic import Location
from gpudoctor.lint.analyses.after_wrap import note_applied, part_added
from gpudoctor.lint.analyses.data_parallel_replicas import note_written
from gpudoctor.lint.analyses.forward_body import as_buffer, note_kept
from gpudoctor.lint.analyses.freezing import freeze, is_frozen, parameter_of, take_apart
from gpudoctor.lint.analyses.state_dicts import note_gathered
from gpudoctor.lint.domain.abstract_state import NO, YES, ContainerState, ModuleState, ObjectState, TensorState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf, items_held
from gpudoctor.lint.domain.device import CPU
from gpudoctor.lint.domain.function import BoundMethod, Method
from gpudoctor.lint.domain.heuristics import NORMALISED
from gpudoctor.lint.domain.module import InnerModules, Module, StateDict, Wrapper, any_part
from gpudoctor.lint.domain.optim import Parameters
from gpudoctor.lint.domain.provenance import whole_of
from gpudoctor.lint.domain.symbols import Attribute, MethodResult, ParameterName
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    TRUE,
    Anonymous,
    Const,
    Unknown,
    Value,
    Values,
    constant_of,
    single_of,
    text_of,
)
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.model import ModeChange, ModuleClassFlaw, PartsNamed
from gpudoctor.lint.events.placement import Move
from gpudoctor.lint.flow.valueset import ValueSet, union
from gpudoctor.lint.interface.contents import find_method, new_list, possible_pairs
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, always, flatten, singleton
from gpudoctor.lint.library.class_kinds import LOSSES, is_no_module, is_sketch, is_tool
from gpudoctor.lint.library.devices import default_device, made_on, moved_by_type, moved_to, named_dtype, use
from gpudoctor.lint.library.library_names import is_harmless
from gpudoctor.lint.library.tensors import made
from gpudoctor.lint.library.wrapper_names import INNER_MODULES, MODULE_API, every_module_has
from gpudoctor.manifest.compiled import layers
from gpudoctor.record import replace

_WITH_WEIGHTS = layers("weights")
_BY_NAME = "torch.nn.ModuleDict"
_DEVICE_DEPTH = 5
"""Parts of parts whose device is looked at."""


@MODELS.callable(
    "torch.nn.*", "torchvision.models.*", "timm.*", "segmentation_models_pytorch.*", "monai.networks.*",
    "monai.losses.*",
)  # fmt: skip
def _layer(call: Call) -> Values:
    """A layer of torch.nn, or a ready model of a library."""
    if is_tool(call.name):
        return NOT_ANSWERED
    last = call.name.rpartition(".")[2]
    if call.name.startswith("torch.nn.") and (
        # `torch.nn.functional` and `init` are operations: no object with state comes back.
        not last[:1].isupper() or call.name.startswith(("torch.nn.utils", "torch.nn.init"))
    ):
        return MODELS.prefixes["torch."](call)
    if call.name.startswith("torch.nn.Parameter") or last == "Parameter":
        # A parameter lies where its data was made; `nn.Parameter()` without data is an empty CPU tensor.
        source = call.one(0, "data", Tensor)
        device = source.device if source is not None else CPU if not call.args else None
        learns = call.arg(1, "requires_grad")
        graph = None if learns is not None and learns.single != TRUE else True
        extent = source.extent if source is not None else None
        origin = TensorOrigin.PARAMETER
        return singleton(made(call.do, call.place, call.label, origin, device=device, graph=graph, extent=extent))
    given = parts_given(call)
    if last in layers("holds"):
        given = [part_of(call.do, whole) if (whole := whole_of(value)) is not None else value for value in given]
    children = [value for value in given if value.is_model]
    # An average of a model's weights is a copy: what happens to it happens to no layer of the model.
    children = [] if last.startswith("ModelEma") else children
    # Models of torchvision and timm hold layers that we never see, buffers perhaps among them.
    ready = not call.name.startswith(("torch.nn.", *LOSSES))
    if ready and last in (
        "list_models",
        "get_model_weights",
        "create_transform",
        "resolve_data_config",
        "Mixup",
        "get_weight",
    ):
        return singleton(call.result())
    module = new_module(call, call.name, list(children), ready)
    if call.name == _BY_NAME:
        for key, part in possible_pairs(call.do, single_of(call.arg(0, "modules")) or NONE):
            if (name := text_of(key.single)) is not None:
                call.do.set_own_attribute(module, name, part)
    if "reduction" in call.keywords:
        call.do.set_state(module, ModuleState.reduction, call.keywords["reduction"])
    return singleton(module)


def parts_given(call: Call) -> list[Value]:
    """What the constructor of a container is given to hold, and whatever else it is given."""
    given = call.values_and_rest()
    # `ModuleDict({name: Block() for name in names})`: however many there are, they are of this kind.
    more = [call.do.state(v, ContainerState.more) for v in given if isinstance(v, DictOf)]
    inside = [value for values in more if values is not None for value in values]
    return flatten(call.do, [*given, *inside])


def _has_running_statistics(made_by: str) -> bool:
    """A ready model of torchvision that surely has layers of batch normalisation, unless it is given another kind."""
    # Those of `detection` are made with frozen ones.
    return made_by.startswith("torchvision.models.") and ".detection." not in made_by and NORMALISED.fits(made_by)


def _has_random_weights(call: Call) -> bool:
    """A model of torchvision that is not told of any weights."""
    told = (call.keywords.get(name) for name in ("weights", "pretrained", "weights_backbone", "pretrained_backbone"))
    plain = call.name.startswith("torchvision.models.") and not call.args and not call.open_ended
    return plain and all(each is None or each.single in (NONE, FALSE) for each in told)


def new_module(call: Call, made_by: str, children: list[Value], ready: bool) -> Module:
    """A module of a library, on the CPU unless it is told where."""
    last = made_by.rpartition(".")[2]
    parameters: bool | None = bool(ready or last in _WITH_WEIGHTS)
    normalised = _has_running_statistics(made_by) and "norm_layer" not in call.keywords and not call.open_ended
    buffers: bool | None = (normalised or None) if ready else last in layers("buffers")
    exact = False
    if last in layers("holds"):
        # A container has what its parts have, those included that join it later.
        parameters = buffers = None
        # `Sequential(*[Block() for _ in range(depth)])`: however many there are, they are of this kind.
        rest = flatten(call.do, [value for values in call.rest for value in values])
        seen = all(v.is_model for v in rest) if rest else not call.open_ended
        exact = seen and not any(isinstance(v, Unknown) for v in flatten(call.do, call.all_values()))
    module = Module(
        call.allocation_site(),
        call.place,
        call.label,
        made_by=made_by,
        parameters=parameters,
        buffers=buffers,
        exact=exact,
        random=made_by.startswith("torch.nn.") or _has_random_weights(call),
    )
    call.do.set_state(module, ModuleState.device, made_on(call))
    for child in children:
        adopt(call.do, module, child)
    return module


def adopt(do: LibraryContext, parent: Value, child: Value) -> None:
    """A module becomes part of another one."""
    note_used(do, child)
    do.parts.setdefault(parent, set()).add(child.core)
    # A new head on a frozen model learns.
    if is_frozen(do, parent) and not is_frozen(do, child):
        freeze(do, parent, False)
    # Where a branch has added a layer, there are two lists: the next layer joins what either of them holds.
    known = children_of(do, parent)
    if child not in known and len(known) < 64:
        do.set_state(parent, ModuleState.children, singleton(TupleOf(tuple(map(singleton, [*known, child])))))


def part_of(do: LibraryContext, whole: Module | Wrapper) -> Module:
    """Any part of a module, whichever it is."""
    part = any_part(whole)
    do.parts.setdefault(whole.core, set()).add(part)
    return part


def take_in(do: LibraryContext, parent: Value, value: Value) -> None:
    """Something is given to a module: one more part, or what may be one."""
    if value.is_model:
        adopt(do, parent, value)
    elif isinstance(value, Unknown) and _may_be_module(value):
        do.set_flag(parent, ModuleState.unseen_part)
        # A new head, of code that is not read, learns.
        if is_frozen(do, parent):
            freeze(do, parent, False)


def _may_be_module(value: Unknown) -> bool:
    """What code that is not read has made: neither a setting nor a number of the program's own."""
    made_by = value.escaped_from
    unread = bool(made_by or "callable" in value.why) and not is_harmless(made_by)
    return unread and not value.config and not is_no_module(made_by)


def children_of(do: LibraryContext, module: Value) -> list[Value]:
    """The modules that a module was seen to take in."""
    found = do.state(module, ModuleState.children)
    # Most modules are layers, and each of them is asked on every way to them.
    return [] if found is None else _held_in(found)


def _held_in(found: Values) -> list[Value]:
    """What lists of children hold."""
    lists = [held for held in found if isinstance(held, TupleOf)]
    children = [each.value for held in lists for item in held.items for each in item.bindings]
    # One list has each of them once.
    return children if len(lists) == 1 else list(dict.fromkeys(children))


def learns_itself(do: LibraryContext, core: Module) -> bool:
    """It surely has parameters that take a gradient, apart from its parts: a layer has, and a class may assign some."""
    if core.parameters is not None or _derives_from(core, _WITH_WEIGHTS):
        return core.parameters is not False
    learnt = (item.single for item in items_held(do.state(core, ModuleState.learnt)))
    return any(isinstance(each, Tensor) and do.flag(each, TensorState.gradient_chosen) is NO for each in learnt)


def has_parameters(do: LibraryContext, value: Value, above: frozenset[Value] = frozenset()) -> bool | None:
    """Whether a module has parameters, apart from those that it is a part of; None where that is not known."""
    core = value.core
    if not isinstance(core, Module):
        return None
    if core.parameters is not None:
        return core.parameters
    if core.members:
        return _common(has_parameters(do, each, above) for each in core.members)
    # `nn.Parameter` set on the module itself counts, as in class tokens and learned positions.
    if do.flag(core, ModuleState.own_parameters) is not NO or _derives_from(core, _WITH_WEIGHTS):
        return True
    surely_not = True
    children = children_of(do, core)
    above = above | {core} if children else above
    for child in children:
        answer = has_parameters(do, child, above) if child.core not in above else False
        if answer:
            return True
        surely_not = surely_not and answer is not None
    return False if surely_not and not _has_unseen(do, core) else None


def _has_unseen(do: LibraryContext, core: Module) -> bool:
    """There may be parts of the module that were not seen."""
    return not core.exact or _foreign_base(core) or do.flag(core, ModuleState.unseen_part) is not NO


def _foreign_base(core: Module) -> bool:
    # A base such as `LightningModule` brings no layers; `PreTrainedModel` brings all of them. `class Linear(nn.Linear)`
    # has what the layer has.
    known = _WITH_WEIGHTS | layers("buffers")
    return any(not name.endswith("Module") and _layer_named(name) not in known for name in _library_bases(core))


def _derives_from(core: Module, kinds: frozenset[str]) -> bool:
    """A class of the project whose base is one of these layers."""
    return any(_layer_named(name) in kinds for name in _library_bases(core))


def _library_bases(core: Module) -> frozenset[str]:
    bases: frozenset[str] = getattr(core.cls, "library_bases", frozenset())
    return bases


def _layer_named(name: str) -> str:
    """`Linear` of `torch.nn.Linear` and `torch.nn.modules.linear.Linear`; not that of `torch.nn.quantized`."""
    package, _, last = name.rpartition(".")
    return last if package == "torch.nn" or package.startswith("torch.nn.modules") else ""


def _common(answers: Iterable[bool | None]) -> bool | None:
    """What is so of each of several modules; None where they differ."""
    found = set(answers)
    return found.pop() if len(found) == 1 else None


def has_buffers(do: LibraryContext, value: Value, known: dict[Module, bool | None] | None = None) -> bool | None:
    """Whether a module has buffers; None where that is not known. What was found of its parts is kept in `known`."""
    core = value.core
    if not isinstance(core, Module):
        return None
    if core.buffers is not None:
        return core.buffers
    # A part may be there in many lists, and each of its own parts in as many of its.
    known = {} if known is None else known
    if core not in known:
        # What holds itself is asked once.
        known[core] = None
        known[core] = _has_buffers(do, core, known)
    return known[core]


def _has_buffers(do: LibraryContext, core: Module, known: dict[Module, bool | None]) -> bool | None:
    if core.members:
        return _common(has_buffers(do, each, known) for each in core.members)
    if do.flag(core, ModuleState.own_buffers) is not NO or _derives_from(core, layers("buffers")):
        return True
    # Layers that only a setting adds are there in one of several lists.
    lists = [getattr(held, "items", ()) for held in do.state(core, ModuleState.children) or (NONE,)]
    answers = [[has_buffers(do, child, known) for item in each for child in item if child != core] for each in lists]
    if all(True in each for each in answers):
        return True
    return None if any(True in each or None in each for each in answers) or _has_unseen(do, core) else False


@MODELS.setter(Module)
def _attribute_set(do: LibraryContext, owner: Module, name: str, values: Values, place: Location) -> None:
    """Layers that a module's constructor assigns become part of it, if it can register them."""
    note_written(do, owner, name, values, place)
    if name == "training":
        mode = constant_of(values.single)
        do.emit(ModeChange, at=place, module=owner, training=mode if isinstance(mode, bool) else None)
    for value in values:
        # `layer.forward = adapter.forward`: whoever calls the layer calls the adapter, in a way that nobody follows.
        if isinstance(value, BoundMethod) and isinstance(value.receiver, Module) and value.receiver != owner:
            do.emit(Escape, at=place, into=name, values=(value.receiver,))
        if isinstance(value, Tensor) and value.origin is TensorOrigin.FACTORY and values.single is not None:
            note_kept(do, owner, name, value, place)
        if value.is_model:
            # torch raises "cannot assign module before Module.__init__() call" right here.
            check_initialised(do, owner, name, place)
            part_added(do, owner, value, name, has_parameters(do, value), place)
            adopt(do, owner, value)
        elif isinstance(value, Unknown):
            take_in(do, owner, value)
        elif value.origin is TensorOrigin.PARAMETER:
            check_initialised(do, owner, name, place)
            do.set_flag(owner, ModuleState.own_parameters)
            if value.graph and values.single is not None:
                before = do.own_attribute(owner, name) or ()
                held = items_held(do.state(owner, ModuleState.learnt))
                kept = [each for each in held if each.single not in before]
                do.set_state(owner, ModuleState.learnt, singleton(TupleOf((*kept, singleton(value)))))
            part_added(do, owner, owner, name, True, place)
            if is_frozen(do, owner):
                freeze(do, owner, False)
            # Parameters made on another device than the layers: no single device can be named any more.
            if do.state(owner, ModuleState.device) != _where_it_lies(do, value):
                do.set_state(
                    owner,
                    ModuleState.device,
                    singleton(Unknown(Attribute(value, "device"), "the device of a parameter")),
                )
        # A plain list may still be filled after it is assigned, so it is judged when the constructor is done.
        elif value.is_mutable:
            known = items_held(do.state(owner, ModuleState.plain_containers))
            do.set_state(
                owner,
                ModuleState.plain_containers,
                singleton(TupleOf((*known, singleton(TupleOf((singleton(Const(name)), singleton(value))))))),
            )


def _where_it_lies(do: LibraryContext, parameter: Value) -> Values | None:
    """Of `head.weight`, which another layer shares from here on, where that layer is."""
    if parameter.device is not None:
        return singleton(parameter.device)
    owner, *others = parameter.used or (NONE,)
    return None if others else device_of(do, owner)


def check_initialised(do: LibraryContext, owner: Module, name: str, place: Location) -> None:
    """Log that a module is used before, or without, `super().__init__()`."""
    if (
        owner.cls is None
        or do.flag(owner, ModuleState.initialised) is not NO
        or find_method(do, owner, "__new__") is not None
    ):
        return
    constructor = find_method(do, owner, "__init__")
    # What a decorator has put there may call the one that stands in the class.
    if constructor is not None and not constructor.are(BoundMethod):
        return
    # A base that was not read may call `super().__init__` itself.
    if owner.exact and not is_sketch(constructor):
        do.emit(ModuleClassFlaw, at=place, flaw="super-init-missing", cls=owner.cls, attribute=name)


@MODELS.ready(Module)
def _is_ready(do: LibraryContext, module: Module) -> None:
    """The constructor has run."""
    if module.cls is not None:
        do.set_flag(module, ModuleState.constructed)


def note_used(do: LibraryContext, value: Value) -> None:
    """A module is called, moved, trained or taken in: what is unregistered now is missing there.

    Until then another method may register it, and one whose layers are only read misses nothing.
    """
    module = value.core
    if not isinstance(module, Module) or module.cls is None or do.flag(module, ModuleState.constructed) is NO:
        return
    for entry in items_held(do.state(module, ModuleState.plain_containers)):
        name, container = (values.single for values in getattr(entry.single, "items", ()))
        if not isinstance(name, Const) or not isinstance(container, (ListOf, DictOf)):
            continue
        # `self.layers = nn.Sequential(*self.layers)` has taken them in under the same name.
        now = do.own_attribute(module, str(name.value)) or singleton(container)
        if container in list(now) and (layers := _hidden_layers(do, container)):
            do.emit(
                ModuleClassFlaw, at=container.place, flaw="plain-container", cls=module.cls, attribute=str(name.value),
                count=layers, keyed=isinstance(container, DictOf),
            )  # fmt: skip


def _hidden_layers(do: LibraryContext, container: ListOf | DictOf) -> int:
    """How many layers with parameters a container holds, 0 where some module has registered one of them."""
    more = do.state(container, ContainerState.more)
    values = flatten(do, [container, *(more or ())])
    layers = [value for value in values if isinstance(value, Module) and has_parameters(do, value)]
    # Timm-style backbones keep a list beside `add_module`; frozen teachers are hidden on purpose; of a choice of
    # models, the parts of the chosen one are taken: `nn.Sequential(*backbones[name].children())`.
    if any(is_frozen(do, layer) or do.flag(layer, ModuleState.inner_modules_asked) is not NO for layer in layers):
        return 0
    if any(layer in parts for layer in layers for parts in do.parts.values()):
        return 0
    return len(layers) if more is None else len(layers) + 1


@MODELS.callable("torch.nn.Module.__init__")
def _module_init(call: Call) -> Values:
    """`nn.Module.__init__(self)`."""
    # Without `self` it ends with an error that says so: another mistake than to forget the call.
    receiver = call.do.execution.receiver
    for value in call.args[0] if call.args else [receiver] if receiver is not None else ():
        initialise(call.do, value)
    return singleton(NONE)


def initialise(do: LibraryContext, module: Value) -> None:
    """The constructor of `nn.Module` has run."""
    do.set_flag(module, ModuleState.initialised)
    if do.state(module, ModuleState.device) is None:
        do.set_state(module, ModuleState.device, default_device(do))


def device_of(do: LibraryContext, value: Value, depth: int = 0) -> Values | None:
    """Where a module is, None where that is not known: its parts may have been moved without it."""
    core = value.core
    if not isinstance(core, Module):
        return None
    # FSDP moves shards to the GPU itself, so a CPU module under it is no mistake; on a mesh of CPUs they stay.
    if do.flag(core, ModuleState.sharded) is not NO:
        return singleton(CPU) if do.flag(core, ModuleState.shards_on_cpu) is YES else None
    own = do.state(core, ModuleState.device)
    if own is None and core.members:
        everywhere = {device_of(do, each, depth + 1) for each in core.members}
        return everywhere.pop() if len(everywhere) == 1 else None
    # CPU is only the default of what we saw; whoever made the rest may have moved it.
    if own is None or (own.single == CPU and _may_be_elsewhere(do, core)):
        return None
    # A model without weights is nowhere: those that it trains were not seen.
    if not depth and own.single == CPU and has_parameters(do, core) is False:
        return None
    children = children_of(do, core) if depth <= _DEVICE_DEPTH else ()
    parts = [(part, device_of(do, part, depth + 1)) for part in children if part != core]
    # Mostly all are where it is itself, those without parameters, too.
    if all([place is own or place == own for _, place in parts]):  # noqa: C419, a list is quicker here
        return own
    places = [place for part, place in parts if has_parameters(do, part) is not False]
    if not places:
        return own
    first = places[0]
    # `model.head.to(device)` moves a part without its parent: then no one device is true.
    if first is None or any(place != first for place in places) or (_holds_own(do, core) and own != first):
        return None
    return first


def _may_be_elsewhere(do: LibraryContext, core: Module) -> bool:
    """A part that was not seen, the constructor of a base that could not be read, or what has exchanged its data may
    have chosen a device."""
    unseen = any(do.flag(core, each) is not NO for each in (ModuleState.unseen_part, ModuleState.data_exchanged))
    return unseen or (core.cls is not None and not core.exact)


def _holds_own(do: LibraryContext, core: Module) -> bool:
    """Some parameter or buffer belongs to the module itself, not to a part of it."""
    return do.flag(core, ModuleState.own_parameters) is not NO or do.flag(core, ModuleState.own_buffers) is not NO


@MODELS.method(Module, "to", "cuda", "cpu", "to_empty", "xpu", "npu", "type")
@MODELS.method(Wrapper, "to", "cuda", "cpu", "to_empty", "type")
def _move(call: Call[Module | Wrapper]) -> Values:
    note_used(call.do, call.receiver)
    module = call.receiver
    devices, dtype = (moved_by_type(call), True) if call.name == "type" else moved_to(call)
    # Unlike a tensor, a module moves in place: a discarded result is no mistake here.
    # `CrossEntropyLoss().cuda()` has nothing to move, and asks for no GPU.
    if has_parameters(call.do, module) is not False or has_buffers(call.do, module) is not False:
        use(call, devices, "move", call.argument_places.get("0"))
    call.emit(Move, subject=module, device=devices, call=call.name, dtype=dtype, to_dtype=named_dtype(call))
    # `.to(*args)` may be a device as well as a dtype, `.to(memory_format=torch.channels_last)` is neither.
    if devices is not None or call.open_ended or not (dtype or call.name == "to"):
        somewhere = singleton(Unknown(Anonymous("moved", call.allocation_site()), "an unknown device"))
        put_on(call.do, module.core, devices or somewhere)
        # `for part in net.modules(): part.to(device)`: whichever it is, it is no longer where it was.
        if (whole := module.core.part_of) is not None and device_of(call.do, whole) != devices:
            put_on(call.do, whole, somewhere)
    return singleton(module)


def put_on(do: LibraryContext, module: Value, devices: Values) -> None:
    """A module is there from here on, with all of its parts."""
    for part in _with_parts(do, module):
        # What was written in a branch has to be carried out of it, which takes long for thousands of layers.
        if do.state(part, ModuleState.device) != devices:
            do.set_state(part, ModuleState.device, devices)
            if isinstance(part, Module) and do.flag(part, ModuleState.own_parameters) is not NO:
                _put_parameters_on(do, part, devices.single)


def _put_parameters_on(do: LibraryContext, module: Module, device: Value | None) -> None:
    """Those that the program has made itself, and set as attributes."""
    for name in do.names_of(module):
        held = do.own_attribute(module, name)
        if held is not None and held.any(_is_parameter):
            moved = held.map(lambda each: replace(each, device=device) if _is_parameter(each) else each)
            do.set_own_attribute(module, name, moved)


def _is_parameter(value: Value) -> TypeGuard[Tensor]:
    return isinstance(value, Tensor) and value.origin is TensorOrigin.PARAMETER


def _with_parts(do: LibraryContext, module: Value) -> Iterator[Value]:
    waiting: list[Value] = [module]
    seen: set[Value] = set()
    while waiting:
        part = waiting.pop()
        if part not in seen:
            seen.add(part)
            yield part
            held = do.state(part, ModuleState.children)
            # Most parts are layers.
            if held is None:
                continue
            waiting += [child.core for child in _held_in(held)]
            # Too many branches have added layers to tell which: whatever it has ever taken in goes along.
            if not held.are(TupleOf):
                waiting += do.parts.get(part, ())


@MODELS.method(Module, "half", "float", "double", "bfloat16", "apply", "share_memory", "eval", "train")
@MODELS.method(Wrapper, "half", "float", "double", "bfloat16", "apply", "eval", "train")
def _returns_itself(call: Call[Module | Wrapper]) -> Values:
    module = call.receiver
    if call.name in ("eval", "train"):
        asked = call.constant(0, "mode") if call.args or call.keywords else True
        training = False if call.name == "eval" else (asked if isinstance(asked, bool) else None)
        call.emit(ModeChange, module=module, training=training)
        # `model.train(flag)`: what was known before does not hold any more.
        known = (
            Unknown(Anonymous("mode", call.allocation_site()), "a mode that is not known") if training is None else None
        )
        mode = singleton(known or (TRUE if training else FALSE))
        for part in _with_parts(call.do, module.core):
            if call.do.own_attribute(part, "training") != mode:
                call.do.set_own_attribute(part, "training", mode)
    # A cast after DDP leaves its buckets with gradients of the old dtype.
    if call.name in ("half", "float", "double", "bfloat16"):
        to_dtype = {"half": "float16", "float": "float32", "double": "float64"}.get(call.name, call.name)
        call.emit(Move, subject=module, device=None, call=call.name, dtype=True, to_dtype=to_dtype)
    if call.name == "apply":
        note_applied(call, module)
    return singleton(module)


# What models of transformers have, and models of the project that have one in them.
MODELS.method(
    Module,
    "gradient_checkpointing_enable",
    "enable_input_require_grads",
    "resize_token_embeddings",
    "print_trainable_parameters",
)(always(NONE))


@MODELS.method((Module, Wrapper), "parameters", "named_parameters")
def _parameters(call: Call[Module | Wrapper]) -> Values:
    note_used(call.do, call.receiver)
    _note_names(call)
    return singleton(Parameters(call.allocation_site(), call.place, call.label, frozenset([call.receiver])))


def _note_names(call: Call[Module | Wrapper]) -> None:
    if isinstance(call.receiver, Module) and (call.name.startswith("named_") or call.name == "children"):
        call.emit(PartsNamed, module=call.receiver)


@MODELS.method(Parameters, "__iter__")
def _iterate_parameters(call: Call[Parameters]) -> Values:
    parameters = call.receiver
    owner = next(iter(sorted(parameters.modules, key=repr)), None)
    tensor = made(call.do, call.place, call.label, TensorOrigin.PARAMETER, batch_of=owner, graph=True)
    if "named" in parameters.label:
        name = singleton(Unknown(ParameterName(tensor), "the name of a parameter"))
        return singleton(TupleOf((name, singleton(tensor))))
    return singleton(tensor)


@MODELS.method((Module, Wrapper), *INNER_MODULES)
def _inner_modules(call: Call[Module | Wrapper]) -> Values:
    owner = call.receiver
    take_apart(call.do, owner)
    _note_names(call)
    call.do.set_flag(owner.core, ModuleState.inner_modules_asked)
    return singleton(
        InnerModules(call.allocation_site(), call.place, call.label, owner, call.name.startswith("named_"))
    )


@MODELS.method(InnerModules, "__iter__")
def _one_part(call: Call[InnerModules]) -> Values:
    parts = call.receiver
    part = part_of(call.do, parts.owner)
    if not parts.named:
        return singleton(part)
    name = Unknown(ParameterName(part), "the name of a part")
    return singleton(TupleOf((singleton(name), singleton(part))))


@MODELS.method((Method, Unknown), "parameters", "named_parameters", "requires_grad_", *INNER_MODULES)
def _of_unseen_part(call: Call) -> Values:
    """`resnet.layer1.parameters()`, of a model whose class a library has: what has parameters there is a part."""
    core = whole_of(call.receiver)
    if core is None:
        return NOT_ANSWERED
    label = call.label.rpartition(".")[0]
    part = Module(("part", call.receiver), call.place, label, made_by="a part of a module")
    call.do.parts.setdefault(core, set()).add(part)
    return MODELS.methods[Module, call.name](replace(call, receiver=part))


@MODELS.method((Module, Wrapper), "buffers", "named_buffers")
def _buffers(call: Call[Module | Wrapper]) -> Values:
    _note_names(call)
    return call.unknown(
        MethodResult(call.receiver, call.name), "buffers of a module", escaped_from="torch.nn.Module.buffers"
    )


@MODELS.method((Module, Wrapper), "state_dict")
def _state_dict(call: Call[Module | Wrapper]) -> Values:
    note_used(call.do, call.receiver)
    owner = call.receiver
    note_gathered(call, owner)
    return singleton(StateDict(call.allocation_site(), call.place, call.label, owner, owner.key_prefix))


@MODELS.method(StateDict, "items", "keys", "values", "copy")
def _state_items(call: Call) -> Values:
    return call.unknown(
        MethodResult(call.receiver, call.name),
        "entries of a state dict",
        escaped_from=f"torch.nn.Module.state_dict.{call.name}",
    )


@MODELS.method(Module, "register_buffer", "register_parameter", "add_module", "register_module")
def _register(call: Call[Module]) -> Values:
    given = call.arg(1, "module" if "module" in call.name else "tensor")
    name = call.text(0, "name")
    if given is not None and name is not None:
        for value in given:
            if value.is_model:
                part_added(call.do, call.receiver, value, name, has_parameters(call.do, value), call.place)
                adopt(call.do, call.receiver, value)
        # A buffer goes where the module goes.
        call.do.set_own_attribute(call.receiver, name, given.map(partial(as_buffer, call.receiver, name)))
    elif name is None:
        call.do.set_flag(call.receiver, ObjectState.opened)
    if "module" not in call.name:
        buffer = call.name == "register_buffer"
        call.do.set_flag(call.receiver, ModuleState.own_buffers if buffer else ModuleState.own_parameters)
    return singleton(NONE)


_HOOKED = {
    "register_forward_pre_hook": ("its inputs",),
    "register_forward_hook": ("its inputs", "its output"),
    "register_full_backward_hook": ("the gradients of its inputs", "the gradients of its outputs"),
}
"""What a hook gets beside the module."""


@MODELS.method((Module, Wrapper), *_HOOKED)
def _register_hook(call: Call[Module | Wrapper]) -> Values:
    """The hook runs in each pass; what it does is followed once, where it is registered."""
    hook, place = call.arg(0, "hook"), call.allocation_site()
    given = [call.unknown(Anonymous(what, place), what) for what in _HOOKED[call.name]]
    if hook is not None:
        with call.do.in_contexts("hook"):
            call.do.call(hook, Arguments((singleton(call.receiver), *given)), call.node)
    return call.unknown(Anonymous("hook", place), "a handle")


@MODELS.method(Module, "append", "extend", "insert", "add_module", "update", "__setitem__")
def _grow(call: Call[Module]) -> Values:
    """`ModuleList.append(layer)`."""
    given, key = call.arg(1, "module"), call.text(0, "name")
    if call.name in ("add_module", "__setitem__") and given is not None and key is not None:
        call.do.set_own_attribute(call.receiver, key, given)
    elif call.name != "append":
        call.do.set_flag(call.receiver, ObjectState.opened)
        _exchange(call, given or ValueSet(()))
    for value in flatten(call.do, call.all_values()):
        take_in(call.do, call.receiver, value)
        if isinstance(value, Unknown):  # nothing but modules goes into a `ModuleList`, however little is known of it
            call.do.set_flag(call.receiver, ModuleState.unseen_part)
            # It may be any of those that stand in the module's lists.
            call.do.set_state(call.receiver, ModuleState.plain_containers, singleton(TupleOf(())))
    return singleton(call.receiver)


def _exchange(call: Call[Module], given: Values) -> None:
    """`for k in parts: parts[k] = FSDP(parts[k])`: what is put there under a name that is not known may be any part, or
    is the one that it was made of."""
    parts = call.receiver
    for name in call.do.names_of(parts) if parts.made_by == _BY_NAME else ():
        before = {value.core for value in call.do.own_attribute(parts, name) or ()}
        now = ValueSet([each for each in given.bindings if each.value.core in before])
        call.do.set_own_attribute(parts, name, now if now.bindings else singleton(part_of(call.do, parts)))


@MODELS.method(Module, "__getitem__", "__iter__")
def _child(call: Call[Module]) -> Values:
    key = call.text(0, "key") if call.receiver.made_by == _BY_NAME else None
    named = call.do.own_attribute(call.receiver, key) if key is not None else None
    if named is not None:
        return named
    found = children_of(call.do, call.receiver)
    if found:
        return union([singleton(child) for child in found])
    return singleton(part_of(call.do, call.receiver))


@MODELS.method(Module, "values", "items")
def _entries(call: Call[Module]) -> Values:
    """The parts of a `ModuleDict`, each alone or with its name."""
    found = children_of(call.do, call.receiver)
    if not found or call.receiver.made_by != _BY_NAME:
        return NOT_ANSWERED
    name = singleton(Unknown(Anonymous("name", call.receiver), "the name of a part"))
    named = [TupleOf((name, singleton(each))) if call.name == "items" else each for each in found]
    return new_list(call.do, [singleton(each) for each in named], call.node, exact=False)


@MODELS.attribute(Module)
def _attribute(call: Call[Module]) -> Values:
    module = call.receiver
    if call.name == "training":
        return call.unknown(Attribute(module, "training"), "the mode of a module")
    # nn.Module looks for what is missing in tables that its constructor makes.
    if (
        module.cls is not None
        and call.do.flag(module, ModuleState.constructed) is not NO
        and not every_module_has(call.name)
    ):
        check_initialised(call.do, module, "", module.cls.place)
        # Imported late: most models have what is asked of them.
        from gpudoctor.lint.library.dropped_layers import note_missed

        note_missed(call, module)
    # Models of libraries say where they are, and so do wrappers.
    if call.name == "device" and (where := call.do.state(module, ModuleState.device)) is not None:
        return where
    layer = module.part_of is not None or module.made_by.rpartition(".")[2] in _WITH_WEIGHTS
    # Of recurrent layers: `weight_hh`, `bias_ih_l0`.
    if call.name.partition("_")[0] in ("weight", "bias") and layer and module.cls is None:
        return singleton(parameter_of(call, module))
    # Own classes answer by what they set; the `.device` of library models is a property.
    if call.name in ("device", "dtype", "config", "weight", "bias") and module.cls is None:
        return call.unknown(Attribute(module, call.name), f"the {call.name} of a module")
    if call.name not in MODULE_API or call.name.startswith("get_"):
        take_apart(call.do, module)
    return NOT_ANSWERED


MODELS.method(Parameters)(lambda call: call.unknown(MethodResult(call.receiver, call.name), "part of parameters"))
