"""Calls: functions are followed into, classes make objects, library names ask their model."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from gpudoctor.lint.domain.abstract_state import ContainerState, ObjectState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf
from gpudoctor.lint.domain.function import (
    BoundMethod,
    Class,
    FieldFactory,
    Function,
    Generator,
    Instance,
    Library,
    Method,
    Namespace,
    Partial,
    Super,
    class_of,
)
from gpudoctor.lint.domain.traced_number import number_of
from gpudoctor.lint.domain.value import (
    NONE,
    Anonymous,
    Const,
    Text,
    Unknown,
    Value,
    Values,
    single_of,
    singleton,
    text_of,
)
from gpudoctor.lint.flow.valueset import Binding, ValueSet, union
from gpudoctor.lint.interface.contents import fields_of, find_in_class, find_method, known_items, possible_pairs
from gpudoctor.lint.interface.library_call import NOT_ANSWERED
from gpudoctor.lint.interp import library
from gpudoctor.lint.interp.annotations import field_without_value, has_fields
from gpudoctor.lint.interp.argument_passing import among_the_rest, arguments_of, bind_parameters
from gpudoctor.lint.interp.attributes import library_call
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.function_traits import CallMemory
from gpudoctor.lint.interp.habits import EffectWatch, by_habit
from gpudoctor.lint.interp.limits import A_FEW, MAX_CALL_DEPTH, MAX_RECURSION, MAX_WRAPPED, SHORT_CALL, SHORT_FUNCTION
from gpudoctor.lint.interp.position import NONE_SET, Frame, PathExit
from gpudoctor.lint.library.library_names import PLAIN, gives_settings
from gpudoctor.lint.library.register import HOOKS, MODELS


def call_node(m: Evaluator, node: ast.Call) -> Values:
    """A call expression: the callee, then its arguments, then the call."""
    # Before the callee is evaluated: `super` knows the method it stands in, a value does not.
    if isinstance(node.func, ast.Name) and node.func.id == "super" and not m.is_bound("super"):
        return _super(m, node)
    function = m.evaluate(node.func)
    # `load()(x)`: the callee itself may have ended the path.
    if m.unreachable:
        return NONE_SET
    arguments = arguments_of(m, node)
    return NONE_SET if m.unreachable else call(m, function, arguments, node)


def _super(m: Evaluator, node: ast.Call) -> Values:
    if node.args:
        after = m.evaluate(node.args[0]).single
        receiver = m.evaluate(node.args[1]).single if len(node.args) > 1 else None
    else:
        # Past lambdas and helpers inside the method, as Python's `__class__` cell does.
        frame = next((frame for frame in reversed(m.frames) if frame.function and frame.function.owner), m.frame)
        function = frame.function
        after = function.owner if function else None
        names = function.node.args if function else None
        first = (names.posonlyargs + names.args)[:1] if names else []
        found = m.read((frame.scope, first[0].arg)) if first else None
        receiver = single_of(found)
    if after is None or receiver is None:
        return m.unknown(node, "super() outside of a method")
    return singleton(Super(receiver, after))


def call(m: Evaluator, function: Values, arguments: Arguments, node: ast.AST) -> Values:
    """Call whatever the function may be."""
    # `each` would do the same.
    if function.is_definite:
        return call_value(m, function.bindings[0].value, arguments, node)
    # `FusedAdam = None` where an import fails: to call that is an error, and whoever gets on has another value.
    able = [each for each in function.bindings if not each.value.is_constant]
    choices = _choices_of_functions(able)
    if len(choices) == len(able) > 1:
        # What is called by default comes first: whoever wraps a model there says which of them is meant.
        able.sort(key=lambda each: any(HOOKS.is_off[0](m, literal) for literal in each.condition))
        choices = able
    function = ValueSet(able) if able else function
    if len(choices) > A_FEW:
        m.defaults_matter = True
        # To follow all of them was too much: one stands for the others, which are made after its pattern.
        if m.at_defaults:
            m.record_imprecision(f"one of {len(choices)} functions is called, of which one was read", m.place(node))
            return call_value(m, _pattern_of([each.value for each in choices]), arguments, node)
    return m.for_each_value(function, lambda value: call_value(m, value, arguments, node), node)


def _choices_of_functions(able: Sequence[Binding[Value]]) -> list[Binding[Value]]:
    """Those among which a name that the user gives chooses, for all ranks: entries of a registry, modules of a package;
    none where anything else is called that is known."""
    found = [each for each in able if isinstance(each.value, (Function, Class))]
    known = all(each in found or isinstance(each.value, Unknown) for each in able)
    return found if known and not any(each.condition.divergence for each in able) else []


def _pattern_of(choices: Sequence[Value]) -> Value:
    """The first of them that others do not derive from: what they have in common is seldom a model by itself."""
    bases = {base for each in choices if isinstance(each, Class) for base in each.bases}
    return next((each for each in choices if each not in bases), choices[0])


def call_value(m: Evaluator, value: Value, arguments: Arguments, node: ast.AST) -> Values:
    """Call one value."""
    way = _WAYS_TO_CALL.get(type(value))
    if way is not None:
        return way(m, value, arguments, node)
    # A module of the project goes to the model too: it logs the forward before `forward` runs.
    model = MODELS.calls.get(type(value))
    if model is not None:
        answered = model(library_call(m, "__call__", arguments, node, value))
        if answered is not NOT_ANSWERED:
            return answered
    custom = find_method(m, value, "__call__")
    if custom is not None:
        return call(m, custom, arguments, node)
    return HOOKS.unknown_call[0](m, value, arguments, node)


def _call_bound(m: Evaluator, value: BoundMethod, arguments: Arguments, node: ast.AST) -> Values:
    return call_value(m, value.function, arguments.behind(singleton(value.receiver)), node)


def _call_partial(m: Evaluator, value: Partial, arguments: Arguments, node: ast.AST) -> Values:
    named = {**dict(value.keywords), **arguments.keywords}
    given = Arguments((*value.args, *arguments.positional), named, arguments.rest)
    return call_value(m, value.function, given, node)


def _call_library(m: Evaluator, value: Library, arguments: Arguments, node: ast.AST) -> Values:
    return library.call_library(m, value.name, arguments, node)


def _call_method(m: Evaluator, value: Method, arguments: Arguments, node: ast.AST) -> Values:
    # In a metaclass: `super().__call__(*args)`.
    if isinstance(value.receiver, Class) and value.name == "super.__call__":
        return _make_object(m, value.receiver, arguments, node)
    return call_method(m, value.receiver, value.name, arguments, node)


_SPELLED = {"__iter__": "builtins.iter", "__next__": "builtins.next", "__len__": "builtins.len"}
"""What functions of Python do, asked of a value by the name of the method that they call."""


def call_method(m: Evaluator, receiver: Value, name: str, arguments: Arguments, node: ast.AST) -> Values:
    """A method that no class of the project defines: its model answers, else it is unknown."""
    spelled = _SPELLED.get(name)
    if spelled is not None:
        return library.call_library(m, spelled, arguments.behind(singleton(receiver)), node)
    # `super().state_dict()`: the class of the project was asked already.
    of_base = MODELS.methods.get((type(receiver), name))
    name = name.removeprefix("super.")
    model = of_base or MODELS.methods.get((type(receiver), name)) or MODELS.any_method.get(type(receiver))
    if model is not None:
        answered = model(library_call(m, name, arguments, node, receiver))
        if answered is not NOT_ANSWERED:
            return answered
    return HOOKS.method_call[0](m, receiver, name, arguments, node)


def call_function(m: Evaluator, function: Function, arguments: Arguments, node: ast.AST) -> Values:
    """Follow a call into a function of the project."""
    # Calling a generator runs nothing; its body runs where it is iterated.
    traits = m.traits_of(function)
    if traits.yields:
        place, named = m.place(node), tuple(arguments.keywords.items())
        made = Generator(m.allocation_site(place), place, function.label, function, arguments.positional, named)
        return singleton(made)
    at = _one_of_few_texts(m, arguments) if traits.imports else None
    if at is None:
        return _run(m, function, arguments, node)

    # Each of the names means a module of its own.
    def run(name: Value) -> Values:
        given = (*arguments.positional[:at], singleton(name), *arguments.positional[at + 1 :])
        return _run(m, function, Arguments(given, arguments.keywords, arguments.rest), node)

    return m.for_each_value(arguments.positional[at], run, node)


def _one_of_few_texts(m: Evaluator, arguments: Arguments) -> int | None:
    """Where an argument stands that is one text or another."""
    for at, given in enumerate(arguments.positional):
        here = given.restrict(m.path)
        if 1 < len(here.bindings) <= A_FEW and here.all(lambda each: text_of(each) is not None):
            return at
    return None


def run_body(m: Evaluator, generator: Generator, on_yield: object, node: ast.AST) -> Values:
    """Run a generator's body, handing each value to `on_yield`."""
    function = generator.function
    assert isinstance(function, Function)
    return _run(m, function, Arguments(generator.args, dict(generator.keywords)), node, on_yield)


def _run(m: Evaluator, function: Function, arguments: Arguments, node: ast.AST, on_yield: object = None) -> Values:
    if _is_too_deep(m, function, node, arguments):
        _open(m, arguments)
        return m.unknown(node, f"{function.label} calls itself")
    if left_out := _left_out(m):
        _open(m, arguments)
        return m.unknown(node, f"{function.label} is called {left_out}")
    if on_yield is not None:
        return _run_anew(m, function, arguments, node, on_yield)
    memory = m.memories.get(function)
    if memory is not None and memory.is_dear:
        # Most scripts make few things that are alike.
        from gpudoctor.lint.interp.memoized_calls import noted, repeated

        if (again := repeated(m, memory, arguments, m.place(node))) is not None:
            return again
    # Config parsers and metrics run thousands of statements that no rule asks about.
    habit = m.habits.get(function.node)
    if habit is not None and (usual := by_habit(m, habit, arguments, node)) is not None:
        return usual
    if memory is None or not memory.is_dear:
        return _run_anew(m, function, arguments, node)
    return noted(m, memory, arguments, lambda given: _run_anew(m, function, given, node))


def _run_anew(m: Evaluator, function: Function, arguments: Arguments, node: ast.AST, on_yield: object = None) -> Values:
    place = m.place(node)
    watch = EffectWatch.begin(m)
    scope = m.open_scope()
    frame = Frame(scope, (scope, *function.scopes), function.file, function.label, function)  # type: ignore[arg-type]
    frame.on_yield = on_yield  # type: ignore[assignment]
    frame.hint = m.hints.get(id(node), "")
    frame.handed = _was_handed(m, function, node)
    if m.beside:
        m.beside.discard(frame.file.source.shown)
    bound = bind_parameters(m, function, arguments, node)
    frame.called_at, frame.path, frame.receiver = place, m.path, _receiver(function, bound)
    # `@torch.no_grad()` on an evaluate function holds for all of its body.
    contexts = tuple([each for name in function.decorators if (each := HOOKS.context_name[0](name))])
    with m.in_frame(frame, place, contexts):
        result = _follow(m, function, frame, bound)
        watch.end(m, function, frame, arguments, result)
    return result


def _open(m: Evaluator, arguments: Arguments) -> None:
    """What was not followed may do anything to what it is given."""
    for told in HOOKS.opened:
        told(m, arguments.values())


def _was_handed(m: Evaluator, function: Function, node: ast.AST) -> bool:
    """It is called by a name of a function that did not define it: `function(*args)` inside of a decorator, or by a
    library."""
    if m.in_body:
        return True
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return False
    # The last scope is that of the module, whose names everybody may call.
    known = (scope for scope in m.frame.scopes[:-1] if m.store.get((scope, node.func.id)) is not None)
    found = next(known, None)
    return found is not None and found not in function.scopes


def _left_out(m: Evaluator) -> str:
    """When a call happens that is not followed; empty where it is."""
    # Sets up logging, registers, writes docstrings: what a library file's own functions do is what counts.
    if m.reading_library and m.executing_module and m.calls:
        return "while a module is imported"
    return "deep inside of what makes an item" if m.lookahead_exhausted else ""


def _is_too_deep(m: Evaluator, function: Function, node: ast.AST, arguments: Arguments = NO_ARGUMENTS) -> bool:
    """Calls of this function are open already, or too many of any kind."""
    if len(m.frames) >= MAX_CALL_DEPTH:
        m.record_imprecision("calls are nested too deeply to follow", m.place(node))
        return True
    # By node, since closures of one `def` are new functions each time.
    alike = [frame.function for frame in m.frames if frame.function and frame.function.node is function.node]
    if alike and _is_given_less(m, function, arguments, once=len(alike) == 1):
        return False
    limit = MAX_RECURSION if _is_short(function.node) else 1
    # What a decorator made of each constructor calls that of the base class, which it made something of, too.
    return len(alike) >= limit and (function in alike or len(alike) >= MAX_WRAPPED)


def _is_given_less(m: Evaluator, function: Function, arguments: Arguments, once: bool) -> bool:
    """`with_attributes(settings)` calls itself for each of the entries: that comes to an end. `evaluate(names)` does so
    for each of the names, of which nothing may be known but that one of them is no list of them, and
    `scatter(data, parts=4)` for each of the parts, of which it says no more how many they are."""
    names = [each.arg for each in (*function.node.args.posonlyargs, *function.node.args.args)]
    given = list(zip(names, arguments.positional, strict=False))
    around = [each for each in m.frames if each.function and each.function.node is function.node]
    # Not read by the call itself: which calls are open around one decides nothing of what is remembered of it.
    before = [(old, values) for name, values in given if (old := m.store.get((around[-1].scope, name))) is not None]
    if any(new.single in _held_in(m, old.single) for old, new in before):
        return True
    # `create("RTDETR")` makes a "PResNet" on the way: each time another entry of a table, of which there are so many.
    for name, new in given[:1] if len(around) < MAX_WRAPPED else ():
        is_name = new.single is not None and bool(text_of(new.single) or new.single.config)
        if is_name and new not in [m.store.get((frame.scope, name)) for frame in around]:
            return True
    defaults = dict(zip(names[::-1], function.defaults[::-1], strict=False))
    left_out = [name for name in names[len(given) :] if name not in arguments.keywords]
    for name in left_out if once else ():
        old, default = m.store.get((around[-1].scope, name)), defaults.get(name)
        if old is not None and default is not None and default.single == NONE and NONE not in [*old.restrict(m.path)]:
            return True
    kinds = ((_kinds(old), _kinds(new)) for old, new in before) if once else ()
    return any(old and new and old.isdisjoint(new) for old, new in kinds)


def _held_in(m: Evaluator, value: Value | None) -> list[Value | None]:
    """What a list or a dictionary has, one by one."""
    inside = (
        [held for _, held in possible_pairs(m, value)] if isinstance(value, DictOf) else known_items(m, value) or ()
    )
    return [held.single for held in inside if held.single is not None]


def _kinds(values: Values) -> set[str]:
    """Of which types of Python these are; none where that is not known of all."""
    found = {_NAMES_OF_KINDS.get(type(each), "") or _plain_kind(each) for each in values}
    return found if "" not in found else set()


_NAMES_OF_KINDS: dict[type[Value], str] = {ListOf: "list", TupleOf: "tuple", DictOf: "dict", Text: "str"}


def _plain_kind(value: Value) -> str:
    return type(number_of(value)).__name__ if isinstance(value, Const) else getattr(value, "kind", "")


def _receiver(function: Function, bound: dict[str, Values]) -> Value | None:
    """The object that a method was called on."""
    names = function.node.args
    first = (*names.posonlyargs, *names.args)[:1]
    return bound[first[0].arg].single if function.owner is not None and function.kind == "function" and first else None


def _follow(m: Evaluator, function: Function, frame: Frame, bound: dict[str, Values]) -> Values:
    base = m.path
    with m.store.delta() as layer:
        frame.base_depth = m.store.depth - 1
        m.begin_scope(frame.scope)
        for name, values in bound.items():
            m.write((frame.scope, name), values)
        body = function.node.body
        if isinstance(body, list):
            m.execute(body)
            sides = [] if m.unreachable else [PathExit(layer, m.path)]
        else:
            sides = [PathExit(layer, m.path, m.evaluate(body))]
    # `for place in places: if place == rank: return …`, then `raise`: whoever finds no place ends the job of all.
    ended = m.path if m.unreachable and m.job_aborted else None
    sides += frame.exits
    if ended is not None and not sides and m.stop is not None and not m.muted:
        m.fatal.setdefault(function.node, m.stop)
    if not sides:
        # What it did before its error has been done, for whoever catches it.
        m.store.apply(_without(layer, frame.scope))
    # Local names of finished calls would fill the store and slow every join.
    if not m.traits_of(function).captures:
        for side in sides:
            side.writes = _without(side.writes, frame.scope)
        m.store.forget(frame.scope)
    elif m.notes is not None:
        m.notes.kept.append(frame.scope)
    frame.exits = sides
    m.join(base, sides)
    if ended is not None and sides:
        m.path = m.path.intersection(ended)
    # By far the most calls come out in one way.
    if len(sides) == 1 and len(sides[0].value.bindings) == 1:
        return sides[0].value
    return union(side.value.guarded_by(side.path.difference(m.path)) for side in sides) if sides else NONE_SET


def _is_short(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> bool:
    # Recursive batch movers are short; recursive searches are not worth following.
    return (node.end_lineno or node.lineno) - node.lineno <= SHORT_FUNCTION


def _without(writes: dict[Hashable, Values], scope: Hashable) -> dict[Hashable, Values]:
    """What was written, without the names of a scope that has ended."""
    return {key: values for key, values in writes.items() if not (isinstance(key, tuple) and key[0] is scope)}


def instantiate(m: Evaluator, cls: Class, arguments: Arguments, node: ast.AST) -> Values:
    """Call a class of the project: it makes an object, unless its metaclass knows better."""
    if cls.metaclass is not None:
        own = find_in_class(m, cls.metaclass, "__call__")
        if own is not None and not any(isinstance(each, Function) and _is_too_deep(m, each, node) for each in own):
            return call(m, own, arguments.behind(singleton(cls)), node)
    return _make_object(m, cls, arguments, node)


def _make_object(m: Evaluator, cls: Class, arguments: Arguments, node: ast.AST) -> Values:
    place = m.place(node)
    label = m.hints.get(id(node)) or cls.label
    # Own class first: a library's constructor runs only where the project calls it.
    initialiser = find_in_class(m, cls, "__init__")
    if initialiser is not None and any(isinstance(f, Function) and _is_too_deep(m, f, node) for f in initialiser):
        # A tree of modules makes its branches in its own constructor: what the last ones hold is not seen.
        return m.unknown(node, f"{cls.label} is made while one is being made")
    # Without its constructor an object would look as if its author had forgotten what is done there.
    left_out = _left_out(m)
    if left_out and any(isinstance(f, Function) for f in initialiser or ()):
        return m.unknown(node, f"{cls.label} is made {left_out}")
    given = _given_by_new(m, cls, arguments, node)
    if m.unreachable:
        return NONE_SET
    if given is not None:
        return m.for_each_value(given, lambda each: _begun(m, each, arguments, node), node)
    made = HOOKS.instance[0](cls, m.allocation_site(place), place, label, m)
    if "builtins.dict" in cls.library_bases and all(_is_chosen(m, each) for each in arguments):
        m.set_flag(made, ObjectState.of_settings)
    if initialiser is not None:
        _construct(m, made, initialiser, arguments, node)
    # Configurations are written so: their constructors exist in no file.
    elif has_fields(cls):
        _fill_fields(m, made, cls, arguments, node)
    else:
        call_method(m, made, "__init__", arguments, node)
    after = find_in_class(m, cls, "__post_init__") if cls.is_dataclass else None
    if after is not None:
        call(m, after, Arguments((singleton(made),)), node)
    # What is registered can be judged only once the constructor is done.
    look = MODELS.ready_objects.get(type(made))
    if look is not None and not m.unreachable:
        look(m, made)
    return m.state(made, ObjectState.as_made) or singleton(made)


def _given_by_new(m: Evaluator, cls: Class, arguments: Arguments, node: ast.AST) -> Values | None:
    """What `__new__` of a plain class gives: a new object, or the only one that there is; None where it has none, or
    gives something else."""
    plain = not cls.is_dataclass and cls.library_bases <= PLAIN
    maker = find_in_class(m, cls, "__new__") if plain else None
    if maker is None or any(isinstance(each, Function) and _is_too_deep(m, each, node) for each in maker):
        return None
    given = call(m, maker, arguments.behind(singleton(cls)), node)
    return given if given.are(Instance) else None


def _begun(m: Evaluator, made: Value, arguments: Arguments, node: ast.AST) -> Values:
    """Run the constructor of what `__new__` has given: each time, also where it was there before."""
    cls = class_of(made)
    initialiser = find_in_class(m, cls, "__init__") if cls is not None else None
    if initialiser is not None:
        call(m, initialiser, arguments.behind(singleton(made)), node)
    return singleton(made)


def _is_chosen(m: Evaluator, values: Values, nested: bool = False) -> bool:
    """Text, numbers and what was read with a configuration: nothing that a rank has computed."""
    for value in values:
        if isinstance(value, DictOf) and not nested:
            more = m.state(value, ContainerState.more)
            entries = [entry for _, entry in possible_pairs(m, value)]
            if not all(_is_chosen(m, each, nested=True) for each in ([*entries, more] if more else entries)):
                return False
        elif isinstance(value, Unknown):
            made_by = value.escaped_from
            if value.divergence or value.shards or (made_by and not value.config and not gives_settings(made_by)):
                return False
        elif not isinstance(value, (Const, Text, Namespace, DictOf, ListOf, TupleOf)):
            return False
    return True


def _construct(m: Evaluator, made: Value, initialiser: Values, arguments: Arguments, node: ast.AST) -> None:
    around = HOOKS.constructions.get(type(made))

    def run(given: Arguments) -> Values:
        given = given.behind(singleton(made))
        if around is None:
            call(m, initialiser, given, node)
        else:
            around(m, made, lambda: call(m, initialiser, given, node))
        return NONE_SET

    cls = class_of(made)
    memory = m.memories.get(cls)
    if memory is not None and memory.is_dear:
        # Imported late, as above.
        from gpudoctor.lint.interp.memoized_calls import noted, repeated

        if repeated(m, memory, arguments, m.place(node), made) is None:
            noted(m, memory, arguments, run, made)
        return
    begun = m.statements
    run(arguments)
    # Most classes have one object, or a short constructor.
    if (cost := m.statements - begun) >= SHORT_CALL:
        m.memories.setdefault(cls, CallMemory()).cost += cost


_WAYS_TO_CALL: dict[type[Value], Callable[[Evaluator, Any, Arguments, ast.AST], Values]] = {
    Function: call_function,
    BoundMethod: _call_bound,
    Partial: _call_partial,
    Class: instantiate,
    Library: _call_library,
    Method: _call_method,
}


def _fill_fields(m: Evaluator, made: Value, cls: Class, arguments: Arguments, node: ast.AST) -> None:
    names = list(fields_of(cls))
    for name, values in zip(names, arguments.positional, strict=False):
        m.write((made, name), values)
    for name in names[len(arguments.positional) :]:
        given = arguments.keywords.get(name) or find_in_class(m, cls, name)
        only = single_of(given)
        if isinstance(only, FieldFactory):
            given = call(m, only.factory, NO_ARGUMENTS, node)
        if name not in arguments.keywords:
            # pydantic makes objects of the dictionaries that it is given.
            inner = field_without_value(m, cls, name, node) if not (cls.is_dataclass and arguments.rest) else None
            given = inner or among_the_rest(m, arguments, name, given, node)
        missing = singleton(Unknown(Anonymous("field", (made, name)), "a field without a value", name, config=True))
        m.write((made, name), given or missing)
