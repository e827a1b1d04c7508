"""What a call passes: its arguments are evaluated, and the parameters of a function are bound to them."""

from __future__ import annotations

import ast

from gpudoctor.lint.domain.abstract_state import PROCESS, ContainerState, ProcessState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf
from gpudoctor.lint.domain.function import Function
from gpudoctor.lint.domain.symbols import Item, Setting, Widened
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import Anonymous, Const, Unknown, Values, singleton, text_of
from gpudoctor.lint.events.process import SettingRead
from gpudoctor.lint.flow.condition import MAYBE_BY_RANK, Divergence, complement
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interface.contents import MAX_TUPLE, known_items, new_dict, pairs, possible_pairs
from gpudoctor.lint.interp.annotations import annotated_class, as_annotated, has_fields, is_chosen, object_of_settings
from gpudoctor.lint.interp.attributes import option_in
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.library.library_names import RUN_COMMANDS
from gpudoctor.lint.library.register import HOOKS


def arguments_of(m: Evaluator, node: ast.Call) -> Arguments:
    """The arguments of a call, as far as those are known that `*` and `**` stand for."""
    if not node.args and not node.keywords:
        return NO_ARGUMENTS
    args: list[Values] = []
    keywords: dict[str, Values] = {}
    rest: list[Values] | None = None
    for each in node.args:
        if isinstance(each, ast.Starred):
            values = m.evaluate(each.value)
            known = known_items(m, values.single)
            # `f(*args, *args)` doubles with each call.
            if known is None or len(args) + len(known) > MAX_TUPLE:
                rest = [*(rest or ()), *_inside(m, values)]
            else:
                args.extend(known)
        else:
            args.append(m.evaluate(each))
    for keyword in node.keywords:
        values = m.evaluate(keyword.value)
        if keyword.arg is not None:
            keywords[keyword.arg] = values
            continue
        # `DataLoader(data, **kwargs)`: what the dictionary surely holds counts as written.
        only = values.single
        entries = pairs(m, only)
        if entries is None or not isinstance(only, DictOf) or m.state(only, ContainerState.more) is not None:
            # What it has on some paths only is found in it by name.
            partly = [values] if isinstance(only, DictOf) and entries is None else []
            rest = [*(rest or ()), *partly, *_inside(m, values)]
        for key, value in entries or ():
            if (text := text_of(key.single)) is not None:
                keywords[text] = value
    return Arguments(tuple(args), keywords, None if rest is None else tuple(rest))


def _inside(m: Evaluator, values: Values) -> list[Values]:
    """What a container holds whose items are not known one by one; a batch is one itself."""
    only = values.single
    # `loaders = [one] if single else [each for each in several]`: what any of them holds.
    if only is None and values.are(ListOf):
        return [item.guarded_by(b.condition) for b in values.bindings for item in _inside(m, singleton(b.value))]
    if not isinstance(only, (DictOf, ListOf)):
        return [values]
    more, held = (
        m.state(only, ContainerState.more),
        m.state(only, ContainerState.items) if isinstance(only, ListOf) else None,
    )
    # `layers = [first]`, more in a loop, then `nn.Sequential(*layers)`.
    known = [item for each in held or () if isinstance(each, TupleOf) for item in each.items]
    return [*known, *([more] if more is not None else [])]


def bind_parameters(m: Evaluator, function: Function, arguments: Arguments, node: ast.AST) -> dict[str, Values]:
    """What each parameter of a function is, where it is called with these arguments."""
    names = function.node.args
    positional = [each.arg for each in (*names.posonlyargs, *names.args)]
    bound: dict[str, Values] = {}
    args, left = arguments.positional, dict(arguments.keywords)
    defaults = dict(zip(reversed(positional), reversed(function.defaults), strict=False))
    defaults.update(function.keyword_defaults)
    if arguments.rest and function.kind == "library":
        # What the names of a library's code mean there, nobody gives it.
        by_name = zip(names.kwonlyargs, names.kw_defaults, strict=True)
        left |= {each.arg: defaults[each.arg] for each, written in by_name if written is None and each.arg in defaults}
    for name in (*positional, *(each.arg for each in names.kwonlyargs)):
        if len(bound) < min(len(args), len(positional)):
            bound[name] = args[len(bound)]
        elif name in left:
            bound[name] = left.pop(name)
        else:
            bound[name] = among_the_rest(m, arguments, name, defaults.get(name), node) or _missing_argument(
                m, function, name, arguments
            )
    for each in (*names.posonlyargs, *names.args, *names.kwonlyargs):
        if each.annotation is not None and type(given := bound[each.arg].single) is Unknown and is_chosen(given):
            # `def main(config: TrainConfig)`: no more is known of what the command line has made.
            bound[each.arg] = as_annotated(m, each.annotation, bound[each.arg], node, function.scopes[-1])
    if names.vararg:
        bound[names.vararg.arg] = singleton(TupleOf(args[len(positional) :]))
    if names.kwarg and _is_command(function) and not (arguments.positional or arguments.keywords or arguments.rest):
        # All options that no parameter is called after.
        options = Unknown(Anonymous("options", function.place), "options", names.kwarg.arg, config=True)
        bound[names.kwarg.arg] = singleton(options)
    elif names.kwarg:
        entries: list[tuple[Values | None, Values]] = [(singleton(Const(key)), value) for key, value in left.items()]
        # Under whichever names.
        entries += ((m.unknown(node, "a name of an argument"), value) for value in arguments.rest or ())
        bound[names.kwarg.arg] = new_dict(m, entries, node)
    return bound


def among_the_rest(
    m: Evaluator, arguments: Arguments, name: str, default: Values | None, node: ast.AST
) -> Values | None:
    """What a parameter is that nobody gives by name: `f(**settings)` may hold it, and may leave it to its default."""
    found = [default] if default is not None else []
    for values in arguments.rest or ():
        only = values.single
        if values.are(DictOf):
            held = _held_under(m, values, name)
            # One of them has it on each path.
            if held is not None and not complement(m.path, [each.condition for each in held.bindings]):
                return held
            found += [held] if held is not None else []
        elif isinstance(only, Unknown):
            # `Config(**vars(args))`: all options are there under their names.
            option = option_in(m, only, name, node)
            if option is not None:
                return _read_as(option, f"{only.label}[{name!r}]")
            term, divergence = Item(only, Const(name)), only.dependence
            # One of many things, among which the rank is.
            if isinstance(only.term, Widened) and divergence & Divergence.RANK:
                divergence = MAYBE_BY_RANK
            found.append(singleton(Unknown(term, only.why, name, divergence, True, only.shards, only.escaped_from)))
        # `model(**batch)`: an entry of what a loader yields.
        elif isinstance(only, Tensor) and only.origin is TensorOrigin.BATCH:
            found.append(values if only.part else m.item_at(only, singleton(Const(name)), node))
        # `criterion(*model(x))`: what has a default is seldom among them.
        elif default is None and type(only) in HOOKS.iterations:
            found.append(m.items_of(values, node))
        # `build(**settings)` of a dictionary with attributes: what it holds is not known by name.
    return union(found) if found else None


def _held_under(m: Evaluator, dictionaries: Values, name: str) -> Values | None:
    """What one of several dictionaries, or one that branches have filled, holds under a name, where it does."""
    found = [
        held.guarded_by(each.condition)
        for each in dictionaries.restrict(m.path).bindings
        if isinstance(each.value, DictOf)
        for key, held in possible_pairs(m, each.value)
        if key.single == Const(name)
    ]
    return union(found).restrict(m.path) if found else None


def _read_as(values: Values, label: str) -> Values:
    return values.map(lambda each: each.read_as(label))


def _missing_argument(m: Evaluator, function: Function, name: str, arguments: Arguments) -> Values:
    """A parameter for which nothing was given: a library fills it, or the call was made up."""
    settings = _is_command(function)
    if settings and "click.pass_context" in function.decorators and name == function.node.args.args[0].arg:
        context = Anonymous("context", function.place)
        return singleton(Unknown(context, "the context of a command", name, escaped_from="click.Context"))
    if settings:
        m.emit(SettingRead, at=function.place, name=name)
        declared = m.entry(PROCESS, ProcessState.declared, name) or _settings_object(m, function, name)
        if declared is not None:
            return declared
    elif m.reading_library and (chosen := _settings_object(m, function, name)) is not None:
        return chosen
    term = Setting(name) if settings else Anonymous("parameter", (function.place, name))
    return singleton(Unknown(term, "a parameter", name, config=settings or arguments.open_ended or len(m.calls) <= 1))


def _is_command(function: Function) -> bool:
    """A decorator fills its parameters from the command line."""
    return any(each.startswith(RUN_COMMANDS) for each in function.decorators)


def _settings_object(m: Evaluator, function: Function, name: str) -> Values | None:
    """`def main(config: Config)`, which nobody is seen to call: an object of that class, or what looks like one."""
    names = function.node.args
    noted = (each.annotation for each in (*names.posonlyargs, *names.args, *names.kwonlyargs) if each.arg == name)
    # The body of a stub stands in no module.
    cls = annotated_class(m, next(noted, None), function.scopes[-1]) if function.scopes else None
    if cls is None or not has_fields(cls):
        return None
    made = object_of_settings(m, cls, function.node)
    # Of hydra's settings the annotation only says what some of them are called.
    for told in HOOKS.opened:
        told(m, made)
    return made
