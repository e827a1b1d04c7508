"""What the words mean that the bodies of stubs say, beside Python's own."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator
from functools import partial

from gpudoctor.lint.analyses.forward_body import note_unused
from gpudoctor.lint.analyses.freezing import is_frozen
from gpudoctor.lint.domain.abstract_state import YES, ManagerState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, TupleOf
from gpudoctor.lint.domain.function import BoundMethod, Function, function_of, library_name_of
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.heuristics import LANGUAGE_MODEL, TEXT_CLASSIFIER
from gpudoctor.lint.domain.module import Module, Wrapper
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.symbols import CallResult, Operation
from gpudoctor.lint.domain.tensor import Tensor, tensors_in
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    TRUE,
    UNBOUND,
    Const,
    Unknown,
    Value,
    Values,
    int_of,
    single_of,
    text_of,
)
from gpudoctor.lint.events.knowledge import LoopRun, OwnOptimization
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.training_step import OwnLoss
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interface.contents import default_of, find_method, possible_pairs, set_item
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, flatten, singleton
from gpudoctor.lint.library.forward_calls import in_training_mode
from gpudoctor.lint.library.torch_nn import device_of, has_buffers
from gpudoctor.record import replace


@MODELS.callable("gpudoctor.manifest.effects.surely", "gpudoctor.manifest.effects.possibly")
def _asked_of_test(call: Call) -> Values:
    # What is possible is what is not surely false.
    answer = call.name.endswith(".surely")
    tested = call.args[0].restrict(call.do.path) if call.args else ()
    known = bool(call.args) and all(isinstance(each, Const) and bool(each.value) is answer for each in tested)
    return singleton(TRUE if known is answer else FALSE)


@MODELS.callable("gpudoctor.manifest.effects.made_of", "gpudoctor.manifest.effects.calls_of")
def _made_of(call: Call) -> Values:
    part = call.args[1].single if len(call.args) > 1 else None
    called = call.name.endswith(".calls_of")
    found = part is not None and call.args[0].any(lambda each: _has(each, part, called))
    return singleton(TRUE if found else FALSE)


def _has(value: Value, part: Value, called: bool) -> bool:
    match value.term:
        case Operation(_, left, right):
            return _has(left, part, called) or _has(right, part, called)
        case CallResult(str() as function):
            return called and library_name_of(part) == function
    return value == part and not called


@MODELS.callable("gpudoctor.manifest.effects.as_taken")
def _as_taken(call: Call) -> Values:
    """Call a function of the program with as many arguments as it takes."""
    return _with_as_many(call, call.args[0], call.args[1:]) if call.args else NOT_ANSWERED


@MODELS.callable("gpudoctor.manifest.effects.tell")
def tell(call: Call) -> Values:
    """What a method returns that the program may have written, called with as many arguments as it takes."""
    method = _written(call)
    return _with_as_many(call, method, call.args[2:]) if method is not None else singleton(NONE)


@MODELS.callable("gpudoctor.manifest.effects.held")
def _held(call: Call) -> Values:
    found = _written(call)
    return found if found is not None else call.arg(2, "otherwise") or NOT_ANSWERED


@MODELS.callable("gpudoctor.manifest.effects.written")
def _is_written(call: Call) -> Values:
    return singleton(TRUE if _written(call) is not None else FALSE)


@MODELS.callable("gpudoctor.manifest.effects.told_by_name")
def _told_by_name(call: Call) -> Values:
    function, name = function_of(single_of(_written(call))), call.constant(2, "parameter")
    taken = function.node.args if function else None
    told = [each.arg for each in ast.walk(taken) if isinstance(each, ast.arg)] if taken else []
    return singleton(TRUE if name in told or (taken and taken.vararg) else FALSE)


@MODELS.callable("gpudoctor.manifest.effects.installed_before")
def _installed_before(call: Call) -> Values:
    given = [only.value if isinstance(only := single_of(values), Const) else None for values in call.args]
    numbers = [each for each in given[1:] if isinstance(each, int)]
    older = bool(numbers) and call.do.modules.is_before(str(given[0]), numbers)
    return singleton(TRUE if older else FALSE)


@MODELS.callable("gpudoctor.manifest.effects.optimizers_in")
def _optimizers_in(call: Call) -> Values:
    found = (each for each in flatten(call.do, list(call.args[0])) if isinstance(each, Optimizer)) if call.args else ()
    return singleton(TupleOf(tuple(singleton(each) for each in dict.fromkeys(found))))


@MODELS.callable("gpudoctor.manifest.effects.own_loss")
def _own_loss(call: Call) -> Values:
    function, name, given = function_of(single_of(_written(call))), call.text(2, "parameter"), call.args[3:]
    if function is not None and name is not None and len(given) == 4 and _takes_unread(function, name):
        loss, model, accumulated, language_only = given
        # `AutoModelForCausalLM.from_pretrained` as well as the class itself.
        names = [part for value in model for each in _made_by_transformers(call, value) for part in each.split(".")]
        of_language = any(map(LANGUAGE_MODEL.fits, names))
        counted = of_language or (language_only.single == FALSE and any(map(TEXT_CLASSIFIER.fits, names)))
        number = int_of(single_of(accumulated))
        only = single_of(loss, Tensor, Unknown)
        call.emit(
            OwnLoss, loss=only, accumulated=number, made_at=function.place, counted=counted,
            in_all_versions=of_language,
        )  # fmt: skip
    return singleton(NONE)


@MODELS.callable("gpudoctor.manifest.effects.goes_by")
def _goes_by(call: Call) -> Values:
    owner, settings = single_of(call.arg(0, "owner")), single_of(call.arg(1, "settings"))
    for flag in (ManagerState.empties, ManagerState.spreads_states, ManagerState.spreads_parameters):
        if isinstance(owner, ManagedObject) and settings is not None and call.do.flag(settings, flag) is YES:
            call.do.set_flag(owner, flag)
    return singleton(NONE)


def _made_by_transformers(call: Call, model: Value) -> Iterator[str]:
    """What made a model of Transformers, or the one in an adapter."""
    for each in (model, *call.do.parts.get(model.core, ())):
        if isinstance(each.core, Module) and each.core.made_by.startswith("transformers."):
            yield each.core.made_by


def _takes_unread(function: Function, name: str) -> bool:
    """It has to take the parameter, by its name or with others, and never looks at it."""
    signature = function.node.args
    named = any(each.arg == name for each in (*signature.args, *signature.kwonlyargs))
    taken = name if named else signature.kwarg.arg if signature.kwarg is not None else ""
    read = (each.id for each in ast.walk(function.node) if isinstance(each, ast.Name))
    return bool(taken) and taken not in read


@MODELS.callable("gpudoctor.manifest.effects.optimizes_itself")
def _optimizes_itself(call: Call) -> Values:
    if call.first is not None:
        call.emit(OwnOptimization, model=call.first)
    return singleton(NONE)


@MODELS.callable("gpudoctor.manifest.effects.follows_loop")
def _follows_loop(call: Call) -> Values:
    for method in _written(call) or ():
        if (function := function_of(method)) is not None:
            call.emit(LoopRun, step=function.place)
    return singleton(NONE)


def _written(call: Call) -> Values | None:
    """What the program has written under a name, in an object or its class; of one of several, in each."""
    asked = single_of(call.arg(1, "name"))
    name = text_of(default_of(call.do, asked) or asked)
    if not call.args or name is None:
        return None
    found: list[Values] = []
    for owner in call.args[0].bindings:
        own, method = call.do.own_attribute(owner.value, name), find_method(call.do, owner.value, name)
        # Set on some paths only: on the others it is that of the class.
        for each in own.bindings if own is not None else ():
            put = method if each.value is UNBOUND and method is not None else singleton(each.value)
            found.append(put.guarded_by(each.condition).guarded_by(owner.condition))
        if own is None and method is not None:
            found.append(method.guarded_by(owner.condition))
    return union(found) if found else None


def _with_as_many(call: Call, function: Values, given: tuple[Values, ...]) -> Values:
    return call.do.for_each_value(function, lambda value: _with_fewer(call, value, given), call.node)


def _with_fewer(call: Call, value: Value, given: tuple[Values, ...]) -> Values:
    if value is UNBOUND:
        return singleton(NONE)
    function = function_of(value)
    if function is not None and function.node.args.vararg is None:
        names, taken = function.node.args, isinstance(value, BoundMethod)
        given = given[: len(names.posonlyargs) + len(names.args) - taken]
    return call.do.call(singleton(value), Arguments(given, call.keywords), call.node)


@MODELS.callable("gpudoctor.manifest.effects.forward_of")
def _forward_of_method(call: Call) -> Values:
    """Lightning has the forward of the wrapper call `training_step`: what that returns has come through it."""
    wrapper, told = call.first, replace(call, arguments=Arguments(call.args[1:]))
    if not isinstance(wrapper, Wrapper):
        return tell(told)
    identity, core = call.allocation_site(), wrapper.core
    graph = not call.do.evaluating and not is_frozen(call.do, core)
    given = flatten(call.do, [each for values in told.args[2:] for each in values])
    call.emit(
        Forward, identity=identity, module=wrapper, inputs=tuple(tensors_in(given)),
        device=device_of(call.do, wrapper), graph=graph, training=in_training_mode(call.do, core),
        buffers=has_buffers(call.do, core), followed=True,
    )  # fmt: skip
    begin, first = len(call.do.execution.reads), core.cls not in call.do.execution.studied
    returned = tell(told)
    if first:
        note_unused(told, core, set(call.do.execution.reads[begin:]), partial(tell, told))
    return returned.map(lambda value: _came_through(call, value, identity))


def _came_through(call: Call, value: Value, identity: Hashable) -> Value:
    if isinstance(value, Tensor):
        return replace(value, forwards=value.forwards | {identity})
    for key, held in possible_pairs(call.do, value) if isinstance(value, DictOf) else ():
        set_item(call.do, value, key, held.map(lambda each: _came_through(call, each, identity)), call.node)
    return value
