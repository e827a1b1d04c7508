"""Command line arguments and configurations: unknown values under known names."""

from __future__ import annotations

from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ObjectState, ProcessState, SettingState
from gpudoctor.lint.domain.choosing import one_by
from gpudoctor.lint.domain.container import TupleOf, items_held
from gpudoctor.lint.domain.device import Device
from gpudoctor.lint.domain.function import Class, Library, Namespace, Parser
from gpudoctor.lint.domain.rank import Rank, RankKind, RankSource, as_setting
from gpudoctor.lint.domain.symbols import Setting
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    SCALAR,
    TRUE,
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
from gpudoctor.lint.events.process import ArgumentDeclared, ArgumentsParsed, SettingRead
from gpudoctor.lint.flow.condition import MAYBE_BY_RANK, Divergence
from gpudoctor.lint.flow.valueset import Binding, ValueSet
from gpudoctor.lint.interface.contents import hidden_in, known_items
from gpudoctor.lint.interface.library_call import MODELS, Call, LibraryContext, itself, singleton
from gpudoctor.lint.library.missing_attributes import declares

SUPPRESS = Library("argparse.SUPPRESS")


# Some projects subclass it; `.*` catches its class methods.
@MODELS.callable(
    "argparse.ArgumentParser", "configargparse.ArgumentParser", "configargparse.ArgParser", "argparse.ArgumentParser.*",
    "simple_parsing.ArgumentParser", "jsonargparse.ArgumentParser", "tap.Tap.*",
)  # fmt: skip
def _parser(call: Call) -> Values:
    made = Parser(call.allocation_site(), call.place, call.label)
    parents = _parents(call)
    for parent in parents or ():
        _take_over(call, parent, made)
    # What a library declares by itself was not seen.
    plain = call.name == "argparse.ArgumentParser" and not call.open_ended
    if not plain or parents is None or not _TAKE_FROM_ELSEWHERE.isdisjoint(call.keywords):
        call.do.set_flag(made, ObjectState.opened)
    return singleton(made)


_TAKE_FROM_ELSEWHERE = frozenset({"argument_default", "namespace"})


def _parents(call: Call) -> list[Parser] | None:
    """`parents=[get_args_parser()]`: the parsers whose options it has as well; None where not all are known."""
    given = call.keywords.get("parents")
    if given is None:
        return []
    found = [item.single for item in known_items(call.do, single_of(given)) or ()]
    parsers = [each for each in found if isinstance(each, Parser)]
    return parsers if parsers and len(parsers) == len(found) else None


def _take_over(call: Call, source: Parser, target: Parser | Namespace) -> None:
    """Whatever is known of the options of a parser is known of another one, or of what it returns."""
    names = call.do.state(source, SettingState.option_names)
    known = items_held(call.do.state(target, SettingState.option_names))
    if names is not None and not known:
        call.do.set_state(target, SettingState.option_names, names)
    elif names is not None:
        every = tuple(dict.fromkeys((*known, *items_held(names))))
        call.do.set_state(target, SettingState.option_names, singleton(TupleOf(every)))
    for flag in (ObjectState.opened, SettingState.hides_rank):
        if call.do.flag(source, flag) is not NO:
            call.do.set_flag(target, flag)
    for each in items_held(names):
        name = str(each.single.value) if isinstance(each.single, Const) else ""
        for table in (SettingState.declared, SettingState.kinds, SettingState.choices):
            found = call.do.entry(source, table, name)
            if found is not None:
                call.do.set_entry(target, table, name, found)


MODELS.method(Parser, "add_argument_group", "add_mutually_exclusive_group")(itself)


@MODELS.method(Parser, "add_subparsers", "add_parser")
def _subparsers(call: Call[Parser]) -> Values:
    # Which command is given decides which options there are.
    call.do.set_flag(call.receiver, ObjectState.opened)
    return singleton(call.receiver)


def texts(call: Call) -> tuple[str, ...]:
    """The positional arguments that are text."""
    return tuple(text for values in call.args if (text := text_of(values.single)) is not None)


@MODELS.method(Parser, "add_argument")
def _add_argument(call: Call[Parser]) -> Values:
    flags = texts(call)
    given = call.constant(-1, "dest")
    # argparse names the attribute after the first long option.
    long = next((flag for flag in flags if flag.startswith("--")), flags[0] if flags else "")
    name = given if isinstance(given, str) else long.lstrip("-").replace("-", "_")
    switched = _default_by_action(call)
    default = call.keywords.get("default") or switched
    left_out = _left_out(call, flags, default)
    # `store_true` with a default of True never changes anything.
    switch = switched is not None and left_out == switched.single
    call.emit(
        ArgumentDeclared,
        name=name,
        flags=flags,
        default=as_setting(default) if default is not None else None,
        left_out=left_out if isinstance(left_out, Const) else None,
        switch=switch,
        parser=call.receiver,
    )
    note_default(call, name, default)
    # `add_argument("--rank", "--local_rank")`: what the launcher passes, under another name.
    passed = any(flag.lstrip("-").replace("-", "_") == "local_rank" for flag in flags)
    declared = declared_by(call, "local_rank" if passed else name, default)
    if declared is None or not declared.any(lambda value: value.is_launched):
        declared = _given(call, flags) or _kept(call, default) or declared
    if declared is not None:
        call.do.set_entry(call.receiver, SettingState.declared, name, declared)
    _add_name(call, name)
    kind = _kind(call, default)
    before = call.do.entry(call.receiver, SettingState.kinds, name)
    # Declared twice, for two commands, it is of either type.
    either = kind if before in (None, singleton(Const(kind))) else ""
    call.do.set_entry(call.receiver, SettingState.kinds, name, singleton(Const(either)))
    _note_choices(call, name, default, left_out)
    # `default=argparse.SUPPRESS`: there only where it is given.
    unseen = len(flags) < len(call.args) or ("dest" in call.keywords and given is None)
    if not flags and call.do.launch.launched_by == "torchrun":
        # One of the options may be the local rank that the launcher passes.
        call.do.set_flag(call.receiver, SettingState.hides_rank)
    if unseen or call.open_ended or (default is not None and default.any(lambda each: each == SUPPRESS)):
        call.do.set_flag(call.receiver, ObjectState.opened)
    return singleton(NONE)


def _note_choices(call: Call[Parser], name: str, default: Values | None, left_out: Value | None) -> None:
    """Remember what an option can be, given or left out, where all of that is known."""
    given = call.keywords.get("choices")
    items = known_items(call.do, single_of(given))
    if not items:
        call.do.set_entry(call.receiver, SettingState.choices, name, _NO_CHOICES)
        return
    found = [item.single for item in items]
    if left_out not in (None, *found):
        found.append(left_out)
    # Without a default it is given, or what argparse makes of it was seen.
    needed = "required" in call.keywords or not any(text.startswith("-") for text in texts(call))
    sure = left_out is not None or (default is None and needed)
    # With `nargs` it is a list of these, and declared twice it may be of either kind.
    once = call.do.entry(call.receiver, SettingState.choices, name) is None and {"nargs", "action"}.isdisjoint(
        call.keywords
    )
    known = sure and once and len(found) <= MAX_OPTION_CHOICES and all(isinstance(each, Const) for each in found)
    among = [singleton(each) for each in found if each is not None] if known else []
    call.do.set_entry(call.receiver, SettingState.choices, name, singleton(TupleOf(tuple(among))))


_NO_CHOICES = singleton(TupleOf(()))
MAX_OPTION_CHOICES = 40
"""Of an option with more choices than this, they are not compared."""


def _kind(call: Call, default: Values | None) -> str:
    """The type that an option surely has, given or left out; empty where that is not known."""
    only = single_of(default)
    value = constant_of(only)
    if _default_by_action(call) is not None:
        return "bool" if isinstance(value, bool) else ""
    # `nargs="+"` makes a list, `action="append"`, too.
    named = call.one(-1, "type", Library)
    kind = named.name.removeprefix("builtins.") if named is not None else ""
    if call.open_ended or not {"nargs", "action", "const"}.isdisjoint(call.keywords):
        return ""
    # What is text by default is converted as what is given.
    if kind in _TAKEN_AS and type(value) in (*_TAKEN_AS[kind], str):
        return kind
    plain = named is None and "type" not in call.keywords and (default is None or isinstance(only, Const))
    return SCALAR if plain else ""


_TAKEN_AS: dict[str, tuple[type, ...]] = {"int": (int,), "float": (float,), "str": (str,)}


def _add_name(call: Call[Parser], name: str) -> None:
    # Groups and sub-parsers share the parser's facts, so all options are here.
    names = call.do.state(call.receiver, SettingState.option_names)
    known = items_held(names)
    if names is not None and names.single is None:
        # Declared on one path only, as those that a model asks for.
        call.do.set_flag(call.receiver, ObjectState.opened)
    call.do.set_state(call.receiver, SettingState.option_names, singleton(TupleOf((*known, singleton(Const(name))))))


def _default_by_action(call: Call) -> Values | None:
    action = call.constant(-1, "action")
    return singleton(FALSE if action == "store_true" else TRUE) if action in ("store_true", "store_false") else None


def _left_out(call: Call, flags: tuple[str, ...], default: Values | None) -> Value | None:
    """What argparse makes of an option that is not given."""
    if default is not None:
        return default.single
    optional = bool(flags) and flags[0].startswith("-") and "required" not in call.keywords
    return NONE if optional and "action" not in call.keywords else None


@MODELS.method(Parser, "set_defaults")
def _set_defaults(call: Call[Parser]) -> Values:
    for name, values in call.keywords.items():
        call.do.set_entry(call.receiver, SettingState.kinds, name, singleton(Const("")))
        call.do.set_entry(call.receiver, SettingState.choices, name, _NO_CHOICES)
        call.emit(ArgumentDeclared, name=name, flags=(), default=as_setting(values))
        _add_name(call, name)
        _add_command(call, name, values)
    if call.open_ended:
        call.do.set_flag(call.receiver, ObjectState.opened)
    return singleton(NONE)


def _add_command(call: Call[Parser], name: str, values: Values) -> None:
    """`subparser.set_defaults(func=train)`, then `args.func(args)`: nobody can give a function on the command line, so
    it is that of the command that is given."""
    if not values.all(lambda each: each.is_handed_over or isinstance(each, Class)):
        return
    before = items_held(call.do.entry(call.receiver, SettingState.commands, name))
    commands = (*before, *map(singleton, values))
    call.do.set_entry(call.receiver, SettingState.commands, name, singleton(TupleOf(commands)))
    choices = [value for each in commands for value in each]
    call.do.set_entry(call.receiver, SettingState.declared, name, one_by(call.place, list(dict.fromkeys(choices))))


def note_default(call: Call, name: str, default: Values | None) -> None:
    """Remember what an option is if nothing else is said: it often names a model, or says that GPUs are used."""
    only = single_of(default)
    if isinstance(only, Const):
        call.do.set_entry(PROCESS, ProcessState.defaults, name, singleton(only))


def declared_by(call: Call, name: str, default: Values | None) -> Values | None:
    """What the launcher decides: a rank that it passes, or a default that the environment gives."""
    if default is not None and default.any(lambda value: value.is_launched):
        # argparse applies `type` to defaults that are text, so `type=int` makes a number of RANK.
        as_number = _converts_to_number(call)
        return default.map(lambda value: value.as_number()) if as_number else default
    # torchrun passes no option; torch.distributed.launch does, as `--local-rank` since torch 2.0.
    if name == "local_rank" and call.do.launch.launched_by == "torchrun":
        left_out = NONE if default is None else single_of(default)
        return singleton(Rank(RankKind.LOCAL, RankSource.ARGUMENT, place=call.place, left_out=left_out))
    # One process was started by no launcher, so nobody passes it.
    only = single_of(default)
    if name == "local_rank" and not call.do.several_processes and int_of(only) == -1:
        return default
    # `--device cuda`: another one is the choice of who has no GPU.
    text = constant_of(only)
    if isinstance(only, Device) or (isinstance(text, str) and text.partition(":")[0] == "cuda"):
        return default
    return None


def _given(call: Call, flags: tuple[str, ...]) -> Values | None:
    """What whoever starts the program says: a switch, text, or a number."""
    said = call.do.launch.option(flags)
    if said is None:
        return None
    action = call.constant(-1, "action")
    if said is True and action in ("store_true", "store_false"):
        return singleton(TRUE if action == "store_true" else FALSE)
    kind = call.one(-1, "type", Library)
    as_text = "type" not in call.keywords or (kind is not None and kind.name == "builtins.str")
    plain = not call.open_ended and {"action", "nargs", "const"}.isdisjoint(call.keywords)
    if isinstance(said, str) and plain:
        number = None if as_text else number_in(said, kind.name if kind is not None else "")
        return singleton(Const(said)) if as_text else singleton(Const(number)) if number is not None else None
    return None


def _kept(call: Call, default: Values | None) -> Values | None:
    """The default, where the whole command is known and does not give the option."""
    value = constant_of(single_of(default)) if call.do.launch.leaves_out_the_rest else None
    return default if isinstance(value, (int, float, str)) else None


def number_in(said: str, kind: str) -> float | None:
    """What `type=int` or `type=float` makes of the text of an option; None for other kinds, or where it refuses."""
    try:
        return int(said) if kind == "builtins.int" else float(said) if kind == "builtins.float" else None
    except ValueError:
        return None


def _converts_to_number(call: Call) -> bool:
    kind = call.one(-1, "type", Library)
    # Without `type=int` an option is text.
    return kind is not None and kind.name == "builtins.int"


@MODELS.method(Parser, "parse_args", "parse_intermixed_args")
def _parse(call: Call[Parser]) -> Values:
    # A list that is handed over may be another one than the launcher's.
    given = call.arg(0, "args")
    if (given is None or given.single == NONE) and not call.open_ended:
        call.emit(ArgumentsParsed, parser=call.receiver)
    return singleton(_namespace(call))


@MODELS.method(Parser, "parse_known_args")
def _parse_known(call: Call[Parser]) -> Values:
    # `parse_known_args` lets options of a launcher pass.
    rest = singleton(Unknown(Anonymous("rest of", call.receiver), "left-over arguments", config=True))
    return singleton(TupleOf((singleton(_namespace(call)), rest)))


@MODELS.method(Parser)
def _other(call: Call[Parser]) -> Values:
    if call.name not in _ONLY_TELL:
        call.do.set_flag(call.receiver, ObjectState.opened)
    return singleton(NONE)


_ONLY_TELL = frozenset({"print_help", "print_usage", "format_help", "format_usage", "error", "exit", "get_default"})


def _namespace(call: Call[Parser]) -> Namespace:
    made = Namespace(call.allocation_site(), call.place, call.label, "argparse")
    _take_over(call, call.receiver, made)
    if len(call.args) > 1 or "namespace" in call.keywords:
        call.do.set_flag(made, ObjectState.opened)
    return made


def kind_of(do: LibraryContext, owner: Namespace, name: str) -> str:
    """The type of an option, where nobody out of sight may have put something else in its place."""
    return _declared_kind(do, owner, name) if do.flag(owner, ObjectState.opened) is NO else ""


def _declared_kind(do: LibraryContext, owner: Namespace, name: str) -> str:
    only = single_of(do.entry(owner, SettingState.kinds, name))
    return str(only.value) if isinstance(only, Const) else ""


def choices_of(do: LibraryContext, owner: Namespace, name: str) -> tuple[Const, ...]:
    """What an option can be, where nobody out of sight may have put something else in its place."""
    only = single_of(do.entry(owner, SettingState.choices, name))
    if not isinstance(only, TupleOf) or do.flag(owner, ObjectState.opened) is not NO:
        return ()
    return tuple(each.single for each in only.items if isinstance(each.single, Const))


@MODELS.callable("argparse.Namespace", "types.SimpleNamespace")
def _simple(call: Call) -> Values:
    made = Namespace(call.allocation_site(), call.place, call.label, "namespace")
    for name, values in call.keywords.items():
        call.do.set_own_attribute(made, name, values)
    # `Namespace(**config)`: what the program has put into the configuration is known by name.
    held = [value for values in call.rest for value in values if isinstance(value, Unknown)]
    if held:
        call.do.set_state(made, SettingState.merged, ValueSet([Binding(value) for value in held]))
    return singleton(made)


@MODELS.attribute(Namespace)
def setting(call: Call[Namespace]) -> Values:
    """A setting of the command line or a configuration: unknown, but known by name."""
    owner = call.receiver
    call.emit(SettingRead, name=call.name)
    # An option that the launcher fills, or whose default is the environment's.
    declared = call.do.entry(owner, SettingState.declared, call.name)
    if declared is not None:
        return declared
    for config in call.do.state(owner, SettingState.merged) or ():
        put = call.do.entry(config, SettingState.items, call.name) if isinstance(config, Unknown) else None
        if put is not None:
            return put
    kind = kind_of(call.do, owner, call.name)
    label, among = call.do.text(call.node, 40), choices_of(call.do, owner, call.name)
    divergence = Divergence.NONE if declares(call.do, owner, call.name) else hidden_in(call.do, owner)
    if call.do.flag(owner, SettingState.has_ranks) is not NO and _declared_kind(call.do, owner, call.name) == "int":
        divergence = MAYBE_BY_RANK
    found = Unknown(Setting(call.name), "chosen at the start", label, divergence, config=True, kind=kind, among=among)
    if among and call.do.state(found, SettingState.can_be) is None:
        call.do.set_state(found, SettingState.can_be, singleton(TupleOf(tuple(map(singleton, among)))))
    left = call.do.entry(PROCESS, ProcessState.defaults, call.name)
    return singleton(call.do.launch.setting(found, call.place, single_of(left)))
