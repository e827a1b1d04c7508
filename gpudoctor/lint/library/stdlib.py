"""The standard library: clocks, random numbers, functools, contextlib."""

from __future__ import annotations

import ast
from collections.abc import Hashable
from math import inf

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import NO, ContainerState, ModuleState, ObjectState
from gpudoctor.lint.domain.constant_folding import substituted
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf
from gpudoctor.lint.domain.function import (
    BoundMethod,
    ContextManager,
    FieldFactory,
    Function,
    Instance,
    Library,
    Partial,
)
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.symbols import CallResult, ClockReading, OwnReading, Setting, from_settings
from gpudoctor.lint.domain.value import FALSE, NONE, Anonymous, Const, Unknown, Value, Values, single_of, text_of
from gpudoctor.lint.events.host_waits import ClockRead, Elapsed
from gpudoctor.lint.events.process import ReadOwn
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interface.contents import NESTED, change_contents, copy_of
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, always, itself, singleton
from gpudoctor.lint.library.environment_variables import Environ
from gpudoctor.lint.library.sharding import note_copied
from gpudoctor.record import replace


@MODELS.callable(
    "packaging.version.parse", "packaging.version.Version", "distutils.version.LooseVersion",
    "distutils.version.StrictVersion", "pkg_resources.parse_version",
)  # fmt: skip
def _version(call: Call) -> Values:
    """A version compares as its text says; that of a library is the library's."""
    only = call.first
    if isinstance(only, Library):
        return singleton(only)
    if only is not None and text_of(only) is not None:
        return call.unknown(CallResult("packaging.version.parse", only), "a version", config=True)
    return NOT_ANSWERED


@MODELS.callable(
    "time.time", "time.time_ns", "time.perf_counter", "time.perf_counter_ns", "time.monotonic", "time.monotonic_ns",
    "timeit.default_timer",
)  # fmt: skip
def _clock(call: Call) -> Values:
    identity = call.allocation_site()
    call.emit(ClockRead, call=call.name, identity=identity)
    # Ranks disagree by milliseconds: a break by the clock leaves the others in the all-reduce.
    return call.unknown(ClockReading(identity), "a clock", call.do.launch.found_apart)


# What comes out of it was put in somewhere, as the same thing on all ranks or not.
MODELS.callable("queue.*")(lambda call: singleton(call.result(fresh=True, divergence=Divergence.UNREAD)))


@MODELS.callable("random.*", "numpy.random.*", "uuid.uuid1", "uuid.uuid4")
def _random(call: Call) -> Values:
    identity = call.allocation_site()
    generator = {"numpy": "numpy", "random": "python"}.get(call.name.partition(".")[0], "")
    call.emit(ReadOwn, call=call.name, identity=identity, drawn=generator)
    why = "a random number" if generator else "a unique name"
    return call.unknown(OwnReading(identity, generator), why, call.do.launch.found_apart)


@MODELS.callable("functools.partial")
def _partial(call: Call) -> Values:
    function = call.first
    # One of several functions: what is bound to which is not kept apart.
    if function is None:
        return call.unknown(Anonymous("partial", call.args), "a callable with arguments")
    return singleton(Partial(function, call.args[1:], tuple(call.keywords.items())))


@MODELS.callable("types.MethodType")
@MODELS.method(Function, "__get__")
def _bound(call: Call) -> Values:
    """`MethodType(new_step, optimizer)`, `new_step.__get__(optimizer)`: a method of that object alone."""
    function, owners = (call.receiver, call.args[:1]) if call.name == "__get__" else (call.first, call.args[1:])
    if not isinstance(function, Function) or not owners:
        return call.unknown(Anonymous("bound", call.args), "a callable with its receiver")
    return owners[0].map(lambda owner: BoundMethod(owner, function, function.label))


@MODELS.callable("functools.wraps", "functools.update_wrapper")
def _wraps(call: Call) -> Values:
    return call.unknown(
        Anonymous("wraps", call.args), "a decorator that changes nothing", escaped_from="functools.wraps"
    )


@MODELS.callable("contextlib.nullcontext", "contextlib.closing")
def _handing_on(call: Call) -> Values:
    """The block gets what the manager was given."""
    # `no_sync() if … else nullcontext()` is the idiom of accumulation.
    return (
        call.args[0].map(lambda value: ContextManager(call.name, value))
        if call.args
        else singleton(ContextManager(call.name))
    )


MODELS.callable("contextlib.ExitStack")(
    always(ContextManager("contextlib.ExitStack", ContextManager("contextlib.ExitStack.__enter__")))
)


@MODELS.method(ContextManager, "enter_context")
def _enter_context(call: Call) -> Values:
    return call.do.open_context(call.args[0], call.node) if call.args else singleton(NONE)


MODELS.method(ContextManager, "callback", "push", "close", "pop_all")(itself)


MODELS.method(Instance, "assertRaises", "assertRaisesRegex")(always(ContextManager("pytest.raises")))


@MODELS.callable("dataclasses.field", "attrs.field", "attr.ib", "pydantic.Field")
def _field(call: Call) -> Values:
    factory = call.keywords.get("default_factory") or call.keywords.get("factory")
    # The factory runs for each object, so a list is not shared by all.
    if factory is not None:
        return singleton(FieldFactory(factory))
    default = call.keywords.get("default")
    return default or call.unknown(Anonymous("field", call.place), "a field without a value", config=True)


@MODELS.callable("copy.deepcopy", "copy.copy")
def _copy(call: Call) -> Values:
    if not call.args:
        return singleton(NONE)
    return _copied_each(call, call.args[0], {}, NESTED if call.name == "copy.deepcopy" else 0)


def _copied_each(call: Call, given: Values, copies: dict[Value, Value], levels: int) -> Values:
    """What has been copied already is not copied again: `deepcopy(model.module if wrapped else model)` is one copy of
    one model."""
    deep = call.name == "copy.deepcopy"
    for value in given:
        core = value.core
        if core not in copies and deep:
            note_copied(call.do, core, call.place)
        if core not in copies and isinstance(core, Module):
            copies[core] = _copied(call, core)
        elif value == core and levels == NESTED and isinstance(core, Unknown) and not from_settings(core):
            # It may be a model. Of settings a copy says what they say.
            copies[core] = replace(core, term=Anonymous("a copy", call.allocation_site()), dependence=core.divergence)
        elif isinstance(value, Environ):
            copies[value] = Environ(call.place)
        elif value not in copies and isinstance(value, (ListOf, DictOf, Instance)):
            copies[value] = made = copy_of(call.do, value, call.node)
            if levels:
                change_contents(call.do, made, lambda held: _copied_each(call, held, copies, levels - 1))
    return given.map(lambda value: copies.get(value, copies.get(value.core, value)))


def _copied(call: Call, core: Module) -> Module:
    """EMA and target networks are copies: new parameters, on the same device."""
    copied = replace(core, identity=call.allocation_site(), place=call.place, label=call.label)
    # A copy is made without its constructor, and is in the mode of the original.
    device = call.do.state(core, ModuleState.device)
    if device is not None:
        call.do.set_state(copied, ModuleState.device, device)
    if call.do.flag(core, ModuleState.initialised) is not NO:
        call.do.set_flag(copied, ModuleState.initialised)
    # It has what the original has got; that of a wrapper is one itself.
    call.do.set_flag(copied, ObjectState.opened)
    mode = call.do.own_attribute(core, "training")
    if mode is not None:
        call.do.set_own_attribute(copied, "training", mode)
    return copied


MODELS.name("math.inf", "numpy.inf")(always(Const(inf)))
# Neither zero nor whole: only its being a number decides anything here.
MODELS.name("math.nan", "math.pi", "numpy.nan")(always(Const(0.5)))


@MODELS.name("sys.argv")
def _argv(do: LibraryContext, place: Location) -> Values:
    words = do.launch.words
    if words is None:
        return singleton(Unknown(Setting("argv"), "the command line", "sys.argv", config=True))
    made = ListOf("sys.argv", place, "sys.argv")
    if do.state(made, ContainerState.items) is None and do.state(made, ContainerState.more) is None:
        given = (singleton(Unknown(Setting("argv[0]"), "the command line", "sys.argv[0]", config=True)),)
        do.set_state(
            made, ContainerState.items, singleton(TupleOf((*given, *(singleton(Const(each)) for each in words))))
        )
    return singleton(made)


# What stands under it is never executed; followed, its imports would go in circles.
MODELS.name("typing.TYPE_CHECKING", "typing_extensions.TYPE_CHECKING")(always(FALSE))


# Several GPUs are trained on Linux.
MODELS.name("sys.platform")(always(Const("linux")))


@told(HOOKS.subtracted)
def _note_elapsed(do: LibraryContext, left: Value, right: Value, node: ast.AST) -> None:
    """`time.time() - start`: somebody measures what lies between."""
    until, since = (_clock_of(value) for value in (left, right))
    if until is not None and since is not None:
        do.emit(Elapsed, at=do.place(node), since=since, until=until)


def _clock_of(value: Value) -> Hashable | None:
    """Which look at a clock a value is."""
    term = value.term
    return term.occurrence if isinstance(term, ClockReading) else None


@MODELS.callable("re.sub")
def _substituted(call: Call) -> Values:
    """`re.sub("^np.", "numpy.", name)`: what is left may be the name of a class."""
    given = [text_of(single_of(call.arg(index, name))) for index, name in enumerate(("pattern", "repl", "string"))]
    known = [text for text in given if text is not None]
    made = substituted(*known) if len(known) == len(given) else None
    return singleton(made) if made is not None else NOT_ANSWERED


@MODELS.decorator("functools.singledispatch", "functools.singledispatchmethod")
def _dispatched(call: Call) -> Values:
    """Which of the functions that are registered with it is called, the kind of an argument decides."""
    return call.unknown(Anonymous("dispatched", call.allocation_site()), "a function for each kind of argument")
