"""Frameworks that own wrapping, placement, sharding or saving: the plain rules stand back where one is in charge."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from gpudoctor.lint.analyses.after_wrap import is_trainable, watch_models
from gpudoctor.lint.domain.abstract_state import (
    NO,
    PROCESS,
    YES,
    LoaderState,
    ManagerState,
    ModuleState,
    ProcessState,
    SettingState,
    WrapperState,
)
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import TupleOf, items_held
from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.function import Instance, Library, Namespace
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.heuristics import RUNS_TRAINING, TRAINS
from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.rank import Size
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    TRUE,
    Allocated,
    Anonymous,
    Const,
    Unknown,
    Value,
    Values,
    int_of,
    single_of,
    text_of,
)
from gpudoctor.lint.events.collective import Collective
from gpudoctor.lint.events.files import Save, as_path
from gpudoctor.lint.events.host_waits import DebugFlag
from gpudoctor.lint.events.knowledge import Prepare, UseManaged
from gpudoctor.lint.events.model import ShardingRefused, Wrap
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.contents import default_of, known_items
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, said_by_stub, singleton
from gpudoctor.lint.library.class_kinds import is_module_name
from gpudoctor.lint.library.engine_configuration import EngineSettings, configuration, launched_configuration
from gpudoctor.lint.library.library_names import is_harmless
from gpudoctor.lint.library.missing_attributes import note_opened
from gpudoctor.lint.library.sharding import keeps_shards, note_sharded
from gpudoctor.lint.library.stub_bodies import follow
from gpudoctor.lint.library.stub_models import TAKE_CHARGE, as_its_base, managed_method, value_of_kind
from gpudoctor.lint.library.torch_distributed import begin_group, group_exists, how_to_meet
from gpudoctor.lint.library.torch_nn import new_module, put_on
from gpudoctor.lint.library.unread_code import note_escape
from gpudoctor.lint.library.wrapping import bare
from gpudoctor.manifest.compiled import belonging, body, classes, declared, methods, preparing
from gpudoctor.manifest.effects import ConfigureEffect, PrepareEffect, WrapEffect
from gpudoctor.manifest.framework_roles import Framework
from gpudoctor.record import replace

_BELONGING, _PREPARING = belonging(), frozenset(preparing())
_ADDS_OPTIONS = "deepspeed.add_config_arguments"
_FROM_OPTIONS = ".from_argparse_args"
_SPREADING = frozenset({"strategy", "distributed_backend", "accelerator"})
"""What Lightning's Trainer is told to spread a training by; the last two are what it was called before version 1.7."""
CONFIGURATION = (10, "config")
"""Where `deepspeed.initialize` takes its configuration."""


def _without_constructor(name: str) -> str:
    """The class for `Runner.from_cfg`: another way to make one."""
    owner, _, last = name.rpartition(".")
    return owner if RUNS_TRAINING.fits(owner) and last.startswith(("from_", "build")) else name


def _framework(name: str) -> str:
    return TAKE_CHARGE.get(name) or next((found for prefix, found in _BELONGING.items() if name.startswith(prefix)), "")


@MODELS.callable(*TAKE_CHARGE, *(f"{prefix}*" for prefix in _BELONGING))
def take_charge(call: Call) -> Values:
    """A framework takes charge from here on; what comes back answers for it."""
    # Deferred: most programs train without one.
    from gpudoctor.manifest.framework_roles import framework as framework_of

    call, name = _as_made(call), _without_constructor(call.name)
    last, known = name.rpartition(".")[2], framework_of(_framework(name))
    runs = name in TAKE_CHARGE or RUNS_TRAINING.fits(last)
    # Options alone configure nothing.
    settings = EngineSettings() if name == _ADDS_OPTIONS else _engine_settings(call, known.name)
    managed: ManagedObject | None = None
    if runs and name in classes():
        managed = ManagedObject(call.allocation_site(), call.place, call.label, known.name, call.name, name)
    if last == "PartialState":
        _begin_once(call)
    elif runs or TRAINS.fits(last) or known.by_any_call:
        _note_charge(call, name, known, managed, settings)
    # Lightning has a setting for it.
    if call.is_true(-1, "detect_anomaly"):
        call.emit(DebugFlag, flag="anomaly")
    if managed is not None:
        _note_settings(call, managed, known, settings)
        usual = call.name == name or call.name.endswith(_FROM_OPTIONS)
        follow(call, f"{name}.__init__" if usual else call.name, managed)
        return singleton(managed)
    parser = single_of(call.arg(0, "parser")) if name == _ADDS_OPTIONS else None
    if parser is not None:
        _add_options(call, parser)
        return singleton(parser)
    answered = said_by_stub(call)
    answered = follow(call, name) if answered is NOT_ANSWERED else answered
    if _engine(call) is not None:
        _note_engine(call, settings)
    if answered is not NOT_ANSWERED:
        return answered
    if is_module_name(call.name):
        return singleton(new_module(call, call.name, [], ready=True))
    # It may be another one on each rank, as the rank among those that hold the same part of a model.
    return singleton(call.result(fresh=True, divergence=Divergence.UNREAD))


@told(HOOKS.derived_from)
def _take_charge_as(do: LibraryContext, made: Instance, base: str, arguments: Arguments, node: ast.AST) -> None:
    """An object of the project, whose class derives from one of a framework, takes charge as that does."""
    # Deferred, as above.
    from gpudoctor.manifest.framework_roles import framework as framework_of

    managed, settings, call = as_its_base(made, base), EngineSettings(), Call[None](do, base, arguments, node)
    known = framework_of(managed.framework)
    _note_charge(call, base, known, managed, settings)
    _note_settings(call, managed, known, settings)


def _note_engine(call: Call, settings: EngineSettings) -> None:
    """Where the parameters of a model are from here on that an engine has taken over."""
    empties = _empties(settings)
    for model in call.given("model") or ():
        if empties:
            call.do.set_flag(model.core, ModuleState.emptied)
            call.do.set_flag(model.core, ModuleState.gathers)
            if call.do.flag(PROCESS, ProcessState.told_of_zero) is NO:
                call.do.set_flag(model.core, ModuleState.generates_apart)
        elif model.is_model:
            # Under ZeRO's third stage they may stay on the CPU.
            known = settings.values is not None
            perhaps = Unknown(Anonymous("placed", call.place), "where the engine puts it")
            gpu = value_of_kind("OwnGpu", "", call.place, call.label) if known else perhaps
            put_on(call.do, model.core, singleton(gpu))


def _note_charge(
    call: Call, name: str, known: Framework, managed: ManagedObject | None, settings: EngineSettings
) -> None:
    several = known.told_devices and _several_processes(call)
    # Whoever has several processes started by Lightning has one model trained.
    averages = (known.averages and name in TAKE_CHARGE and name not in _PREPARING) or several
    call.emit(
        UseManaged,
        framework=known.name,
        call=call.name,
        several=known.several or several,
        averages=averages or _engine(call) is not None,
        trains=TRAINS.fits(name),
        shares_data=(known.deals_out and not _leaves_loaders(call) and _prepares(name)) or _may_split_model(call),
        shares_streams=not known.leaves_streams,
        # Programs call a method of it that prepares one thing or another.
        one_by_one=any(not effect.by_itself for effect in _preparing(name)),
        engine=_engine(call) is not None,
        made=managed,
        alone=known.told_devices and _one_process(call),
        given=_with_parts(call),
        otherwise=_done_otherwise(call),
        config=settings.entries,
        config_path=settings.path,
        config_launched=settings.launched,
    )
    # What is handed over may be moved, wrapped and stepped out of sight.
    if (name in classes() or body(name) is None) and not is_harmless(name):
        given = (*call.args, *call.keywords.values())
        if not known.deals_out and body(f"{name}.__init__") is not None:
            # It reads them as they are, where its own loop is followed.
            given = tuple(each for each in given if not each.are(Loader))
        note_escape(call.do, call.name, given, call.node)
    # Options alone start nothing.
    if name != _ADDS_OPTIONS and not known.by_workers:
        _group_exists(call)


def _note_settings(call: Call, managed: ManagedObject, known: Framework, settings: EngineSettings) -> None:
    """What the framework's object was told that its methods go by."""
    empties = _empties(settings)
    # DeepSpeed's engine, FSDP and Megatron pass attributes on, other than PyTorch's wrapper.
    otherwise = known.passes_attributes or call.open_ended or "spreading" in _done_otherwise(call)
    for flag, holds in (
        (ManagerState.wraps_otherwise, otherwise),
        (ManagerState.empties, empties),
        (ManagerState.spreads_states, _spreads(call, *_PLUGINS.values(), launched=(*_PLUGINS,))),
        (ManagerState.spreads_parameters, empties or _spreads(call, "fsdp_plugin", launched=("FSDP",))),
        (ManagerState.shards_in_place, known.name == "accelerate" and _shards_in_place(call)),
        (ManagerState.leaves_loaders, _leaves_loaders(call)),
        (ManagerState.places, known.places and _places(call)),
        (ManagerState.alone, known.told_devices and _one_process(call)),
    ):
        if holds:
            call.do.set_flag(managed, flag)
    # `if accelerator.is_main_process or accelerator.distributed_type == DistributedType.DEEPSPEED:`
    spread = (how for how, plugin in _PLUGINS.items() if _spreads(call, plugin, launched=(how,)))
    if known.name == "accelerate" and (how := next(spread, _launched_as(call))):
        call.do.set_own_attribute(managed, "distributed_type", singleton(Library(f"{_DISTRIBUTED_TYPE}.{how}")))


def _engine_settings(call: Call, framework: str) -> EngineSettings:
    """The configuration of DeepSpeed, where it takes charge itself, by a plugin of Accelerate, or for a Trainer."""
    if framework == "transformers":
        return configuration(call, held) if (held := call.keywords.get("deepspeed")) is not None else EngineSettings()
    if framework == "deepspeed":
        return configuration(call, call.arg(*CONFIGURATION) or call.keywords.get("config_params"))
    plugin = single_of(call.keywords.get("deepspeed_plugin"))
    held = call.do.own_attribute(plugin, _OF_PLUGIN) if plugin is not None else None
    if held is not None:
        return configuration(call, held)
    # What `accelerate launch` is configured for counts where the program hands over no plugin.
    launched = framework == "accelerate" and plugin is None and _launched_as(call) == "DEEPSPEED"
    return launched_configuration(call) if launched else EngineSettings()


def _launched_as(call: Call) -> str:
    """How `accelerate launch` is configured to train: `MULTI_GPU`, `FSDP`, `DEEPSPEED`; empty where nothing says so."""
    said: str = call.do.launch.configured.get("distributed_type", "")
    return said.upper().removeprefix("DISTRIBUTEDTYPE.")


def _empties(settings: EngineSettings) -> bool:
    """ZeRO keeps the parameters elsewhere between their uses."""
    return int_of(single_of((settings.values or {}).get("zero_optimization.stage"))) == 3


def _shards_in_place(call: Call) -> bool:
    """FSDP in its second version, as the plugin says or `accelerate launch` is told; the first is the default."""
    plugin = single_of(call.keywords.get("fsdp_plugin"))
    if isinstance(plugin, ManagedObject):
        return int_of(single_of(call.do.own_attribute(plugin, "fsdp_version"))) == 2
    launched = plugin is None and _launched_as(call) == "FSDP"
    return launched and call.do.launch.configured.get("fsdp_config.fsdp_version") == "2"


def _spreads(call: Call, *plugins: str, launched: tuple[str, ...]) -> bool:
    """One of these plugins is surely given, or `accelerate launch` is told to train so."""
    if call.effect(ConfigureEffect) is None:
        return False
    given = [call.keywords[name] for name in plugins if name in call.keywords]
    # What code that was not read makes of an option may be None.
    surely = any(each.all(lambda value: value != NONE and not isinstance(value, (Unknown, Library))) for each in given)
    return surely or _launched_as(call) in launched


_DISTRIBUTED_TYPE = "accelerate.utils.DistributedType"
_PLUGINS = {"DEEPSPEED": "deepspeed_plugin", "FSDP": "fsdp_plugin", "MEGATRON_LM": "megatron_lm_plugin"}
_OF_PLUGIN = "hf_ds_config"


def _add_options(call: Call, parser: Value) -> None:
    """What `deepspeed.add_config_arguments(parser)` adds."""
    for words in (
        {"action": "store_true", "default": False, "flag": "--deepspeed"},
        {"type": Library("builtins.str"), "default": None, "flag": "--deepspeed_config"},
    ):
        given = {name: singleton(each if isinstance(each, Library) else Const(each)) for name, each in words.items()}
        add = call.do.attribute(parser, "add_argument", call.node)
        call.do.call(add, Arguments((given.pop("flag"),), given), call.node)


def _with_parts(call: Call) -> Arguments:
    """The arguments by name, and what stands in objects of settings: `dataloader_config.even_batches`."""
    given = call.by_name()
    objects = ((name, values.single) for name, values in given.keywords.items())
    parts = {
        f"{name}.{part}": call.do.own_attribute(each, part) or singleton(NONE)
        for name, each in objects
        if isinstance(each, ManagedObject)
        for part in call.do.names_of(each)
    }
    return replace(given, keywords={**given.keywords, **parts})


def _done_otherwise(call: Call) -> frozenset[str]:
    """The fields of `ConfigureEffect` of which an argument was given."""
    effect = call.effect(ConfigureEffect)
    said = vars(effect) if effect is not None else {}
    told = frozenset(what for what, names in said.items() if any(call.given(name) for name in names.split(" | ")))
    spread = effect is not None and _launched_as(call) in _PLUGINS
    return told | {"spreading"} if spread else told


def _preparing(cls: str) -> Iterator[PrepareEffect]:
    """What is said of its methods that prepare one thing or another."""
    said = (declared(f"{cls}.{name}") for name in methods(cls))
    effects = (each.effect(PrepareEffect) for each in said if each is not None)
    return (effect for effect in effects if effect is not None)


def _prepares(cls: str) -> bool:
    """It may deal out data itself. A command line is followed to the Trainer that it makes."""
    return body(f"{cls}.__init__") is None or any(_preparing(cls))


def _several_processes(call: Call) -> bool:
    """`Trainer(devices=4)`, `Trainer(strategy="ddp")`, `DDPStrategy(...)`: it is meant for several, or may be."""
    # Whatever the strategy is: Lightning refuses to be started in more.
    if _one_process(call):
        return False
    # Before version 2 it was told `gpus`.
    given = (call.arg(-1, name) for name in ("devices", "gpus", "num_nodes"))
    numbers = [value for values in given for value in values or ()]
    # `strategy="ddp" if args.gpus > 1 else None`
    said = (call.arg(-1, name) or () for name in _SPREADING)
    names = [text_of(value) or _made_by(value) for each in said for value in each]
    spreads = any(name.lower().startswith(("ddp", "fsdp", "deepspeed")) for name in names)
    # The runner of OpenMMLab: what has started the processes.
    launched = call.constant(-1, "launcher") not in (None, "none")
    single = any(name.startswith("single") for name in names)
    return spreads or launched or (not single and any(_may_be_several(call, each) for each in numbers))


def _may_be_several(call: Call, number: Value) -> bool:
    """How many GPUs or nodes: more than one, all, or as many as the user chooses, who is given not just one."""
    if isinstance(number, Const):
        return number.value in ("auto", -1, "-1") or (isinstance(number.value, int) and number.value > 1)
    usual = default_of(call.do, number)
    just_one = isinstance(usual, Const) and usual.value in (0, 1, "1")
    return isinstance(number, (Size, Unknown)) and number.is_setting and not just_one


def _as_made(call: Call) -> Call:
    """`Trainer.from_argparse_args(args, callbacks=[...])` with the options that the program knows, by their names."""
    options = single_of(call.arg(0, "args")) if call.name.endswith(_FROM_OPTIONS) else None
    if not isinstance(options, Namespace):
        return call
    names = option_names(call, options)
    held = {name: call.do.attribute(options, name, call.node) for name in sorted(names | _SPREADING)}
    # `Namespace(**settings)`: of what the program has not written there itself, a setting says nothing.
    held = {name: values for name, values in held.items() if name in names or not values.has(Unknown)}
    given = {name: values for name, values in call.keywords.items() if name != "args"}
    return replace(call, arguments=Arguments((), {**held, **given}, call.arguments.rest))


def option_names(call: Call, options: Namespace) -> set[str]:
    """The options that the program declares, and what it has written beside them."""
    declared_names = items_held(call.do.state(options, SettingState.option_names))
    return {*call.do.names_of(options), *filter(None, (text_of(each.single) for each in declared_names))}


def _made_by(value: Value) -> str:
    """The class of the library that has made it."""
    made_by = value.made_by if isinstance(value, ManagedObject) else value.escaped_from
    return made_by.rpartition(".")[2]


def _one_process(call: Call) -> bool:
    """`Trainer(devices=1)` on one node, or `Fabric(strategy=SingleDeviceStrategy(...))`."""
    strategy = call.arg(-1, "strategy") if call.name.startswith("lightning.") else None
    if strategy is not None and strategy.all(lambda each: (text_of(each) or _made_by(each)).startswith("SingleDev")):
        return True
    devices, nodes = call.arg(-1, "devices"), call.arg(-1, "num_nodes")
    items = known_items(call.do, single_of(devices))
    single = devices is not None and (
        devices.single in (Const(1), Const("1")) or (items is not None and len(items) == 1)
    )
    return single and not call.open_ended and (nodes is None or nodes.single == Const(1))


def _engine(call: Call) -> WrapEffect | None:
    """What a call does that returns a framework's own wrapper."""
    effect = call.effect(WrapEffect)
    return effect if effect is not None and not effect.kind else None


def _leaves_loaders(call: Call) -> bool:
    """`Trainer(use_distributed_sampler=False)`, which had another name before Lightning 2."""
    given = (single_of(call.arg(-1, name)) for name in ("use_distributed_sampler", "replace_sampler_ddp"))
    return any(FALSE in (each, default_of(call.do, each)) for each in given)


def _places(call: Call) -> bool:
    """It puts what it prepares on the GPU of the process: nothing says that it is to use the CPU, or may."""
    told = (("cpu", (False,)), ("device_placement", (True,)), ("accelerator", ("auto", "gpu", "cuda")))
    given = ((call.keywords.get(name), usual) for name, usual in told)
    return not (call.open_ended or call.args) and all(
        values is None or (isinstance(only := values.single, Const) and only.value in usual) for values, usual in given
    )


def _may_split_model(call: Call) -> bool:
    """Ranks that have parts of one model each must read the same data, and their loaders are right as they are."""
    effect = _engine(call)
    if effect is None:
        return False
    # A pipeline, which deals out the batches itself, refuses the engine's `backward`.
    return call.open_ended or any(call.given(name) for name in effect.topology.split(" | "))


def _group_exists(call: Call) -> None:
    """The framework makes the process group."""
    call.do.set_flag(PROCESS, ProcessState.group)


def _begin_once(call: Call) -> None:
    """`PartialState()` makes the group where there is none, tells the rank, and takes charge of nothing else."""
    if group_exists(call.do) is not True:
        begin_group(call, "accelerate.PartialState")


@MODELS.callable("deepspeed.init_distributed", "deepspeed.comm.init_distributed")
def _init_distributed(call: Call) -> Values:
    """It asks PyTorch for the process group where there is none yet."""
    if group_exists(call.do) is not True:
        begin_group(
            call,
            call.name,
            **how_to_meet(call, "dist_backend"),
            timed=call.given("timeout") is not None,
        )
    return take_charge(call)


@MODELS.effect(PrepareEffect)
def _prepare(call: Call, effect: PrepareEffect) -> Values:
    """Every object comes back under the framework's care."""
    managed = call.receiver
    if not isinstance(managed, ManagedObject):
        return NOT_ANSWERED
    _note_broadcast(call, managed)
    if call.name == "prepare" and call.do.flag(managed, ManagerState.shards_in_place) is YES:
        _note_refused(call)
    given = tuple(bare(values).map(lambda value: _prepared_here(call, effect, managed, value)) for values in call.args)
    # `prepare(model)` gives one object, `prepare(model, optimizer)` a tuple.
    if len(given) == 1:
        return given[0]
    return singleton(TupleOf(given))


def _note_refused(call: Call) -> None:
    """What shards a model in place exchanges the parameters that its optimizer holds: it takes both at once, and one
    model alone."""
    given = [values.single for values in call.args]
    models = [each.core for each in given if isinstance(each, (Module, Wrapper))]
    known = not call.open_ended and not any(each is None or isinstance(each, Unknown) for each in given)
    apart = known and not any(isinstance(each, Optimizer) for each in given)
    if models and (apart or len(models) > 1):
        why = "no optimizer" if apart else "several models"
        call.emit(ShardingRefused, module=models[0], why=why)


def _prepared_here(call: Call, effect: PrepareEffect, managed: ManagedObject, value: Value) -> Value:
    made = prepared(call, managed, value)
    if isinstance(value, (Allocated, Unknown)):
        call.emit(
            Prepare, managed=managed, call=call.name, given=value, made=made, opaque=call.open_ended,
            told=frozenset(call.keywords), by_itself=effect.by_itself,
        )  # fmt: skip
    return made


def _note_broadcast(call: Call, managed: ManagedObject) -> None:
    """Each model is wrapped into `DistributedDataParallel`, which sends the parameters of rank 0 to all others."""
    # What was prepared before is a wrapper.
    new = any(isinstance(value, Module) for value in call.all_values())
    alone = call.do.flag(managed, ManagerState.alone) is not NO or not call.do.several_processes
    # What all ranks do is the framework's affair.
    if new and not alone and call.do.path.divergence & Divergence.RANK:
        call.emit(Collective, call=call.name, by=managed.framework, group_exists=True)


def prepared(call: Call, managed: ManagedObject, value: Value) -> Value:
    """What a model or a loader is under the framework's care; anything else stays what it is."""
    # What comes back from `prepare` may go in again, and stays what it is.
    if isinstance(value, Wrapper) and call.do.flag(value, WrapperState.prepared) is not NO:
        return value
    told_apart = call.open_ended or not {"device_placement", "move_to_device"}.isdisjoint(call.keywords)
    brings = call.do.flag(managed, ManagerState.places) is YES and not told_apart
    if isinstance(value, (Module, Wrapper)):
        wrapper = _around(call, managed, value)
        call.do.set_flag(wrapper, WrapperState.prepared)
        # `model.module.module`: some versions of Lightning keep PyTorch's wrapper inside of their own.
        if wrapper.kind is WrapperKind.PREPARED:
            note_opened(call.do, [value])
        if call.do.flag(managed, ManagerState.empties) is YES:
            call.do.set_flag(value.core, ModuleState.emptied)
        if call.do.flag(managed, ManagerState.spreads_parameters) is YES:
            call.do.set_flag(value.core, ModuleState.gathers)
        if call.do.flag(managed, ManagerState.shards_in_place) is YES:
            call.do.set_flag(PROCESS, ProcessState.model_sharded)
            note_sharded(call.do, value.core)
            call.do.set_flag(value.core, ModuleState.holds_shards)
        if brings:
            put_on(call.do, value.core, singleton(value_of_kind("OwnGpu", "", call.place, managed.label)))
        return wrapper
    if isinstance(value, Loader) and _deals_out(call, managed, value):
        loader = Loader(
            call.allocation_site(), call.place, value.label, value.dataset, value.sampler, value.batch_sampler,
            value.shuffle,
            value.batch_size, value.num_workers, value.pin_memory, value.drop_last, managed=managed.framework,
        )  # fmt: skip
        if brings:
            call.do.set_flag(loader, LoaderState.brought)
        return loader
    return value


def _around(call: Call, managed: ManagedObject, model: Module | Wrapper) -> Wrapper:
    """What a framework puts around a model: PyTorch's wrapper as Accelerate does, its own around that as Fabric does,
    or its own alone."""
    # Deferred: most programs train without one.
    from gpudoctor.manifest.framework_roles import framework as framework_of

    passes_on = framework_of(managed.framework).passes_attributes
    options = _ddp_options(call, managed, passes_on)
    # What takes no gradients is not wrapped.
    evaluated = call.switch(-1, "evaluation_mode") is True or is_trainable(call.do, model) is False
    sharded = keeps_shards(call.do, managed)
    own = WrapperKind.FSDP if sharded else WrapperKind.DDP if options is not None else WrapperKind.PREPARED
    site, inner, kind = call.allocation_site(), model, WrapperKind.PREPARED if evaluated else own
    if passes_on and kind is not WrapperKind.PREPARED:
        inner = Wrapper((site, kind), call.place, model.label, kind, model, device_ids=singleton(TRUE))
        kind = WrapperKind.PREPARED
    wrapper = Wrapper(site, call.place, model.label, kind, inner, device_ids=singleton(TRUE))
    if passes_on:
        call.do.set_flag(PROCESS, ProcessState.methods_refused)
        call.do.set_flag(model.core, ModuleState.refuses_methods)
    # What the framework puts around the wrapper of the program is one too many.
    if isinstance(model, Wrapper):
        call.emit(Wrap, wrapper=wrapper, inner=model, kind=WrapperKind.PREPARED, group_exists=True)
    elif own is not WrapperKind.PREPARED and not evaluated:
        options = options or call
        call.emit(
            Wrap, wrapper=wrapper, inner=model, kind=own, group_exists=True, names_ids=True, keeps_parameters=sharded,
            trainable=is_trainable(call.do, model), find_unused=options.switch(-1, "find_unused_parameters"),
            static=options.switch(-1, "static_graph"), handed_to=call.name,
        )  # fmt: skip
        watch_models(call.do)
    return wrapper


def _ddp_options(call: Call, managed: ManagedObject, passes_on: bool) -> Call | None:
    """What `DistributedDataParallel` is given, as the stub of the framework notes it; None where nothing, or something
    else, is put around models."""
    searches = call.do.own_attribute(managed, "_searches")
    alone = call.do.flag(managed, ManagerState.alone) is not NO or not call.do.several_processes
    otherwise = call.do.flag(managed, ManagerState.wraps_otherwise) is not NO and not passes_on
    if searches is None or searches.any(lambda value: value == NONE) or alone or otherwise:
        return None
    static = call.do.own_attribute(managed, "_static") or singleton(NONE)
    return replace(call, arguments=Arguments((), {"find_unused_parameters": searches, "static_graph": static}))


def _deals_out(call: Call, managed: ManagedObject, loader: Loader) -> bool:
    """Each rank gets its share of what the loader reads."""
    # Deferred: most programs train without one.
    from gpudoctor.manifest.framework_roles import framework as framework_of

    # What one process does alone, it does with all of the data.
    if any(call.do.flag(managed, each) is not NO for each in (ManagerState.alone, ManagerState.leaves_loaders)):
        return False
    data = loader.dataset.single if loader.dataset is not None else None
    stream = data is not None and data.iterable is True
    return not (stream and framework_of(managed.framework).leaves_streams)


_WAITS_SINCE = [1, 5]
_MADE_FROM_OPTIONS_BEFORE = [2]


@MODELS.method(ManagedObject, "save_checkpoint")
def _save_checkpoint(call: Call[ManagedObject]) -> Values:
    """Lightning's has a barrier in it, under a rank guard it hangs; that of the first versions has none. Where nothing
    says which version it is, the constructor that later ones lack means one of these."""
    older = call.do.modules.is_before("lightning", _WAITS_SINCE)
    known = call.do.modules.is_before("lightning", _MADE_FROM_OPTIONS_BEFORE)
    if not older and (known or not call.receiver.made_by.endswith(_FROM_OPTIONS)):
        return managed_method(call)
    call.emit(Save, call=".save_checkpoint", path=as_path(call.given("filepath")))
    return singleton(NONE)
