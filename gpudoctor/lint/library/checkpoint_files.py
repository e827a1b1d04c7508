"""Files: checkpoints that are written and read."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpudoctor.lint.analyses.state_dicts import is_copied_to_cpu, origin, taken, written
from gpudoctor.lint.domain.abstract_state import NO, FileState, ModuleState, SettingState, TensorState
from gpudoctor.lint.domain.device import CPU
from gpudoctor.lint.domain.heuristics import PIPELINE
from gpudoctor.lint.domain.module import Module, StateDict, Wrapper
from gpudoctor.lint.domain.symbols import CallResult, OpenFile
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import NONE, Anonymous, Unknown, Value, Values, divergence_of, single_of, text_of
from gpudoctor.lint.events.files import Load, LoadState, Save, ShardedState, as_path
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet, union
from gpudoctor.lint.interface.contents import pairs
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, flatten, singleton
from gpudoctor.lint.library.class_kinds import LIBRARIES_OF_MODELS
from gpudoctor.lint.library.devices import devices_of, use
from gpudoctor.lint.library.sharding import hands_out_shards, is_cut_up, is_emptied, note_loaded
from gpudoctor.lint.library.tensors import report
from gpudoctor.lint.library.torch_nn import device_of, put_on
from gpudoctor.lint.library.unread_code import WRITES_TABLE
from gpudoctor.manifest.effects import SaveEffect


@MODELS.effect(SaveEffect)
def _save(call: Call, effect: SaveEffect) -> Values:
    path, spelled = _target(call, call.position(effect.path), effect.path, effect.opened)
    if effect.opened:
        report_written(call, call.given(effect.path), (*call.args, *call.keywords.values()))
    result, checkpoint = singleton(call.result(fresh=True)), effect.checkpoint or bool(effect.content)
    adds = bool(effect.mode) and str(call.constant(call.position(effect.mode), effect.mode)).startswith("a")
    if adds or (path is None and not checkpoint):
        return result
    content = call.given(effect.content)
    found = () if effect.by_parts else written(call.do, content)
    states, when = tuple((name, each.value) for name, each in found), tuple(each.condition for _, each in found)
    places = [device_of(call.do, state.state_of) for _, state in states]
    on_cpu = bool(places) and all(place is not None and place.single == CPU for place in places)
    # `for name, each in state.items(): state[name] = each.cpu()`
    dicts = [state for _, state in states if isinstance(state, StateDict)]
    parts = [call.do.state(state, TensorState.written_items) for state in dicts] if states else [content]
    copied = len(parts) >= len(states) and all(is_copied_to_cpu(call.do, each) for each in parts)
    call.emit(
        Save, call=f".{call.name}" if call.receiver is not None else call.name, path=as_path(path), spelled=spelled,
        states=states, states_when=when, whole=effect.whole, collective=effect.by_parts,
        waits=effect.waits, checkpoint=checkpoint, on_cpu=on_cpu or copied or effect.joins, copied=copied,
        joins=effect.joins,
        shards=any(hands_out_shards(call.do, state) for _, state in states),
        emptied=any(is_emptied(call.do, state) for _, state in states),
    )  # fmt: skip
    return result


@MODELS.method(Module, "save_pretrained", "push_to_hub")
def _save_pretrained(call: Call[Module]) -> Values:
    told_who = bool(call.keywords.keys() & {"is_main_process", "save_function"})
    path, spelled = _target(call, 0, "save_directory")
    # A whole state may be handed over.
    emptied = "state_dict" not in call.keywords and not call.open_ended and is_emptied(call.do, call.receiver)
    call.emit(
        Save, call="save_pretrained", path=as_path(path), spelled=spelled, told_who=told_who, emptied=emptied,
        states=(("", call.receiver),) if emptied else (), shards=emptied,
    )  # fmt: skip
    return singleton(NONE)


@MODELS.method(Unknown, "save_pretrained")
def _save_pipeline(call: Call[Unknown]) -> Values:
    """It writes the models that it holds. What else belongs to a model, as its tokenizer, are small files that each
    rank writes alike."""
    made_by = call.receiver.term.function if isinstance(call.receiver.term, CallResult) else None
    name = made_by.removesuffix(".from_pretrained") if isinstance(made_by, str) else ""
    holds = name.startswith(LIBRARIES_OF_MODELS) and PIPELINE.fits(name)
    if holds and not call.keywords.keys() & {"is_main_process", "save_function"}:
        path, spelled = _target(call, 0, "save_directory")
        call.emit(Save, call="save_pretrained", path=as_path(path), spelled=spelled, checkpoint=False, whole=True)
    return NOT_ANSWERED


def _target(call: Call, index: int, name: str, opened: bool = False) -> tuple[Values | None, str]:
    """The path that an argument names, and how the program writes it: of an open file what it was opened with."""
    # A file that is added to is made to have several writers.
    given = call.arg(index, name)
    return opened_for_writing(given) or ((None, "") if opened else (given, call.spelled(index, name)))


def opened_for_writing(handles: Values | None) -> tuple[Values, str] | None:
    """The path of a file that was opened to be written anew, and how the program wrote it there."""
    found: list[tuple[Values, str]] = []
    for binding in handles.bindings if handles is not None else ():
        match binding.value.term:
            case OpenFile(path=ValueSet() as path, mode=mode, spelled=spelled) if str(mode)[:1] in ("w", "x"):
                found.append((path.guarded_by(binding.condition), spelled))
            case _:
                return None
    # Of a file at one of several paths, depending on an option, it is known which they are.
    return (union(path for path, _ in found), found[0][1]) if found else None


def report_written(call: Call, file: Values | None, content: Sequence[Values]) -> None:
    """Who opens the file reads what this process has found out; a file of its own says whose it is."""
    divergence = Divergence.NONE
    for value in file or ():
        match value.term:
            case OpenFile(path=ValueSet() as path):
                divergence |= divergence_of((value, *path))
            case _:
                divergence |= value.divergence
    report(call.do, "file", content, call.place, divergence=divergence)


def note_written(call: Call, file: Value, lines: Iterable[Values], by_logger: bool = False) -> None:
    """Log the first time that lines are written to what `open` has returned, anew or behind what is there."""
    # What only some ranks write first, all may write later.
    if not isinstance(file, Unknown) or call.do.path.divergence or call.do.flag(file, FileState.written) is not NO:
        return
    match file.term:
        case OpenFile(made, ValueSet() as path, str() as mode, spelled) if mode[:1] in ("w", "x", "a"):
            adds, said = mode[:1] == "a", flatten(call.do, [each for values in lines for each in values])
            apart = any(map(_may_differ, said))
            # `for name, value in results.items(): file.write(...)`: what there is to go over, one rank alone may have.
            apart = apart or (not by_logger and call.do.execution.outlives_round(made))
            # Of what loggers say, another line may be the same on all ranks.
            if not (apart and by_logger):
                call.do.set_flag(file, FileState.written)
            # Each rank may add its own results, or say who it is.
            if adds and apart:
                return
            if not path.all(_is_device):
                call.emit(
                    Save, call=call.name, path=as_path(path), spelled=spelled, checkpoint=False, whole=True, adds=adds,
                    by_logger=by_logger,
                )  # fmt: skip


def _is_device(path: Value) -> bool:
    """It takes what it gets, and keeps nothing."""
    text = text_of(path) or ""
    return text.startswith("/dev/") and not text.startswith("/dev/shm/")


def _may_differ(line: Value) -> bool:
    apart = Divergence.RANK | Divergence.LOCAL | Divergence.UNREAD
    return bool(line.divergence & apart) or bool(line.shards)


@MODELS.method(Unknown, *WRITES_TABLE)
def _write_table(call: Call) -> Values:
    """A data set of the Hugging Face hub, or another table; without a file it gives the text back."""
    return _written_to(call, "dataset_path" if call.name == "save_to_disk" else "path_or_buf")


@MODELS.callable(*(f"{room}.Config.fromfile.dump" for room in ("mmcv", "mmcv.utils", "mmengine", "mmengine.config")))
def _dump_configuration(call: Call) -> Values:
    """`cfg.dump("config.py")` of OpenMMLab; without a file it gives the text back."""
    return _written_to(call, "file")


def _written_to(call: Call, parameter: str) -> Values:
    path, spelled = _target(call, 0, parameter)
    if path is not None:
        call.emit(Save, call=call.name, path=as_path(path), spelled=spelled, checkpoint=False, whole=True)
    return NOT_ANSWERED


@MODELS.callable("io.BytesIO", "io.StringIO", "tempfile.*")
def _own_file(call: Call) -> Values:
    """A file in memory or under a fresh name: each process has its own."""
    why = f"what {call.name} returns"
    return singleton(call.result(why, divergence=Divergence.LOCAL, fresh=True))


@MODELS.callable("torch.distributed.checkpoint.state_dict.StateDictOptions")
def _options(call: Call) -> Values:
    made = call.result("options of a state", fresh=True)
    # Only a full state is gathered: else each rank keeps its part.
    if call.is_true(0, "full_state_dict"):
        call.do.set_flag(made, SettingState.full_state)
    return singleton(made)


def _is_full(call: Call, options: Value) -> bool:
    return isinstance(options, Unknown) and call.do.flag(options, SettingState.full_state) is not NO


@MODELS.callable(
    *(f"torch.distributed.checkpoint.state_dict.get_{name}state_dict" for name in ("", "model_", "optimizer_"))
)
def _get_state(call: Call) -> Values:
    options = call.keywords.get("options")
    full = options is not None and options.all(lambda value: _is_full(call, value))
    for value in call.arg(0, "model") or ():
        # What is whole on each rank needs nobody else.
        if full and call.do.flag(value.core, ModuleState.sharded) is not NO:
            call.emit(ShardedState, call=call.name.rpartition(".")[2], owner=value, gathers=True)
        # Without it each rank gets its part, as from the model itself.
        elif options is None and "model_state" in call.name and hands_out_shards(call.do, value.core):
            return singleton(StateDict(call.allocation_site(), call.place, call.label, value.core))
    return singleton(call.result(fresh=True))


@MODELS.method((Tensor, Unknown), "full_tensor")
def _whole(call: Call[Tensor | Unknown]) -> Values:
    """A `DTensor` brings its parts together: all ranks of its mesh must ask for it, but for what each has whole."""
    if is_cut_up(call.do, call.receiver):
        call.emit(ShardedState, call=call.name, owner=call.receiver, gathers=True)
    return singleton(call.receiver if isinstance(call.receiver, Tensor) else call.result("a whole tensor", fresh=True))


@MODELS.callable(
    "torch.distributed.fsdp.FullyShardedDataParallel.optim_state_dict",
    "torch.distributed.fsdp.FullyShardedDataParallel.full_optim_state_dict",
)
def _optimizer_state(call: Call) -> Values:
    """`FSDP.optim_state_dict(model, optimizer)`."""
    only = call.first
    call.emit(ShardedState, call=call.name.rpartition(".")[2], owner=only, gathers=True)
    return singleton(call.result(fresh=True))


@MODELS.callable("torch.nn.modules.utils.consume_prefix_in_state_dict_if_present")
def _take_prefix_off(call: Call) -> Values:
    for value in call.args[0] if call.args else ():
        # Keys no longer carry `module.`, so they fit a bare model.
        if isinstance(value, (Tensor, Unknown)):
            call.do.set_flag(value, TensorState.rewritten)
    return singleton(NONE)


@MODELS.method((Module, Wrapper), "load_state_dict")
def _load_state(call: Call[Module | Wrapper]) -> Values:
    state = call.arg(0, "state_dict")
    loaded, entry = origin(call, state)
    own = taken(state)
    inside = call.do.own_attribute(call.receiver, "module") if isinstance(call.receiver, Module) else None
    call.emit(
        LoadState, target=call.receiver, taken=own, strict=call.switch(1, "strict", usual=True), loaded=loaded,
        entry=entry, as_wrapper=inside is not None and inside.any(lambda each: each.is_model),
    )  # fmt: skip
    note_loaded(call, call.receiver, loaded or single_of(state), from_file=entry is not None and not own)
    call.do.set_flag(call.receiver.core, ModuleState.restored)
    # `assign=True` puts the tensors of the file in the place of the parameters, wherever those were made.
    if call.constant(2, "assign"):
        put_on(call.do, call.receiver.core, singleton(Unknown(Anonymous("assigned", call.place), "a device")))
    return singleton(NONE)


@MODELS.method(Unknown, "load_state_dict")
def _load_into_unknown(call: Call[Unknown]) -> Values:
    """A state of what is not known: a scheduler keeps numbers, a model its weights."""
    loaded, _ = origin(call, call.arg(0, "state_dict"))
    if loaded is not None:
        call.emit(Escape, into=f"{call.receiver.label or 'the model'}.load_state_dict", values=(loaded,))
    return NOT_ANSWERED


def _targets(call: Call, location: Values | None) -> list[Values]:
    """The devices that `map_location` names, those of a dictionary from device to device included."""
    if location is None:
        return []
    entries = [pair for value in location for pair in pairs(call.do, value) or ()]
    return [target for _, target in entries] or [location]


@MODELS.callable("torch.load")
def _load(call: Call) -> Values:
    location = call.given("map_location")
    # Without it tensors return to the GPU they were saved from: GPU 0 for all ranks.
    for values in _targets(call, location):
        use(call, devices_of(values, call.place), "map_location", call.argument_places.get("map_location"))
    by_rank = (
        # One file per rank: then loading different states is what is wanted.
        Divergence.RANK if any(path.divergence & Divergence.RANK for path in call.given("f") or ()) else Divergence.NONE
    )
    result = Unknown(
        CallResult(call.name, call.allocation_site()),
        "what was in a file",
        call.label,
        by_rank,
        escaped_from="torch.load",
    )
    call.emit(
        Load, call=call.name, path=as_path(call.given("f")), spelled=call.spelled(0, "f"), result=result,
        onto=devices_of(location, call.place),
        names_device=location is not None and location.any(lambda value: not value.is_none),
    )  # fmt: skip
    return singleton(result)
