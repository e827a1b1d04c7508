"""What the words of a stub mean: models for all functions and names of which a stub says enough.

A library function that all ranks must call, or that returns a rank, needs nothing but its stub.
"""

from __future__ import annotations

from ast import literal_eval
from functools import lru_cache
from itertools import chain

from gpudoctor.diagnostic import Location
from gpudoctor.lint.analyses.collective_taint import gathered
from gpudoctor.lint.domain.abstract_state import (
    NO,
    PROCESS,
    YES,
    ManagerState,
    ModuleState,
    ProcessState,
    TensorState,
    WrapperState,
)
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.function import ContextManager, Instance
from gpudoctor.lint.domain.group import Cluster, Group, ManagedObject, group_of, has_all_processes
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.optim import Optimizer, Parameters
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, Size, SizeKind
from gpudoctor.lint.domain.symbols import Attribute, CallResult, OwnReading, RankIs, names_day
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Truth, Unknown, Value, Values, single_of, text_of
from gpudoctor.lint.events.collective import Collective, as_exchanged
from gpudoctor.lint.events.files import ReadFile, as_path
from gpudoctor.lint.events.process import GroupAsked, RankAsked, ReadOwn
from gpudoctor.lint.events.reporting import Scored, StartLogger
from gpudoctor.lint.events.training_step import Backward, EngineStep, GradientSync, UnscaleGradients
from gpudoctor.lint.flow.condition import Atom, Divergence, Literal
from gpudoctor.lint.interface.contents import known_items
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import (
    MODELS,
    NOT_ANSWERED,
    Call,
    LibraryContext,
    alternatives,
    flatten,
    logs,
    said_by_stub,
    singleton,
)
from gpudoctor.lint.library.hidden_ranks import hide_rank
from gpudoctor.lint.library.library_names import canonical
from gpudoctor.lint.library.stub_bodies import declared_bases, follow
from gpudoctor.lint.library.tensors import report
from gpudoctor.lint.library.torch_distributed import place_in_group
from gpudoctor.manifest.compiled import classes, declared, functions, kind_of_attribute, taking_charge, values
from gpudoctor.manifest.effects import (
    KINDS,
    RANKS,
    BackpropagateEffect,
    CollectiveEffect,
    GiveBackEffect,
    LaunchEffect,
    LoggerEffect,
    MeasureEffect,
    OpenEffect,
    ReadFileEffect,
    ShowEffect,
    StepEffect,
    TrainEffect,
    UnscaleEffect,
)
from gpudoctor.record import replace

TAKE_CHARGE = taking_charge()
ENGINE = "deepspeed.DeepSpeedEngine"
_RANKS = {"GlobalRank": RankKind.GLOBAL, "LocalRank": RankKind.LOCAL, "NodeRank": RankKind.NODE}
_SIZES = {
    "WorldSize": SizeKind.WORLD,
    "LocalWorldSize": SizeKind.LOCAL_WORLD,
    "Nodes": SizeKind.NODES,
    "GpuCount": SizeKind.DEVICES,
}
# Whose launcher says so. All others ask their framework, which has its processes from anywhere.
_SOURCES = {"mpi4py": RankSource.MPI, "torch": RankSource.PROCESS_GROUP}


@lru_cache(maxsize=64)
def _constant(kind: str) -> Const:
    """What `Literal[...]` of a stub says; each has a handful of them, and names of libraries are asked often."""
    return Const(literal_eval(kind[8:-1]))


def value_of_kind(kind: str, library: str, place: Location, label: str) -> Value:
    """The value that a stub declares by one of its words."""
    if kind == "None":
        return NONE
    if kind.startswith("Literal["):
        return _constant(kind)
    if kind == "OwnGpu":
        return Device("cuda", Rank(RankKind.LOCAL, RankSource.FRAMEWORK), place)
    if kind in _RANKS:
        return Rank(_RANKS[kind], _SOURCES.get(library, RankSource.FRAMEWORK), place=place)
    if kind in _SIZES:
        return Size(_SIZES[kind], place=place)
    # The same atom as `rank == 0`, so guards of both kinds are recognised alike.
    atom = Atom(RankIs(RankKind.GLOBAL, "==", 0), Divergence.RANK, label, place, "rank 0")
    return Truth(Literal(atom, True))


def alone(kind: str) -> Value:
    """What is declared by this word where there is one process."""
    return Const(True) if kind == "FirstRank" else Const(1 if kind in _SIZES else 0)


@MODELS.callable(*(name for kind in KINDS for name in functions(kind)))
def returns_kind(call: Call) -> Values:
    """What the stub of a function says that it returns."""
    kind, library = call.declared.returns if call.declared is not None else "", call.name.partition(".")[0]
    # One process is rank 0: a guard on it always holds.
    if kind in RANKS and library == "torch" and not call.do.several_processes:
        return singleton(alone(kind))
    # No rank-dependent test: on a shared disk all ranks get one answer, apart from races.
    if kind == "IsThere":
        return call.unknown(CallResult(call.name, call.args), "whether a file is there")
    if kind == "PointInTime":
        # All ranks start on one day.
        form = text_of(call.first) if call.name == "time.strftime" else None
        if form is not None and names_day(form):
            return call.unknown(CallResult(call.name, form), "the date")
        identity = call.allocation_site()
        call.emit(ReadOwn, call=call.name, identity=identity, clock=True)
        return call.unknown(OwnReading(identity), "a clock", call.do.launch.found_apart, escaped_from=call.name)
    if kind == "OwnGenerator":
        # What it draws on another rank depends on its seed; what it is given it keeps to itself.
        drawn, depends = Anonymous("generator", call.allocation_site()), Divergence.LOCAL | Divergence.UNREAD
        return call.unknown(drawn, "a generator of random numbers", depends, escaped_from=call.name)
    if kind == "Setting":
        setting = Unknown(Anonymous("configuration", call.name), "a configuration", call.label, config=True)
        hide_rank(call.do, setting, call.args)
        return singleton(setting)
    of_group = call.name in ("torch.distributed.get_rank", "torch.distributed.get_world_size")
    if of_group and call.do.flag(PROCESS, ProcessState.group) is NO:
        call.emit(GroupAsked, call=call.name.rpartition(".")[2])
    value = value_of_kind(kind, library, call.place, call.label)
    if isinstance(value, Rank) and library not in _SOURCES and not call.do.execution.in_body:
        call.emit(RankAsked)
    if isinstance(value, Size) and not has_all_processes(call.given("group")):
        value = replace(value, of_part=True)
    part = next((each for each in call.given("group") or () if isinstance(each, Group)), None)
    return place_in_group(call, part) if isinstance(value, Rank) and part is not None else singleton(value)


def _declared_value(name: str, kind: str) -> None:
    @MODELS.name(name)
    def _value(do: LibraryContext, place: Location) -> Values:
        if kind in classes():
            return singleton(ManagedObject((name,), place, name.rpartition(".")[2], "", kind, kind))
        return singleton(value_of_kind(kind, name.partition(".")[0], place, name.rpartition(".")[2]))


for _name, _kind in values().items():
    _declared_value(_name, _kind)


@MODELS.effect(CollectiveEffect)
def _collective(call: Call, effect: CollectiveEffect) -> Values:
    if effect.asked_by and call.constant(call.position(effect.asked_by), effect.asked_by) is not True:
        return singleton(NONE)
    (library, _, _), name, function = call.full_name.partition("."), call.name.rpartition(".")[2], call.declared
    why = "what a collective returns" if effect.waits else "values from all ranks"
    made = Unknown(
        CallResult(call.name, call.allocation_site()),
        why,
        call.label,
        escaped_from=call.full_name,
        agreed=not effect.waits,
    )
    subject = call.given(effect.writes or effect.sends or (function.first if function is not None else ""))
    # What one process does alone asks no other rank.
    if not isinstance(call.receiver, ManagedObject) or call.do.flag(call.receiver, ManagerState.alone) is NO:
        call.emit(
            Collective, call=name, by=library, subject=as_exchanged(subject), effect=effect,
            in_place=bool(effect.writes), returned=None if effect.waits else made,
            group=group_of(call.given("group")), asked=call.receiver, spread=_is_spread(call, effect, subject),
        )  # fmt: skip
    for value in flatten(call.do, list(subject or ())) if effect.writes else ():
        if isinstance(value, Tensor):
            call.do.set_flag(value, TensorState.reduced)
    # `gather_for_metrics((preds, labels))` gives back as many as it got.
    given = single_of(subject)
    items = known_items(call.do, given) if isinstance(given, TupleOf) else None
    if items:
        return singleton(TupleOf(tuple(gathered(call, effect, each) or singleton(made) for each in items)))
    return gathered(call, effect, subject) or singleton(made)


def _is_spread(call: Call, effect: CollectiveEffect, subject: Values | None) -> bool:
    """The framework has spread over the ranks what this brings together."""
    asked = call.receiver
    if not isinstance(asked, ManagedObject):
        if not effect.of_parameters:
            return False
        given = [asked] if isinstance(asked, Wrapper) else flatten(call.do, list(subject or ()))
        models = [model for each in given for model in (each.modules if isinstance(each, Parameters) else (each,))]
        return any(call.do.flag(each.core, ModuleState.gathers) is YES for each in models)
    states, parameters = ManagerState.spreads_states, ManagerState.spreads_parameters
    by_states = effect.of_states and call.do.flag(asked, states) is YES
    return by_states or (effect.of_parameters and call.do.flag(asked, parameters) is YES)


@MODELS.effect(ReadFileEffect)
def _reads_file(call: Call, effect: ReadFileEffect) -> Values:
    name = call.declared.first if call.declared is not None else ""
    call.emit(ReadFile, call=call.name, path=as_path(call.given(name)), spelled=call.spelled(0, name))
    return NOT_ANSWERED


@told(HOOKS.starts_ranks)
def _starts_ranks(name: str) -> bool:
    function = declared(canonical(name))
    trains = function.effect(TrainEffect) if function is not None else None
    launches = function is not None and function.effect(LaunchEffect) is not None
    return launches or (trains is not None and trains.in_ranks)


MODELS.effect(MeasureEffect)(logs(Scored, NOT_ANSWERED, call="name"))


@MODELS.effect(LoggerEffect)
def _starts_logger(call: Call, effect: LoggerEffect) -> Values:
    logger, shared = call.result("an experiment logger", fresh=True), _is_meant_for_all(call, effect)
    call.emit(StartLogger, call=call.name, shared=shared, logger=logger, adds_file=effect.adds_file)
    return singleton(logger)


@MODELS.name("wandb.run")
def _open_run(do: LibraryContext, place: Location) -> Values:
    """The run of this process, or None: `if wandb.run is None: wandb.init()`."""
    term = Anonymous("run", place)
    return singleton(Unknown(term, "a run", "wandb.run", Divergence.LOCAL, escaped_from="wandb.run"))


@MODELS.effect(OpenEffect)
def _opens(call: Call, effect: OpenEffect) -> Values:
    if effect.keeps_gradients:
        call.emit(GradientSync, target=call.receiver, call=call.name)
    return singleton(ContextManager(call.full_name))


@MODELS.effect(ShowEffect)
def _shows(call: Call, effect: ShowEffect) -> Values:
    shown, place = (*call.args, *call.keywords.values()), call.place
    if effect.where_made:
        numbers = (each for values in shown for leaf in alternatives(call.do, values) for each in leaf)
        place = next((each.place for each in numbers if isinstance(each, Tensor)), place)
    report(call.do, "log", shown, place, averaged=effect.averages)
    return singleton(NONE)


@MODELS.effect(GiveBackEffect)
def _gives_back(call: Call, effect: GiveBackEffect) -> Values:
    given = call.given(effect.given) or singleton(NONE)
    if effect.wrapped:
        return given.map(lambda value: replace(value, averaging=True) if isinstance(value, Optimizer) else value)
    return given.map(lambda value: value.core) if effect.unwrapped else given


@MODELS.effect(BackpropagateEffect)
def _backpropagates(call: Call, effect: BackpropagateEffect) -> Values:
    # `accelerator.backward(loss)` scales the loss before it calls `loss.backward()`.
    for value in call.given(effect.loss) or ():
        forwards, complete = (value.forwards, True) if isinstance(value, Tensor) else (frozenset(), False)
        library = getattr(call.receiver, "framework", "") or call.full_name.partition(".")[0]
        call.emit(Backward, loss=value, forwards=forwards, complete=complete, managed=library)
    return singleton(NONE)


MODELS.effect(UnscaleEffect)(logs(UnscaleGradients))


MODELS.effect(StepEffect)(logs(EngineStep, engine="receiver"))


@MODELS.attribute(ManagedObject)
@MODELS.attribute(Cluster)
def declared_attribute(call: Call[ManagedObject | Cluster | Wrapper]) -> Values:
    """What the stub of its class says of an attribute."""
    return _attribute_in(call, call.receiver, call.receiver.class_name)


@MODELS.attribute(Instance)
def _inherited_attribute(call: Call[Instance]) -> Values:
    """What the stub of a library's class says of an attribute, that a class of the project derives from."""
    found = (_attribute_in(call, call.receiver, base) for base in declared_bases(call.receiver.cls))
    return next((each for each in found if each is not NOT_ANSWERED), NOT_ANSWERED)


def _attribute_in(call: Call, owner: ManagedObject | Cluster | Wrapper | Instance, class_name: str) -> Values:
    kind = kind_of_attribute(class_name, call.name)
    if not kind and declared(f"{class_name}.{call.name}") is None:
        others = declared(f"{class_name}.__getattr__")
        kind = others.returns if others is not None else ""
    # A part of its own, the same whenever it is asked for.
    if "." in kind:
        framework = TAKE_CHARGE.get(class_name, "")
        return singleton(ManagedObject((owner, call.name), call.place, call.label, framework, class_name=kind))
    if kind == "Setting":
        why = f"the {call.name} of {owner.label}"
        return call.unknown(Attribute(owner, call.name), why, config=True)
    if kind in RANKS and isinstance(owner, ManagedObject) and call.do.flag(owner, ManagerState.alone) is not NO:
        return singleton(alone(kind))
    return singleton(_asked(call, kind)) if kind else NOT_ANSWERED


def _asked(call: Call, kind: str) -> Value:
    """What an object of a framework says of this rank, where the program wants to know it."""
    if (kind in _RANKS or kind == "FirstRank") and not call.do.execution.in_body:
        call.emit(RankAsked)
    return value_of_kind(kind, "", call.place, call.label)


@MODELS.method((ManagedObject, Wrapper))
def managed_method(call: Call[ManagedObject | Wrapper]) -> Values:
    """What the stub of its class says of a method."""
    if not call.receiver.class_name:
        return _as_engine(call)
    answered = _method_in(call, call.receiver)
    return answered if answered is not NOT_ANSWERED else singleton(call.method_result(call.allocation_site()))


@MODELS.called(ManagedObject)
def _managed_call(call: Call[ManagedObject]) -> Values:
    """What the stub of its class says of calling it."""
    return _method_in(call, call.receiver) if call.receiver.class_name else NOT_ANSWERED


def engine_can(name: str) -> bool:
    """DeepSpeed's engine has a method of this name that does something to the training."""
    method = declared(f"{ENGINE}.{name}")
    return method is not None and bool(method.words)


def _as_engine(call: Call[ManagedObject | Wrapper]) -> Values:
    """What a framework has prepared is DeepSpeed's engine where it is asked for what that alone can do."""
    asked = call.receiver
    if not isinstance(asked, Wrapper) or call.do.flag(asked, WrapperState.prepared) is NO or not engine_can(call.name):
        return NOT_ANSWERED
    engine = ManagedObject(("as an engine", asked), call.place, call.label, "deepspeed", ENGINE, ENGINE)
    known = Call[ManagedObject](call.do, call.name, call.arguments, call.node, call.result_name, engine)
    return _method_in(known, engine)


@MODELS.method((Instance, Module))
def inherited_method(call: Call[Instance | Module]) -> Values:
    """What the stub of a library's class says of a method, that a class of the project derives from."""
    for base in declared_bases(call.receiver.cls):
        if declared(f"{base}.{call.name}") is not None:
            standing = as_its_base(call.receiver, base)
            known = Call[ManagedObject](call.do, call.name, call.arguments, call.node, call.result_name, standing)
            return _method_in(known, call.receiver)
    return NOT_ANSWERED


def as_its_base(made: Instance | Module, base: str) -> ManagedObject:
    """An object of the project as one of the library's class that its class derives from."""
    identity = ("as one of its library", made)
    return ManagedObject(identity, made.place, made.label, TAKE_CHARGE.get(base, ""), base, base)


def _method_in(call: Call, owner: Value) -> Values:
    """What the words and the body of a method do for an object, whose class is that of the receiver."""
    answered, followed = said_by_stub(call), follow(call, call.full_name, owner)
    if followed is not NOT_ANSWERED:
        return followed
    if answered is not NOT_ANSWERED:
        return answered
    returns = call.declared.returns if call.declared is not None else ""
    match returns:
        case "Setting":
            # It may be another one at each step, as whether this is the last micro-batch.
            result = call.method_result(call.allocation_site())
            return call.unknown(result.term, result.why, config=True)
        case "None":
            return singleton(NONE)
    return singleton(_asked(call, returns)) if returns in RANKS else NOT_ANSWERED


def _is_meant_for_all(call: Call, effect: LoggerEffect) -> bool:
    """A run group, a mode that depends on the rank, or a shared run: each rank is meant to open one."""
    mode = call.given(effect.mode)
    muted = mode is not None and (mode.single == Const("disabled") or any(each.condition for each in mode.bindings))
    sharing = (call.given(name) for name in effect.shared_by.split(" | ") if name)
    named = any(given is not None and not given.all(lambda each: each.is_none) for given in sharing)
    given = chain.from_iterable(values.bindings for values in (*call.args, *call.keywords.values()))
    # Chosen by the rank, or computed from it.
    chosen = ((each.condition.difference(call.do.path).divergence | each.value.divergence) for each in given)
    return muted or named or any(each & Divergence.RANK for each in chosen)
