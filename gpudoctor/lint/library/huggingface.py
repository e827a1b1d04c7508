"""Models that transformers, diffusers and peft make, and where `device_map` puts them."""

from __future__ import annotations

from collections.abc import Sequence

from gpudoctor.lint.analyses.state_dicts import origin, taken
from gpudoctor.lint.domain.abstract_state import PROCESS, ManagerState, ModuleState, ProcessState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, TupleOf
from gpudoctor.lint.domain.function import Class, Instance, library_name_of
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.heuristics import NO_READY_MODEL, READY_MODEL, TRAINING_SETTINGS
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.rank import Size, SizeKind
from gpudoctor.lint.domain.symbols import CallResult
from gpudoctor.lint.domain.value import (
    FALSE,
    Anonymous,
    Const,
    Unknown,
    Value,
    Values,
    constant_of,
    int_of,
    single_of,
    text_of,
)
from gpudoctor.lint.events.files import LoadState
from gpudoctor.lint.events.knowledge import UseManaged
from gpudoctor.lint.events.placement import SpreadByMap
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.lint.interface.contents import known_items, possible_pairs
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, flatten, singleton
from gpudoctor.lint.library.class_kinds import LIBRARIES_OF_MODELS, is_module_class
from gpudoctor.lint.library.devices import as_device, default_device, use
from gpudoctor.lint.library.engine_configuration import EngineSettings, configuration
from gpudoctor.lint.library.setting_classes import chosen_object
from gpudoctor.lint.library.torch_nn import adopt
from gpudoctor.lint.library.unread_code import note_escape
from gpudoctor.lint.library.written_settings import read_from
from gpudoctor.manifest.compiled import classes

_TELLS_OF_ZERO = ("integrations", "integrations.deepspeed", "deepspeed")

LOADING = (
    "config", "cache_dir", "state_dict", "from_tf", "ignore_mismatched_sizes", "force_download", "local_files_only",
    "token", "use_auth_token", "revision", "torch_dtype", "dtype", "low_cpu_mem_usage", "trust_remote_code",
    "output_loading_info", "use_safetensors", "attn_implementation", "resume_download", "proxies", "from_flax",
)  # fmt: skip
"""What `from_pretrained` takes for itself."""


_RENAMED = {"evaluation_strategy": "eval_strategy"}
_STEPS = "gradient_accumulation_steps"
_DEFAULTS = {"eval_strategy": Const("no"), _STEPS: Const(1)}
"""Of settings that are given in the program, with no file or command line."""
_PARSER = "transformers.HfArgumentParser"
_FROM_ENTRIES = ("parse_dict", "parse_json_file", "parse_yaml_file")
PARSE = ("parse_args_and_config", "parse_args_into_dataclasses", *_FROM_ENTRIES)
SPREADING = ("auto", "balanced", "balanced_low_0", "sequential")
"""What `device_map` may be for a model that lies on several GPUs."""
SEVERAL = ("deepspeed", "fsdp", "fsdp_config", "ddp_backend", "ddp_find_unused_parameters", "local_rank", "ddp_timeout")


def _settings_classes() -> tuple[str, ...]:
    found = (name for name in classes() if name.startswith(("transformers.", "trl.")))
    return tuple(name for name in found if TRAINING_SETTINGS.fits(name))


_SETTINGS = frozenset(_settings_classes())


@MODELS.callable(*_SETTINGS)
def _training_arguments(call: Call) -> Values:
    """Some of the settings say that the trainer is started in several processes."""
    several = any(name in call.keywords for name in SEVERAL)
    settings = configuration(call, call.keywords["deepspeed"]) if "deepspeed" in call.keywords else EngineSettings()
    call.emit(
        UseManaged, framework="transformers", call=call.name, several=several, given=call.arguments,
        config=settings.entries, config_path=settings.path, shares_data=False,
    )  # fmt: skip
    made = _settings_of(call, call.name)
    _note_spreading(call, made, settings, any(constant_of(value) for value in call.keywords.get("fsdp") or ()))
    for name, values in call.keywords.items():
        call.do.set_own_attribute(made, _RENAMED.get(name, name), values)
    if not call.open_ended:
        for name, default in _DEFAULTS.items():
            if call.do.own_attribute(made, name) is None:
                call.do.set_own_attribute(made, name, singleton(default))
    return singleton(made)


def _settings_of(call: Call, name: str) -> ManagedObject:
    _ask_for_device(call)
    made = ManagedObject(call.allocation_site(), call.place, call.label, "transformers", name, name)
    call.do.set_own_attribute(made, "n_gpu", singleton(_gpus(call)))
    return made


def _note_spreading(call: Call, made: Value, settings: EngineSettings, sharded: bool) -> None:
    """How a Trainer with these settings spreads the model over the ranks."""
    third = int_of(single_of((settings.values or {}).get("zero_optimization.stage"))) == 3
    for flag, holds in (
        (ManagerState.empties, third),
        (ManagerState.spreads_states, sharded or settings.values is not None),
        (ManagerState.spreads_parameters, sharded or third),
    ):
        if holds:
            call.do.set_flag(made, flag)


def _as_launched(call: Call, made: ManagedObject) -> None:
    """What the command line says of it, where what starts the program is known."""
    steps = call.do.launch.option((f"--{_STEPS}",))
    if isinstance(steps, str) and steps.isdecimal():
        call.do.set_own_attribute(made, _STEPS, singleton(Const(int(steps))))


def _ask_for_device(call: Call) -> None:
    """As soon as they are made, such settings ask for the device of the process, and make the process group for it."""
    if call.do.several_processes:
        call.do.set_flag(PROCESS, ProcessState.group)


def _gpus(call: Call) -> Value:
    """One GPU for each process, all of them only where there is one process."""
    return Const(1) if call.do.several_processes else Size(SizeKind.DEVICES, place=call.place)


@MODELS.callable(_PARSER)
def _parser(call: Call) -> Values:
    asked = call.arg(0, "dataclass_types")
    term = CallResult(call.name, (asked,) if asked is not None else call.allocation_site())
    return call.unknown(term, "a configuration", config=True, escaped_from=call.name)


@MODELS.callable(*(f"{_PARSER}.{name}" for name in PARSE))
@MODELS.method(Instance, *PARSE)
def _parsed(call: Call[Unknown | Instance]) -> Values:
    """An object of each class, with what the user or a file chooses for its fields."""
    asked = _asked(call)
    chosen = tuple(_chosen(call, each.single) for each in asked)
    for made in chosen:
        _take_written(call, made.single)
    # One more: the words of the command line that no class knows.
    if call.is_true(-1, "return_remaining_strings"):
        chosen += (_chosen(call, None),)
    return singleton(TupleOf(chosen)) if asked else NOT_ANSWERED


def _take_written(call: Call[Unknown | Instance], made: Value | None) -> None:
    """What a file says of the fields of an object, or a dictionary."""
    given = call.args[0] if call.args and call.name.rpartition(".")[2] in _FROM_ENTRIES else None
    written = single_of(read_from(call, given) or given) if given is not None else None
    pairs = possible_pairs(call.do, written) if made is not None and written is not None else ()
    for name, values in ((text_of(single_of(key)), values) for key, values in pairs):
        if name and (isinstance(made, ManagedObject) or call.do.own_attribute(made, name) is not None):
            call.do.set_own_attribute(made, name, values)


@MODELS.callable(f"{_PARSER}.parse_args")
def _in_one(call: Call[Unknown]) -> Values:
    """As of any parser, one object that has all options: those of one class are its fields."""
    asked = _asked(call)
    return _chosen(call, asked[0].single) if len(asked) == 1 else NOT_ANSWERED


def _asked(call: Call[Unknown | Instance]) -> Sequence[Values]:
    """The classes that the parser was made with, or one of the project that derives from it."""
    match call.receiver:
        case Unknown(CallResult(str() as name, (ValueSet() as given, *_))) if name == _PARSER:
            return known_items(call.do, given.single) or (given,)
        case Instance(cls=Class() as cls) if _PARSER in cls.library_bases:
            held = call.do.own_attribute(call.receiver, "dataclass_types")
            return (known_items(call.do, held.single) or (held,)) if held is not None else ()
    return ()


def _chosen(call: Call, cls: Value | None) -> Values:
    if (name := library_name_of(cls)) in classes():
        made = _settings_of(call, name)
        _as_launched(call, made)
        _note_launched(call, made)
        return singleton(made)
    if isinstance(cls, Class) and not _SETTINGS.isdisjoint(cls.library_bases):
        _ask_for_device(call)
    if not isinstance(cls, Class):
        return call.unknown(Anonymous("configuration", call.allocation_site()), "a configuration", config=True)
    chosen = chosen_object(call, cls)
    if not _SETTINGS.isdisjoint(cls.library_bases) and chosen.single is not None:
        _note_launched(call, chosen.single)
    return chosen


def _note_launched(call: Call, made: Value) -> None:
    """`train.py --deepspeed zero3.json` and `--fsdp full_shard`, as what starts the program says."""
    engine, sharded = (call.do.launch.option((name,)) for name in ("--deepspeed", "--fsdp"))
    settings = configuration(call, singleton(Const(engine))) if isinstance(engine, str) else EngineSettings()
    _note_spreading(call, made, settings, isinstance(sharded, str) and bool(sharded))


@MODELS.callable("transformers.*", "diffusers.*", "peft.*")
def _library(call: Call) -> Values:
    owner, _, last = call.name.rpartition(".")
    made = owner.rpartition(".")[2]
    if last in ("from_pretrained", "from_config") and made[:1].isupper() and not NO_READY_MODEL.fits(made):
        return singleton(_ready_model(call))
    if last[:1].isupper() and READY_MODEL.fits(last) and call.full_name not in classes():
        return singleton(_ready_model(call))
    # What is handed over to be called may use anything that it knows.
    handed = [values for values in call.args if values.any(lambda value: value.is_handed_over)]
    if handed:
        note_escape(call.do, call.name, tuple(handed), call.node)
    return singleton(call.result())


@MODELS.method(Class, "from_pretrained")
def _own_model(call: Call[Class]) -> Values:
    """A model of the project with the weights of a file: its constructor is handed a configuration, and what else is
    given by name."""
    cls = call.receiver
    base = next((name for name in sorted(cls.library_bases) if name.startswith(LIBRARIES_OF_MODELS)), None)
    if base is None or call.open_ended or "device_map" in call.keywords:
        return NOT_ANSWERED
    if not is_module_class(cls):
        made_by = f"{base}.from_pretrained"
        return call.unknown(CallResult(made_by, call.args), f"what {made_by} returns", escaped_from=made_by)
    config = call.keywords.get("config") or singleton(
        Unknown(Anonymous("configuration", call.allocation_site()), "a configuration", "config", config=True)
    )
    given = {name: values for name, values in call.keywords.items() if name not in LOADING}
    made = call.do.call(singleton(cls), Arguments((config, *call.args[1:]), given), call.node)
    for value in made:
        # As `from_pretrained` leaves it.
        call.do.set_own_attribute(value, "training", singleton(FALSE))
    return made


@MODELS.callable(*(f"transformers.{module}.HfDeepSpeedConfig" for module in _TELLS_OF_ZERO))
def _tells_of_zero(call: Call) -> Values:
    call.do.set_flag(PROCESS, ProcessState.told_of_zero)
    return NOT_ANSWERED


@MODELS.callable("transformers.modeling_utils.apply_chunking_to_forward")
@MODELS.callable("transformers.pytorch_utils.apply_chunking_to_forward")
def _in_chunks(call: Call) -> Values:
    """It calls what it is given, on all of the input or on parts of it."""
    return call.do.call(call.args[0], Arguments(call.args[3:]), call.node) if call.args else NOT_ANSWERED


def _ready_model(call: Call) -> Module:
    module = Module(call.allocation_site(), call.place, call.label, made_by=call.name, parameters=True)
    placed = call.keywords.get("device_map")
    where = default_device(call.do) if placed is None else singleton(_placed(call, module, placed))
    call.do.set_state(module, ModuleState.device, where)
    return module


def _placed(call: Call, module: Module, device_map: Values) -> Value:
    """`device_map={"": index}` puts the whole model on one device; other maps spread it."""
    place = call.argument_places.get("device_map", call.place)
    _note_map(call, module, device_map)
    for value in flatten(call.do, list(device_map)):
        device = as_device(value, place) if text_of(value) is None else None
        if device is not None:
            use(call, singleton(device), "device_map", place)
            return device
    return Unknown(Anonymous("device map", module), "placed by a device map", call.label)


def _note_map(call: Call, module: Module, device_map: Values) -> None:
    """Log a map that does not know which process reads it."""
    only = device_map.single
    spread = isinstance(only, Const) and only.value in SPREADING
    held = flatten(call.do, [only]) if isinstance(only, DictOf) else []
    first = len(held) == 1 and held[0] in (Const(0), Const("cuda:0"))
    if only is not None and (spread or first):
        in_bits = any(call.is_true(-1, name) for name in ("load_in_4bit", "load_in_8bit"))
        quantized = in_bits or "quantization_config" in call.keywords
        call.emit(SpreadByMap, model=module, over_all=spread, quantized=quantized)


_PREPARES_BITS = ("prepare_model_for_kbit_training", "prepare_model_for_int8_training")
"""The later one has another name since peft 0.3."""


@MODELS.callable("peft.get_peft_model", *(f"peft.{name}" for name in _PREPARES_BITS), "peft.PeftModel.from_pretrained")
def _adapted(call: Call) -> Values:
    """An adapter around a model: a module that holds it, where it was."""
    given = call.first
    if not isinstance(given, (Module, Wrapper)):
        return call.unknown(CallResult(call.name, call.args), f"what {call.name} returns")
    if call.name.endswith(_PREPARES_BITS):
        return singleton(given)
    module = Module(call.allocation_site(), call.place, call.label, made_by=call.name, parameters=True)
    where = call.do.state(given, ModuleState.device)
    if where is not None:
        call.do.set_state(module, ModuleState.device, where)
    adopt(call.do, module, given)
    return singleton(module)


@MODELS.method(Module, "merge_and_unload", "unload")
def _merged(call: Call[Module]) -> Values:
    """The model below an adapter, which has become a part of its weights."""
    return singleton(call.receiver) if call.receiver.made_by.startswith("peft.") else NOT_ANSWERED


@MODELS.callable("peft.set_peft_model_state_dict")
def _load_adapter(call: Call) -> Values:
    """The `load_state_dict` of an adapter's part of a model."""
    state, model = call.arg(1, "peft_model_state_dict"), call.first
    if isinstance(model, (Module, Wrapper)):
        loaded, entry = origin(call, state)
        call.emit(LoadState, target=model, taken=taken(state), loaded=loaded, entry=entry)
    return call.unknown(CallResult(call.name, call.args), "names that did not fit")
