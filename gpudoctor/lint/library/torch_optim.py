"""Optimizers, schedulers and scalers."""

from __future__ import annotations

import ast

from gpudoctor.lint.analyses.after_wrap import watch_models
from gpudoctor.lint.analyses.freezing import is_frozen
from gpudoctor.lint.analyses.state_dicts import origin, taken
from gpudoctor.lint.domain.abstract_state import ObjectState, OptimizerState, TensorState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.container import Enumerated, ListOf
from gpudoctor.lint.domain.function import BoundMethod, Function
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.heuristics import OPTIMIZER
from gpudoctor.lint.domain.module import InnerModules, Module, StateDict, Wrapper
from gpudoctor.lint.domain.optim import Optimizer, Parameters, Scaler, Scheduler
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.rank import Size
from gpudoctor.lint.domain.symbols import Attribute, MethodResult
from gpudoctor.lint.domain.tensor import Extent, Tensor, TensorOrigin
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Unknown, Value, Values, constant_of, single_of
from gpudoctor.lint.events.files import LoadState, ShardedState
from gpudoctor.lint.events.training_step import (
    Backward,
    ClearGradients,
    ClipGradients,
    GroupAdded,
    MakeOptimizer,
    OptimizerStep,
    ScalerCall,
    SchedulerStep,
)
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.contents import find_method, new_dict, new_list, possible_pairs, set_item
from gpudoctor.lint.interface.hooks import HOOKS, answers
from gpudoctor.lint.interface.library_call import (
    MODELS,
    NOT_ANSWERED,
    Call,
    LibraryContext,
    flatten,
    logs,
    singleton,
    unknown,
)
from gpudoctor.lint.library.class_kinds import guess
from gpudoctor.lint.library.sharding import keeps_shards, note_copied
from gpudoctor.lint.library.tensors import number_of, shares_of
from gpudoctor.lint.library.torch_nn import part_of
from gpudoctor.manifest.effects import ClipEffect, OverwriteEffect, ScheduleEffect
from gpudoctor.record import replace


def owners(do: LibraryContext, values: list[Value]) -> tuple[frozenset[Value], bool]:
    """The modules whose parameters are among these values, and whether that is all."""
    found: set[Value] = set()
    complete = True
    # Groups are lists of dictionaries of lists: `[{"params": [*backbone], "lr": …}]`.
    for value in _held(do, values, 4):
        if isinstance(value, Parameters):
            found |= value.modules
            complete = complete and value.complete
        elif value.origin is TensorOrigin.PARAMETER:
            if value.batch_of is not None:
                found.add(value.batch_of)
            # One of several parameters of a layer.
            found |= value.used
            complete = complete and all(each.part_of is not None for each in value.used)
        elif isinstance(value, Enumerated):
            inner, whole = owners(do, [each for item in value.items for each in item])
            found |= inner
            complete = complete and whole
        elif value.is_model:
            found.add(value)
        # A setting is a learning rate; anything else may hide parameters.
        elif isinstance(value, Unknown) and not value.config:
            taken = _taken_from(do, value)
            found |= taken
            complete = complete and bool(taken)
    return frozenset(found), complete


def _taken_from(do: LibraryContext, value: Unknown) -> set[Value]:
    """Of `for m in model.modules(): group.append(m.weight)`: the model's parts, whichever they are."""
    found: set[Value] = set()
    for each in provenance_of(value):
        if isinstance(each, InnerModules):
            each = part_of(do, each.owner)
        if isinstance(each, Module) and each.part_of is not None:
            found.add(each)
    return found


def _held(do: LibraryContext, values: list[Value], depth: int) -> list[Value]:
    """What lies in lists of groups; of a group, what it has under `params`: the rest are its settings."""
    found: list[Value] = []
    for value in values:
        inside = [each for key, held in possible_pairs(do, value) if key.single == Const("params") for each in held]
        inside = inside or flatten(do, [value], depth=1)
        found += _held(do, inside, depth - 1) if depth and inside != [value] else inside
    return found


@MODELS.callable(
    "torch.optim.*", "torch.distributed.optim.ZeroRedundancyOptimizer", "apex.optimizers.*", "bitsandbytes.optim.*",
    "transformers.AdamW", "transformers.optimization.AdamW", "transformers.Adafactor",
)  # fmt: skip
def _optimizer(call: Call) -> Values:
    last = call.name.rpartition(".")[2]
    # `torch.optim.swa_utils.update_bn` and the like are functions.
    if last != "*" and not last[:1].isupper():
        return singleton(call.result())
    return singleton(new_optimizer(call))


@MODELS.callable("torch.optim.swa_utils.AveragedModel")
def _averaged(call: Call) -> Values:
    """It begins as a copy of the model."""
    for value in call.arg(0, "model") or ():
        note_copied(call.do, value, call.place)
    return _optimizer(call)


def new_optimizer(call: Call) -> Optimizer:
    """The optimizer that a call makes."""
    given = call.arg(0, "params")
    modules, complete = owners(call.do, list(given or call.all_values()))
    # "not in the optimizer" may be said only where all that went in is known; `**extra` holds no second `params`.
    complete = complete and (given is not None or not call.open_ended)
    made = Optimizer(call.allocation_site(), call.place, call.label, call.name, modules, complete)
    rate = call.arg(1, "lr")
    by_size = any(isinstance(part, Size) for part in provenance_of(rate))
    own = any(each.condition.depending_on(Divergence.LOCAL) for each in rate.bindings) if rate is not None else False
    call.emit(MakeOptimizer, optimizer=made, rate_by_size=by_size, rate_of_own=own)
    watch_models(call.do)
    return made


def maybe_optimizer(call: Call) -> Values:
    """A class of an unknown library that is given parameters is an optimizer."""
    last = call.name.rpartition(".")[2]
    given = call.args[0] if call.args else call.keywords.get("params")
    # A function that gets parameters clips or counts; classes that do are Lion, LAMB, Adan, SAM.
    if given is None or not given.has(Parameters) or not last[:1].isupper():
        return NOT_ANSWERED
    guess(call.do, OPTIMIZER, call.name, call.place)
    return singleton(new_optimizer(call))


MODELS.fallbacks.append(maybe_optimizer)


@MODELS.effect(ScheduleEffect)
def _schedules(call: Call, effect: ScheduleEffect) -> Values:
    return _scheduler(call)


@MODELS.callable("torch.optim.lr_scheduler.*")
def _scheduler(call: Call) -> Values:
    # Kept by the scheduler: `scheduler.step()` before `optimizer.step()` skips the first rate.
    # `get_scheduler` is given its kind before the optimizer.
    optimizer = next((value for value in call.all_values() if isinstance(value, Optimizer)), call.first)
    return singleton(
        Scheduler(call.allocation_site(), call.place, call.label, call.name, optimizer, call.arguments, _rates(call))
    )


def _rates(call: Call) -> tuple[Value, ...]:
    """`LambdaLR` calls the functions that it is given as it is made, and in each step."""
    steps = call.unknown(Anonymous("steps", call.allocation_site()), "a number of steps")
    functions = [value for value in call.all_values() if isinstance(value, (Function, BoundMethod))]
    made = [call.do.call(singleton(each), Arguments((steps,)), call.node) for each in functions]
    return tuple(value for rate in made for value in rate)


@MODELS.method(Optimizer, "__init__")
def _init(call: Call[Optimizer]) -> Values:
    """`super().__init__(params, defaults)` of an optimizer of the project."""
    bare = call.receiver
    given = call.arg(0, "params")
    modules, complete = owners(call.do, list(given or ()))
    complete = complete and (given is not None or not call.open_ended)
    made = replace(bare, modules=modules, complete=complete)
    call.do.set_state(bare, ObjectState.as_made, singleton(made))
    call.emit(MakeOptimizer, optimizer=made)
    watch_models(call.do)
    return singleton(NONE)


@MODELS.method(Optimizer, "add_param_group")
def _add_group(call: Call[Optimizer]) -> Values:
    modules, complete = owners(call.do, call.all_values())
    call.emit(GroupAdded, optimizer=call.receiver, modules=modules, complete=complete and not call.open_ended)
    return singleton(NONE)


@MODELS.instead_of_own(Optimizer, "step", "zero_grad")
@MODELS.method(Optimizer, "step")
def _step(call: Call[Optimizer]) -> Values:
    # SAM's `step(zero_grad=True)` and own `zero_grad` clear in the end what torch's would.
    if call.name == "zero_grad":
        return _zero_grad(call)
    # The project's step is followed too: collectives inside it are the program's own.
    own = find_method(call.do, call.receiver, "step")
    if own is not None:
        call.emit(OptimizerStep, optimizer=call.receiver)
        return call.do.call(own, call.arguments, call.node)
    return _step_of_base(call)


@MODELS.method(Optimizer, "super.step")
def _step_of_base(call: Call[Optimizer]) -> Values:
    closure = call.arg(0, "closure")
    # LBFGS runs forward and backward inside the closure.
    if closure is not None and closure.single != NONE:
        call.do.call(closure, NO_ARGUMENTS, call.node)
    call.emit(OptimizerStep, optimizer=call.receiver)
    return singleton(NONE)


@MODELS.method((Optimizer, Module, Wrapper, Unknown), "zero_grad")
def _zero_grad(call: Call) -> Values:
    call.emit(ClearGradients, target=call.receiver)
    return singleton(NONE)


@MODELS.method(Optimizer, "backward")
def _backward(call: Call[Optimizer]) -> Values:
    """`optimizer.backward(loss)` of one for half precision, which scales the loss first: torch's own have no such
    method."""
    for loss in call.arg(0, "loss") or ():
        if isinstance(loss, Tensor):
            call.emit(Backward, loss=loss, forwards=loss.forwards, complete=True, managed=call.receiver.managed)
    return singleton(NONE)


# Each rank holds the state of its own share of the parameters: all must send it.
MODELS.method(Optimizer, "consolidate_state_dict")(logs(ShardedState, call="name", owner="receiver", gathers=True))


@MODELS.method(Optimizer, "state_dict")
def _state_dict(call: Call[Optimizer]) -> Values:
    if call.receiver.made_by.endswith("ZeroRedundancyOptimizer"):
        call.emit(ShardedState, call=call.name, owner=call.receiver, gathers=False)
    return singleton(StateDict(call.allocation_site(), call.place, call.label, call.receiver))


@MODELS.method((Optimizer, Scheduler, Scaler), "load_state_dict")
def _load_state(call: Call[Optimizer | Scheduler | Scaler]) -> Values:
    state = call.arg(0, "state_dict")
    loaded, entry = origin(call, state)
    call.emit(LoadState, target=call.receiver, taken=taken(state), loaded=loaded, entry=entry)
    return singleton(NONE)


@MODELS.attribute(Optimizer)
def _attribute(call: Call[Optimizer]) -> Values:
    optimizer = call.receiver
    if call.name == "param_groups":
        return _groups(call, optimizer)
    if call.name in ("state", "defaults"):
        return call.unknown(
            Attribute(optimizer, call.name),
            f"the {call.name} of an optimizer",
            escaped_from=f"torch.optim.Optimizer.{call.name}",
        )
    return NOT_ANSWERED


def _groups(call: Call, optimizer: Optimizer) -> Values:
    """Dictionaries with the parameters and their settings: optimizers of the project go over them in their `step`."""
    known = call.do.state(optimizer, OptimizerState.groups)
    # Asked for first on rank 0 only, what is known of them here holds there only: they are made again.
    if known is not None and isinstance(known.single, ListOf) and call.do.path.implies(known.bindings[0].condition):
        return known
    key = ("param_groups", optimizer)
    held = Parameters(key, call.place, "parameters", optimizer.modules, optimizer.complete)
    group = new_dict(call.do, [(singleton(Const("params")), singleton(held))], call.node)
    if group.single is not None:
        settings = Unknown(Anonymous("settings of", optimizer), "a setting of an optimizer", call.label, config=True)
        set_item(call.do, group.single, singleton(settings), singleton(settings), call.node)
    # However many there are, and whatever is added later, they are all of this kind.
    made = new_list(call.do, [group], call.node, exact=False)
    call.do.set_state(optimizer, OptimizerState.groups, made)
    return made


@MODELS.method(Scheduler, "step", "step_update")
def _step_rate(call: Call[Scheduler]) -> Values:
    given = (*call.args, *call.keywords.values())
    call.emit(SchedulerStep, scheduler=call.receiver, shards=shares_of(call.do, given))
    return singleton(call.method_result())


MODELS.method((Optimizer, Scheduler, Scaler))(lambda call: singleton(call.method_result()))


@MODELS.callable(
    "torch.amp.GradScaler",
    "torch.GradScaler",
    "torch.cuda.amp.GradScaler",
    "torch.cpu.amp.GradScaler",
    "torch.amp.grad_scaler.GradScaler",
    "torch.distributed.fsdp.sharded_grad_scaler.ShardedGradScaler",
)
def _scaler(call: Call) -> Values:
    return singleton(Scaler(call.allocation_site(), call.place, call.label, enabled=call.arg(-1, "enabled")))


@MODELS.method(Scaler, "scale")
def _scale(call: Call[Scaler]) -> Values:
    call.emit(ScalerCall, scaler=call.receiver, call="scale")
    for value in call.args[0] if call.args else ():
        if isinstance(value, Tensor):
            call.do.set_state(value, TensorState.scaled_by, singleton(call.receiver))
    # The scaled loss has the graph of the loss.
    return call.args[0] if call.args else singleton(NONE)


@MODELS.method(Scaler, "unscale_", "update")
def _unscale(call: Call[Scaler]) -> Values:
    # Once for each optimizer that it may be, on however many ways it came to be that one.
    for value in dict.fromkeys(call.args[0]) if call.args and call.name == "unscale_" else (None,):
        call.emit(ScalerCall, scaler=call.receiver, call=call.name, optimizer=value)
    return singleton(NONE)


@MODELS.method(Scaler, "step")
def _scaler_step(call: Call) -> Values:
    # `scaler.step` calls `optimizer.step` unless gradients overflowed.
    def step(value: Value) -> Values:
        call.emit(ScalerCall, scaler=call.receiver, call="step", optimizer=value)
        call.emit(OptimizerStep, optimizer=value, through="scaler")
        # That of the project may step another one, as LARS does around SGD.
        own = find_method(call.do, value, "step")
        return singleton(NONE) if own is None else call.do.call(own, Arguments(call.args[1:]), call.node)

    several = dict.fromkeys(call.args[0]) if call.args else {}
    # Where it is one of several, each is stepped only where it was chosen.
    if len(several) > 1:
        return call.do.for_each_value(call.args[0], step, call.node)
    for value in several:
        step(value)
    return singleton(NONE)


@MODELS.effect(ClipEffect)
def _clips(call: Call, effect: ClipEffect) -> Values:
    given = call.given(effect.of) or Values(())
    modules, _ = owners(call.do, list(given))
    call.emit(
        ClipGradients, call=call.name, modules=modules, by=call.receiver, bound=_number(call.given(effect.bound)),
        of_one_shard=_of_one_shard(call, given, modules),
    )  # fmt: skip
    return singleton(call.method_result(call.allocation_site()))


@MODELS.effect(OverwriteEffect)
def _overwrites(call: Call, effect: OverwriteEffect) -> Values:
    for module in owners(call.do, list(call.given(effect.of) or ()))[0]:
        if isinstance(module, (Module, Wrapper)):
            call.emit(LoadState, target=module, strict=None)
    return singleton(NONE)


def _number(values: Values | None) -> float | None:
    number = constant_of(single_of(values))
    return number if isinstance(number, (int, float)) else None


def _of_one_shard(call: Call, given: Values, modules: frozenset[Value]) -> bool:
    """Accelerate knows a model of FSDP1 by the list of all its parameters, and has FSDP clip it then. Of any other list
    it takes the norm of what this rank holds."""
    do, managed = call.do, call.receiver
    if not isinstance(managed, ManagedObject) or not keeps_shards(do, managed):
        return False
    parts = {part for each in modules for part in do.parts.get(each.core, ())}
    some = not given.are(Parameters) and any(is_frozen(do, each) for each in parts)
    held = [each for each in modules if any(each.core in parts for parts in do.parts.values())]
    return len(modules) > 1 or some or any(not isinstance(each, Wrapper) for each in held)


@MODELS.callable("torch.nn.utils.clip_grad_norm_", "torch.nn.utils.clip_grad_value_", "torch.nn.utils.clip_grad_norm")
def _clip(call: Call) -> Values:
    given = call.arg(0, "parameters")
    modules, _ = owners(call.do, list(given or ()))
    last, bound = call.name.rpartition(".")[2], _number(call.arg(1, "max_norm"))
    call.emit(
        ClipGradients, call=last, modules=modules, by_norm=last != "clip_grad_value_", bound=bound,
        plain=len([*call.arguments]) == 2,
    )  # fmt: skip
    # The norm stays on the GPU, and is no gradient itself: to multiply it scales none.
    norm = Tensor(call.allocation_site(), call.place, call.label, TensorOrigin.OTHER, graph=False, extent=Extent.NUMBER)
    return singleton(norm)


@answers(HOOKS.operations, Parameters)
def _joined(do: LibraryContext, values: list[Value], node: ast.AST) -> Values:
    """`list(encoder.parameters()) + list(decoder.parameters())`."""
    place, label = do.place(node), do.text(node, 40)
    if not isinstance(node, (ast.BinOp, ast.AugAssign)) or not isinstance(node.op, ast.Add):
        return unknown(do, node, "what is computed of parameters")
    modules, complete = owners(do, values)
    return singleton(Parameters(do.allocation_site(place), place, label, modules, complete))


@MODELS.method(Unknown, "step")
def _unknown_step(call: Call[Unknown]) -> Values:
    """`x.step()` of something unknown may be an optimizer's."""
    # What is given numbers is an environment, `env.step(action.cpu().numpy())`, or a schedule.
    given = [number_of(each) or each for each in call.all_values()]
    if not given or not all(each.graph is False for each in given):
        # Without it, a factory's optimizer would look as if nothing ever stepped.
        call.emit(OptimizerStep, optimizer=call.receiver, through="unknown")
    return call.unknown(MethodResult(call.receiver, call.name), "what .step() returns")
