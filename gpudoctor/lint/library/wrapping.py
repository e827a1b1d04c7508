"""Wrappers: DataParallel, DistributedDataParallel, FSDP, and reading through them."""

from __future__ import annotations

import ast

from gpudoctor.diagnostic import Location
from gpudoctor.lint.analyses.after_wrap import is_trainable, watch_models
from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ModuleState, ProcessState, WrapperState
from gpudoctor.lint.domain.container import ListOf, TupleOf
from gpudoctor.lint.domain.data import Loader, Sampler
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.function import Class, ContextManager, Library, Method, class_of
from gpudoctor.lint.domain.group import DefaultGroup, group_of
from gpudoctor.lint.domain.module import UNSEEN, Module, Wrapper, WrapperKind
from gpudoctor.lint.domain.optim import Optimizer, Scheduler
from gpudoctor.lint.domain.rank import Rank
from gpudoctor.lint.domain.symbols import Attribute, CallResult
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import FALSE, NONE, Anonymous, Const, Unknown, Value, Values, int_of, single_of
from gpudoctor.lint.events.model import AttributeMissed, AttributeShadowed, ForwardMarked, SyncNorm, Wrap
from gpudoctor.lint.events.placement import DeviceUsed
from gpudoctor.lint.events.training_step import ClipGradients, GradientSync
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interface.contents import ancestry, find_method, known_items
from gpudoctor.lint.interface.hooks import HOOKS
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, logs, singleton
from gpudoctor.lint.library.devices import made_on, note_text
from gpudoctor.lint.library.gpu_switches import take_gpu
from gpudoctor.lint.library.sharding import note_sharded
from gpudoctor.lint.library.stub_models import declared_attribute, engine_can
from gpudoctor.lint.library.torch_distributed import group_exists
from gpudoctor.lint.library.torch_nn import adopt, device_of, initialise, new_module, parts_given, put_on, take_in
from gpudoctor.lint.library.wrapper_names import CALLABLES, GIVE_THEMSELVES, MODULE_API, OWN, wrapper_has
from gpudoctor.lint.source.syntax_walk import nodes_of
from gpudoctor.manifest.compiled import declared
from gpudoctor.manifest.effects import RunForwardEffect, WrapEffect

SYNC_NORM = "torch.nn.SyncBatchNorm"
METHODS = frozenset({"no_sync", "join", "_set_static_graph"})
"""What a wrapper is asked to do, apart from what all modules have."""
BASES = {name: kind for kind, name in CALLABLES.items()}
"""Wrappers that a class of the project may extend; an object of such a class is a module with attributes of its own."""

CONTAINERS = frozenset({"torch.nn.ModuleList", "torch.nn.ModuleDict", "torch.nn.Sequential"})


def _wrap(call: Call, effect: WrapEffect) -> Values:
    given = call.given(effect.module)
    if given is None:
        return call.unknown(CallResult(call.name, call.args), "a wrapper without a module")
    given = bare(given)
    # One wrapper for each model it may be: `if args.arch == …` leaves several.
    made = [_wrap_one(call, effect, each.value, len(given.bindings) == 1, each.condition) for each in given.bindings]
    result = given.map(lambda value: made[list(given).index(value)])
    return result


def bare(given: Values) -> Values:
    """The models among these, less those that are wrappers of others among them.

    `models[i] = DDP(models[i])`: in a later round some item is wrapped already, but not the one that this round takes.
    """
    kept = [
        binding
        for binding in given.bindings
        if not any(
            isinstance(binding.value, Wrapper)
            and other.value == binding.value.inner
            and not other.condition.excludes(binding.condition)
            for other in given.bindings
        )
    ]
    return given if len(kept) == len(given.bindings) else ValueSet(kept)


def _wrap_one(call: Call, effect: WrapEffect, given: Value, certain: bool, when: Condition) -> Value:
    place, kind = call.place, WrapperKind[effect.kind]
    inner = _seen(given, place)
    ids = call.given("device_ids")
    _use_ids(call, ids)
    device = device_of(call.do, inner)
    take_gpu(call.do, device)
    wrapper = Wrapper(
        call.allocation_site(),
        place,
        # `train(DDP(model))` gives it no name.
        "the model" if call.result_name is None else call.label,
        kind,
        inner,
        ids,
        FALSE if effect.fixed else _broadcasts(call),
        rearranges=not effect.fixed,
        class_name=call.full_name if not call.full_name.startswith("torch.") else "",
        own_group=not isinstance(group_of(call.keywords.get("process_group")), DefaultGroup),
    )
    call.emit(
        Wrap, wrapper=wrapper, inner=inner, kind=kind, **_named_ids(ids),
        model_device=device.restrict(when) if device is not None else None,
        group_exists=group_exists(call.do), ids=_devices(call, ids),
        trainable=is_trainable(call.do, inner),
        # Those that stay as they were made wait for nothing that their first step has left out.
        find_unused=None if effect.fixed else call.switch(-1, "find_unused_parameters"),
        static=call.switch(-1, "static_graph"), certain=certain, opaque=call.open_ended,
        keeps_parameters=call.switch(-1, "use_orig_params"), uncut=_may_stay_whole(call, effect),
        chosen_where=when, handed_to="" if call.do.execution.in_body else None,
    )  # fmt: skip
    if call.is_true(-1, "find_unused_parameters") and not call.is_true(-1, "static_graph"):
        call.do.set_flag(wrapper, WrapperState.finds_unused)
    _note_place(call, kind, inner, ids)
    watch_models(call.do)
    # Who gets past that constructor has a process group, also where another file made it.
    if kind is not WrapperKind.DATA_PARALLEL:
        call.do.set_flag(PROCESS, ProcessState.group)
    return wrapper


def _may_stay_whole(call: Call, effect: WrapEffect) -> bool:
    """`FSDP(model, sharding_strategy=ShardingStrategy.NO_SHARD)`."""
    parameter, _, whole = effect.uncut.partition("=")
    told = call.keywords.get(parameter)
    return told is not None and not told.restrict(call.do.path).all(
        lambda way: way == NONE or (isinstance(way, Library) and way.name.rpartition(".")[2] != whole)
    )


def _seen(value: Value, place: Location) -> Module | Wrapper:
    """The value as a module, also where it comes from code that is not read: one value is always one module."""
    if isinstance(value, (Module, Wrapper)):
        return value
    return Module(("unseen", value), place, value.label or "the model", made_by=UNSEEN)


def _items(call: Call, ids: Values | None) -> tuple[Values, ...] | None:
    only = single_of(ids)
    return known_items(call.do, only) if isinstance(only, (ListOf, TupleOf)) else None


def _named_ids(ids: Values | None) -> dict[str, object]:
    """Whether `device_ids` is given, and where it is written."""
    if ids is None or (ids.single is not None and ids.single.is_none):
        return {}
    surely = not ids.any(lambda value: value.is_none)
    return {"names_ids": surely or None, "ids_at": ids.single.place if ids.single is not None else None}


def _devices(call: Call, ids: Values | None) -> tuple[Device | None, ...] | None:
    items = _items(call, ids)
    return tuple(map(_device, items)) if items is not None else None


def _device(item: Values) -> Device | None:
    """`device_ids` takes numbers, devices and strings; a bare number means a CUDA device."""
    only = item.single
    if isinstance(only, Device):
        return only
    return Device("cuda", only) if isinstance(only, Rank) or int_of(only) is not None else None


def _note_place(call: Call, kind: WrapperKind, inner: Value, ids: Values | None) -> None:
    """A model that was not seen is on the GPU whose number DDP is given, or its first forward fails."""
    only = _only_item(call, ids)
    if kind is not WrapperKind.DDP or not isinstance(inner, Module) or inner.made_by != UNSEEN or only is None:
        return
    if call.do.state(inner, ModuleState.device) is None:
        call.do.set_state(inner, ModuleState.device, singleton(_gpu(call, only)))


def _broadcasts(call: Call) -> Value:
    """Whether buffers are broadcast at each forward, as given."""
    # torch 2.13 spells it `forward_sync_buffers` as well.
    given = call.keywords.get("broadcast_buffers") or call.keywords.get("forward_sync_buffers") or singleton(NONE)
    return given.single or NONE


def _use_ids(call: Call, ids: Values | None) -> None:
    # `DDP(model, [rank])` passes it by position, as many tutorials do.
    place = call.argument_places.get("device_ids") or call.argument_places.get("1") or call.place
    for value in ids or ():
        items = known_items(call.do, value) if isinstance(value, (ListOf, TupleOf)) else None
        for each in [v for item in items or () for v in item]:
            device = each if isinstance(each, Device) else None
            # Integers and `torch.device` mean the same in `device_ids`.
            if isinstance(each, (Rank, Const, Unknown)):
                device = Device("cuda", each, place)
            if device is not None:
                note_text(call, singleton(each), "given as one of `device_ids`", place)
                call.do.emit(DeviceUsed, at=place, device=device, purpose="device_ids")
    # Beside it the output is on the same GPU: `device_ids=[rank], output_device=rank`.
    place = call.argument_places.get("output_device") or call.argument_places.get("2") or call.place
    for each in call.given("output_device") or ():
        if isinstance(each, Rank):
            call.do.emit(DeviceUsed, at=place, device=Device("cuda", each, place), purpose="output_device")


@MODELS.effect(WrapEffect)
def _wraps(call: Call, effect: WrapEffect) -> Values:
    if not effect.kind:
        return _prepared(call, effect)
    kind = WrapperKind[effect.kind]
    wrappers = _wrap(call, effect)
    only = _only_item(call, call.given("device_ids")) if kind is WrapperKind.DATA_PARALLEL else None
    for wrapper in wrappers:
        # With several GPUs it moves nothing, and with one it brings the model there.
        if only is not None:
            put_on(call.do, wrapper.core, singleton(_gpu(call, only)))
        # Sharding brings the parameters to the GPU by itself.
        if kind is WrapperKind.FSDP:
            note_sharded(call.do, wrapper.core)
            if _makes_units(call) and not _may_stay_whole(call, effect):
                call.do.set_flag(wrapper.core, ModuleState.holds_units)
    return wrappers


def _makes_units(call: Call) -> bool:
    """A policy says which parts of the model FSDP wraps as well."""
    policy = call.given("auto_wrap_policy")
    return policy is not None and policy.all(lambda each: each != NONE)


_SHARDING = "torch.utils.data.distributed.DistributedSampler"


def _prepared(call: Call, effect: WrapEffect) -> Values:
    """A library's own wrapper, and what it returns beside it."""
    names = call.declared.makes if call.declared is not None else ()
    models = call.given(effect.module)
    if models is None and call.open_ended:
        models = call.unknown(CallResult(call.name, (call.place, "model")), "a model that is not given by name")
    models = bare(models) if models is not None else singleton(NONE)
    made = [_made_beside(call, effect, name, number, models) for number, name in enumerate(names)]
    return made[0] if len(made) == 1 else singleton(TupleOf(tuple(made)))


def _made_beside(call: Call, effect: WrapEffect, name: str, number: int, models: Values) -> Values:
    """What stands at this place of all that is returned, by the class or the word that the stub says."""
    site, place, library = call.allocation_site(), call.place, call.name.partition(".")[0]
    match name:
        case "":
            term = CallResult(call.name, (place, number))
            return singleton(Unknown(term, f"made by {call.name}", escaped_from=call.name))
        case "ModelOptimizer":
            return singleton(_optimizer(call, models))
        case "OptimizerSchedule":
            return singleton(Scheduler(site, place, "the scheduler", call.name, _optimizer(call, models)))
        case "ShardedLoader":
            data = call.given(effect.data)
            if not call.open_ended and (data is None or data.single == NONE):
                return singleton(NONE)
            surely = data is not None and not call.open_ended and data.all(lambda value: value != NONE)
            kept = "data_sampler"
            sampler = Sampler((site, kept), place, f"loader.{kept}", _SHARDING, True, data)
            return singleton(
                Loader(
                    site, place, "the loader", data, singleton(sampler) if surely else None, managed=library,
                    opaque=True, sharded=True, surely_sharded=True, keeps_sampler_as=kept,
                )
            )  # fmt: skip
    return models.map(lambda model: _engine(call, name, model, len(models.bindings) > 1))


def _engine(call: Call, class_name: str, model: Value, one_of_several: bool) -> Value:
    """The engine around a model, which it is whatever is known of that."""
    # The library owns placement and casts, so devices under it are not judged.
    if not isinstance(model, (Module, Wrapper, Unknown)):
        return model
    site = (call.allocation_site(), model) if one_of_several else call.allocation_site()
    inner = _seen(model, call.place)
    return Wrapper(site, call.place, call.label, WrapperKind.PREPARED, inner, class_name=class_name)


def _optimizer(call: Call, models: Values) -> Optimizer:
    modules = frozenset(model.core for model in models if model.is_model)
    complete = bool(modules) and all(model.is_model for model in models)
    library = call.name.partition(".")[0]
    return Optimizer(call.allocation_site(), call.place, "the optimizer", call.name, modules, complete, library)


def _only_item(call: Call, ids: Values | None) -> Value | None:
    """The GPU that is named, where it is one."""
    items = _items(call, ids) or ()
    return items[0].single if len(items) == 1 else None


def _gpu(call: Call, item: Value) -> Device:
    return item if isinstance(item, Device) else Device("cuda", item, call.place)


@MODELS.method(Module, "__init__")
def _init(call: Call[Module]) -> Values:
    """The constructor of the library class under a class of the project, which may be a wrapper's."""
    module = call.receiver
    # `super().__init__(8, 8, device="cuda")`, also where the class has no constructor of its own.
    if call.do.state(module, ModuleState.device) is None:
        call.do.set_state(module, ModuleState.device, made_on(call))
    initialise(call.do, module)
    names = module.cls.library_bases if module.cls is not None else frozenset()
    # `class Heads(nn.ModuleList)`: what its base is given are its parts, as are models that any other is given.
    for value in parts_given(call):
        if names & CONTAINERS or value.is_model:
            take_in(call.do, module, value)
    # `class MyDDP(DistributedDataParallel)` adds `__getattr__`: still a wrapper for whoever calls it.
    kind = next((kind for name, kind in BASES.items() if name in names), None)
    for value in (call.arg(0, "module") or ()) if kind is not None else ():
        call.emit(
            Wrap, wrapper=module, inner=value, kind=kind, **_named_ids(call.arg(1, "device_ids")),
            model_device=device_of(call.do, value), group_exists=group_exists(call.do),
        )  # fmt: skip
        call.do.set_own_attribute(module, "module", singleton(value))
        call.do.set_state(
            module, ModuleState.device, device_of(call.do, value) or singleton(Unknown(Anonymous("device", value)))
        )
        adopt(call.do, module, value)
    return singleton(NONE)


@MODELS.attribute(Wrapper)
def _attribute(call: Call[Wrapper]) -> Values:
    wrapper, name = call.receiver, call.name
    # A wrapper goes into a mode together with what it holds.
    if name == "training":
        mode = call.do.own_attribute(wrapper.core, name)
        return mode or call.unknown(Attribute(wrapper.core, name), "the mode of a module")
    own = OWN.get(wrapper.kind)
    # torch.compile keeps the model under `_orig_mod`, FSDP under `_fsdp_wrapped_module`.
    if name in ("module", "_orig_mod", "_fsdp_wrapped_module") and (own is not None or name != "module"):
        return singleton(wrapper.inner)
    if name == "module" and not isinstance(wrapper.inner, Wrapper):
        return singleton(wrapper.inner)
    # Fabric's refuses a method that it hands on, and gives out the bare model, whose methods nobody refuses.
    inner = wrapper.inner
    if isinstance(inner, Wrapper) and wrapper.kind is WrapperKind.PREPARED and inner.place == wrapper.place:
        call.do.set_flag(wrapper.core, ModuleState.refuses_methods, name != "module")
        if name == "module":
            return singleton(inner.inner)
    if name == "mark_forward_method" and wrapper.kind is WrapperKind.PREPARED:
        return singleton(Method(wrapper, name))
    # Accelerate hands out DeepSpeed's engine where the settings say so.
    if _is_of_engine(call):
        return singleton(Method(wrapper, name))
    # An engine has attributes of its own: what the wrapper inside lacks, it may have.
    if wrapper.kind is WrapperKind.PREPARED:
        method = declared(f"lightning.pytorch.LightningModule.{name}")
        if method is not None and method.effect(RunForwardEffect) is not None:
            call.emit(ForwardMarked, wrapper=wrapper)
        if call.declared is not None:
            return singleton(Method(wrapper, name))
        said = declared_attribute(call)
        return said if said is not NOT_ANSWERED else call.do.attribute(wrapper.core, name, call.node)
    # FSDP has its own, for which all ranks send their parts.
    if name == "clip_grad_norm_" and wrapper.kind is WrapperKind.FSDP:
        return singleton(Method(wrapper, name))
    # The first give back the object that they are called on, and the others every wrapper has of its own.
    if own is None and (name in GIVE_THEMSELVES or name in ("forward", "state_dict", "load_state_dict")):
        return singleton(Method(wrapper, name))
    # A compiled module passes unknown attributes through to the model.
    if own is None:
        return call.do.attribute(wrapper.inner, name, call.node)
    # The wrapper of apex has two methods where torch's has `no_sync`.
    if call.declared is not None:
        return singleton(Method(wrapper, name))
    # What `nn.Module` has, the wrapper has itself; all else is only on `.module`.
    if wrapper_has(wrapper, name):
        return singleton(Method(wrapper, name)) if name in MODULE_API or name in METHODS else _plain(call)
    inner_has = _has_attribute(call, wrapper.core, name)
    # AttributeError: 'DistributedDataParallel' object has no attribute …
    call.emit(AttributeMissed, wrapper=wrapper, name=name, inner_has=inner_has)
    return call.do.attribute(wrapper.inner, name, call.node)


HOOKS.attributes[Wrapper] = wrapper_has


@MODELS.method(Wrapper, "__getitem__")
def _item(call: Call[Wrapper]) -> Values:
    """`model[0]`: a wrapper has no items, only the model inside has."""
    wrapper = call.receiver
    if OWN.get(wrapper.kind) is not None:
        call.emit(AttributeMissed, wrapper=wrapper, name="__getitem__", inner_has=True)
    return call.do.call(call.do.attribute(wrapper.inner, "__getitem__", call.node), call.arguments, call.node)


def _is_of_engine(call: Call[Wrapper]) -> bool:
    wrapper, name = call.receiver, call.name
    if not engine_can(name) or call.do.flag(wrapper, WrapperState.prepared) is NO:
        return False
    return not wrapper_has(wrapper, name) and not _has_attribute(call, wrapper.core, name)


MODELS.method(Wrapper, "mark_forward_method")(logs(ForwardMarked, wrapper="receiver"))


@MODELS.method(Wrapper, "no_sync", "join")
@MODELS.method(Unknown, "no_sync", "set_requires_gradient_sync")
def _no_sync(call: Call[Wrapper | Unknown]) -> Values:
    """Also of a model that code made which was not read, or of its parts: `part.set_requires_gradient_sync(last)`."""
    # `join()` shadows collectives of ranks that ran out of batches; `no_sync()` skips the all-reduce.
    if call.name != "join":
        call.emit(GradientSync, target=call.receiver, call=call.name)
    return singleton(ContextManager(f"torch.{call.name}", call.receiver) if "set_" not in call.name else NONE)


@MODELS.method(Wrapper, "clip_grad_norm_")
def _clip(call: Call[Wrapper]) -> Values:
    """FSDP adds up the norms of all shards."""
    call.emit(ClipGradients, call=call.name, modules=frozenset({call.receiver.core}), of_all_shards=True)
    return singleton(Tensor(call.allocation_site(), call.place, call.label, TensorOrigin.GRADIENT))


@MODELS.setter(Wrapper)
def _attribute_set(do: LibraryContext, owner: Value, name: str, values: Values, place: Location) -> None:
    """`model.require_backward_grad_sync = last_micro_step`: what `no_sync` does, by hand. `model.dropping = False` sets
    what the model inside goes on to read from itself."""
    if name == "require_backward_grad_sync":
        do.emit(GradientSync, at=place, target=owner, call=name, never=values.single == FALSE)
        return
    if not isinstance(owner, Wrapper) or wrapper_has(owner, name) is not False:
        return
    if do.own_attribute(owner.core, name) is not None and _reads_itself(class_of(owner.core), name):
        do.emit(AttributeShadowed, at=place, wrapper=owner, name=name)


def _reads_itself(cls: Class | None, name: str) -> bool:
    """A method reads the attribute. What only the constructor writes is there for others, who may ask the wrapper."""
    methods = (
        each
        for one in (ancestry(cls) if cls is not None else ())
        for each in one.node.body
        if isinstance(each, ast.FunctionDef) and each.name != "__init__"
    )
    reads = (node for method in methods for node in nodes_of(ast.Attribute, method) if isinstance(node.ctx, ast.Load))
    return any(node.attr == name for node in reads)


def _plain(call: Call) -> Values:
    return call.unknown(
        Attribute(call.receiver, call.name),
        f"the {call.name} of a wrapper",
        escaped_from=f"torch.nn.parallel.DistributedDataParallel.{call.name}",
    )


def _has_attribute(call: Call, core: Value, name: str) -> bool | None:
    if call.do.own_attribute(core, name) is not None or find_method(call.do, core, name) is not None:
        return True
    cls = class_of(core)
    return False if cls is not None and cls.complete else None


@MODELS.callable(SYNC_NORM)
def _sync_layer(call: Call) -> Values:
    layer = new_module(call, SYNC_NORM, [], ready=False)
    call.emit(SyncNorm, module=layer)
    return singleton(layer)


@MODELS.callable("torch.nn.SyncBatchNorm.convert_sync_batchnorm")
def _sync_batchnorm(call: Call) -> Values:
    given = call.arg(0, "module")
    if given is None:
        return singleton(NONE)
    made = {value: _synced(call, value) for value in given}
    return given.map(lambda value: made[value])


def _synced(call: Call, value: Value) -> Value:
    """The model is changed in place but for a bare BatchNorm, where only the returned one is new."""
    bare = isinstance(value, Module) and value.cls is None and value.made_by.startswith("torch.nn.BatchNorm")
    if not bare:
        call.emit(SyncNorm, module=_seen(value, call.place), given=value)
        return value
    layer = new_module(call, SYNC_NORM, [], ready=False)
    # It takes over the parameters, which stay where they are.
    device = call.do.state(value, ModuleState.device)
    if device is not None:
        call.do.set_state(layer, ModuleState.device, device)
    call.emit(SyncNorm, module=layer, given=value)
    return layer
