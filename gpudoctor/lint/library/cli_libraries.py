"""Command lines that are made of functions and classes: click, typer, fire, tyro, absl and their kind."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import PROCESS, CommandState, ProcessState, SettingState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.choosing import one_by
from gpudoctor.lint.domain.container import TupleOf, items_held
from gpudoctor.lint.domain.function import (
    BoundMethod,
    Class,
    Commands,
    Function,
    Instance,
    Library,
    Namespace,
    class_of,
    function_of,
)
from gpudoctor.lint.domain.symbols import CallResult, Setting
from gpudoctor.lint.domain.value import NONE, Anonymous, Const, Unknown, Value, Values, single_of
from gpudoctor.lint.interface.contents import fields_of, find_in_class, find_method, new_dict, new_list
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, flatten, singleton
from gpudoctor.lint.library.argument_parsers import declared_by, note_default, texts
from gpudoctor.lint.library.dynamic_import import all_named
from gpudoctor.lint.library.setting_classes import chosen_object, declare, option
from gpudoctor.manifest.compiled import prefixes

ADD = Library("click.Group.add_command")
CALLBACK = Library("typer.Typer.set_callback")


@MODELS.callable("click.option", "typer.Option", "typer.Argument", "rich_click.option")
def _option(call: Call) -> Values:
    """`@click.option("--lr")`: the parameter of this name is a setting."""
    flags = tuple(flag for flag in texts(call) if flag.startswith("-"))
    long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
    # click writes switches as `--shuffle/--no-shuffle`.
    name = long.lstrip("-").partition("/")[0].replace("-", "_")
    if name:
        default = call.keywords.get("default")
        declare(call, name, flags, default)
        note_default(call, name, call.keywords.get("default"))
        declared = declared_by(call, name, call.keywords.get("default"))
        if declared is not None:
            call.do.set_entry(PROCESS, ProcessState.declared, name, declared)
    return call.unknown(CallResult(call.name, call.place), "a decorator", escaped_from=call.name)


@MODELS.attribute(Function, "main")
def _main(call: Call[Function]) -> Values:
    """`start.main(standalone_mode=False)` of a command of click is `start()`, and returns."""
    return (
        singleton(call.receiver)
        if any(each.startswith("click.") for each in call.receiver.decorators)
        else NOT_ANSWERED
    )


@MODELS.callable("typer.Typer", "click.Group", "rich_click.Group", "cyclopts.App")
def _app(call: Call) -> Values:
    return singleton(Commands(call.allocation_site(), call.place, call.label))


@MODELS.decorator("click.group", "rich_click.group")
def _group(call: Call) -> Values:
    """The function becomes the group; what it says is done before any of its commands."""
    made = Commands(call.allocation_site(), call.place, call.label)
    call.do.set_state(made, CommandState.callback, call.args[0])
    return singleton(made)


@MODELS.method(Commands, "command", "group")
def _command(call: Call[Commands]) -> Values:
    # `@app.command` without brackets is given the function at once.
    if call.args and call.args[0].are(Function, BoundMethod):
        return _add(call, call.receiver, call.args[0])
    return singleton(BoundMethod(call.receiver, ADD))


@MODELS.method(Commands, "callback", "default")
def _callback(call: Call[Commands]) -> Values:
    if call.args and call.args[0].are(Function, BoundMethod):
        call.do.set_state(call.receiver, CommandState.callback, call.args[0])
        return call.args[0]
    return singleton(BoundMethod(call.receiver, CALLBACK))


@MODELS.callable(CALLBACK.name)
def _set_callback(call: Call) -> Values:
    owner = call.args[0].single if len(call.args) > 1 else None
    if isinstance(owner, Commands):
        call.do.set_state(owner, CommandState.callback, call.args[1])
    return call.args[1] if len(call.args) > 1 else singleton(NONE)


@MODELS.callable(ADD.name)
def _added(call: Call) -> Values:
    owner = call.args[0].single if len(call.args) > 1 else None
    return _add(call, owner, call.args[1]) if isinstance(owner, Commands) else singleton(NONE)


@MODELS.method(Commands, "add_typer", "add_command")
def _add_group(call: Call[Commands]) -> Values:
    return _add(call, call.receiver, call.args[0]) if call.args else singleton(NONE)


def _add(call: Call, owner: Commands, command: Values) -> Values:
    known = items_held(call.do.state(owner, CommandState.commands))
    call.do.set_state(owner, CommandState.commands, singleton(TupleOf((*known, command))))
    return command


@MODELS.called(Commands)
def _run_group(call: Call[Commands]) -> Values:
    owner = call.receiver
    for value in call.do.state(owner, CommandState.callback) or ():
        _start(call, value)
    commands = items_held(call.do.state(owner, CommandState.commands))
    _start_one(call, [value for item in commands for value in item])
    return singleton(NONE)


@MODELS.callable(*prefixes("calls_given"))
def _run_command(call: Call) -> Values:
    """A function becomes the command line: its parameters are settings, also those that have a default."""
    # fire calls it `component`, absl `main`, simple_parsing `config_class`.
    names = ("component", "main", "components", "config_class")
    usual = single_of(call.keywords.get("default"), Instance)
    if usual is not None:
        _make_options(call, usual)
        return singleton(usual)
    given = next((values for name in names if (values := call.arg(0, name)) is not None), None)
    if given is None and call.name in ("fire.Fire", "jsonargparse.CLI"):
        started = _start_one(call, call.do.modules.own_functions())
    else:
        started = _start_one(call, flatten(call.do, list(given or ())))
    if started is not None and started.all(lambda value: not isinstance(value, Unknown)):
        return started
    return call.unknown(Anonymous("configuration", call.name), "a configuration", config=True)


def _make_options(call: Call, owner: Instance, inside: tuple[Instance, ...] = ()) -> None:
    """`tyro.cli(Config, default=config)`: what a field of it is, or of an object in it, is so by default."""
    for name in call.do.names_of(owner):
        held = call.do.own_attribute(owner, name)
        only = single_of(held)
        if isinstance(only, Instance) and only not in (*inside, owner):
            _make_options(call, only, (*inside, owner))
        elif isinstance(only, Const) and only != NONE:
            call.do.set_own_attribute(owner, name, option(call, name, held))


@MODELS.callable("gpudoctor.manifest.effects.class_in_settings")
def _class_in_settings(call: Call) -> Values:
    key = call.text(0, "key") or ""
    # What it makes stands in no section; objects in it have their own.
    whole = all_named(call, call.do.modules.named_by_itself(f"{key}/class_path"))
    return (one_by(call.place, whole) if whole else _classes_at(call, key)) or singleton(NONE)


@MODELS.callable("gpudoctor.manifest.effects.said_in_settings")
def _said_in_settings(call: Call) -> Values:
    found = call.do.modules.usual_settings("config", "", "", (".yaml", ".yml"))
    document = found[1] if found is not None and isinstance(found[1], dict) else {}
    section = document.get(call.text(0, "key"))
    said = section.items() if isinstance(section, dict) else ()
    return new_dict(call.do, [(singleton(Const(key)), _as_written(call, key, each)) for key, each in said], call.node)


def _as_written(call: Call, key: str, written: object) -> Values:
    why = "written in a settings file"
    match written:
        case str() | int() | float() | None:
            return singleton(Const(written))
        case list():
            return new_list(call.do, [_as_written(call, key, each) for each in written], call.node)
        case {"class_path": str(path)}:
            known = all_named(call, [path])
            object_ = Unknown(CallResult(path, (key,)), why, key, escaped_from=path)
            return _made(call, (), known[0]) if known else singleton(object_)
    return singleton(Unknown(Setting(key), why, key, config=True))


@MODELS.callable("gpudoctor.manifest.effects.of_options")
def _of_options(call: Call) -> Values:
    return call.do.for_each_value(call.args[0], partial(_made, call, ()), call.node) if call.args else NOT_ANSWERED


def _made(call: Call, around: tuple[Value, ...], each: Value) -> Values:
    if not isinstance(each, Class):
        return _start(call, each)
    return call.do.modules.object_of_settings(each, call.node, partial(_part, call, (*around, each)))


def _part(call: Call, around: tuple[Value, ...], name: str, default: Values | None) -> Values:
    """What a parameter is: an object of a class that a setting file names, or an option. `around` are the classes of
    what has the parameter: `model` is what the command line makes, and what that has in it under the same name."""
    classes = _classes_at(call, name, around) if default is None else None
    made = partial(_made, call, around)
    return call.do.for_each_value(classes, made, call.node) if classes else option(call, name, default)


def _classes_at(call: Call, key: str, around: tuple[Value, ...] = ()) -> Values | None:
    named = all_named(call, call.do.modules.named_in_settings([key, "class_path"]))
    found = [each for each in named if each not in around]
    return one_by(call.place, found) if found else None


@MODELS.decorator("fastcore.script.call_parse")
def _started_at_once(call: Call) -> Values:
    """`@call_parse` calls the function where it is defined, in the program itself."""
    function = call.args[0]
    if call.do.launch.in_main_module and function.single is not None:
        with call.do.launch.at_main_guard():
            _start(call, function.single)
    return function


def _start_one(call: Call, choices: list[Value]) -> Values | None:
    """The user names one of these; which one splits no ranks."""
    if call.name == "fire.Fire":
        choices = [each for value in choices for each in _commands_of(call, value)]
    choices = [value for value in choices if isinstance(value, (Function, BoundMethod, Class, Commands))]
    if len(choices) < 2:
        return _start(call, choices[0]) if choices else None
    return call.do.for_each_value(one_by(call.place, choices), lambda value: _start(call, value), call.node)


def _start(call: Call, value: Value) -> Values:
    if isinstance(value, Class) and find_in_class(call.do, value, "__init__") is None and any(fields_of(value)):
        return chosen_object(call, value)
    settings = dict(settings_of(call, value))
    # `def main(**settings)`: fire hands over whatever the user gives.
    given = Unknown(Anonymous("a setting", call.place), "chosen at the start", "a setting", config=True)
    rest = (singleton(given),) if call.name == "fire.Fire" and _takes_any(value) else None
    made = call.do.call(singleton(value), Arguments((), settings, rest), call.node)
    only = made.single
    # `fire.Fire(Trainer)`: the methods are the commands.
    if isinstance(value, Class) and only is not None and call.name == "fire.Fire":
        _start_one(call, [only])
    return made


def _commands_of(call: Call, value: Value) -> list[Value]:
    """The methods of an object that is started, else the value itself."""
    cls = class_of(value)
    if cls is None:
        return [value]
    methods = [name for name in _methods(cls) if not name.startswith("_")]
    return [method for name in methods for method in find_method(call.do, value, name) or ()]


def _takes_any(value: Value) -> bool:
    function = function_of(value)
    return function is not None and function.node.args.kwarg is not None


def _methods(cls: Class) -> Iterator[str]:
    return (each.name for each in cls.node.body if hasattr(each, "args") and hasattr(each, "name"))


def settings_of(call: Call, value: Value) -> Iterator[tuple[str, Values]]:
    """The parameters of what is started. Defaults are overridden on the command line,
    so they decide no branch."""
    for name, default in _parameters(call.do, value).items():
        yield name, option(call, name, default)


def _parameters(do: LibraryContext, value: Value) -> dict[str, Values | None]:
    """The names, with their defaults where there are any."""
    match value:
        case BoundMethod(function=function):
            return _but_the_first(_parameters(do, function))
        case Function(defaults=defaults):
            names = value.node.args
            positional = [each.arg for each in (*names.posonlyargs, *names.args)]
            last = positional[len(positional) - len(defaults) :]
            known = {**dict(zip(last, defaults, strict=True)), **dict(value.keyword_defaults)}
            return {name: known.get(name) for name in (*positional, *(each.arg for each in names.kwonlyargs))}
        case Class():
            only = single_of(find_in_class(do, value, "__init__"))
            return _but_the_first(_parameters(do, only)) if only is not None else {}
    return {}


def _but_the_first(parameters: dict[str, Values | None]) -> dict[str, Values | None]:
    return dict(list(parameters.items())[1:])


@MODELS.name("absl.flags.FLAGS", "gflags.FLAGS", "tensorflow.app.flags.FLAGS")
def _flags(do: LibraryContext, place: Location) -> Values:
    return singleton(_all_flags(place))


def _all_flags(place: Location) -> Namespace:
    """The flags of all modules, in one object."""
    return Namespace(("absl.flags.FLAGS",), place, "FLAGS", "absl")


@MODELS.callable("absl.flags.*")
def _define(call: Call) -> Values:
    """`flags.DEFINE_integer("lr", 1, "…")`."""
    name = call.text(0, "name")
    if not call.name.startswith("absl.flags.DEFINE_") or name is None:
        return call.unknown(CallResult(call.name, call.args), "flags", config=True)
    default = call.arg(1, "default")
    declare(call, name, (f"--{name}",), default)
    declared = declared_by(call, name, default)
    if declared is not None:
        call.do.set_entry(_all_flags(call.place), SettingState.declared, name, declared)
    return singleton(Unknown(Setting(name), "chosen at the start", name, config=True))


MODELS.method(Commands)(lambda call: NOT_ANSWERED if call.name.startswith("__") else singleton(NONE))
