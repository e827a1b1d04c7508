"""Hydra: what a program is configured with, and the objects that are made of it."""

from __future__ import annotations

from gpudoctor.lint.domain.abstract_state import PROCESS, ProcessState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf
from gpudoctor.lint.domain.function import Function, Partial, function_of
from gpudoctor.lint.domain.symbols import CallResult, Setting
from gpudoctor.lint.domain.value import FALSE, TRUE, Const, Text, Unknown, Value, Values, single_of, text_of
from gpudoctor.lint.interface.contents import known_items, new_dict, new_list, possible_pairs, show_entries
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, singleton
from gpudoctor.lint.library.dynamic_import import named, named_in_files
from gpudoctor.lint.library.paths import on_disk
from gpudoctor.lint.library.written_settings import OpenedFile

_COMPOSED = "what hydra composes"
_FOLDER = "where hydra looks"
_TARGET = "_target_"


@MODELS.callable("hydra.main")
def _main(call: Call) -> Values:
    """`@hydra.main(config_path="conf", config_name="train")`: what is composed of these files, until it decorates."""
    call.do.set_entry(PROCESS, ProcessState.declared, _COMPOSED, singleton(Const(None)))
    made = _composed(call, _folder(call.arg(0, "config_path")) or ".", call.text(1, "config_name"))
    if made is not None:
        call.do.set_entry(PROCESS, ProcessState.declared, _COMPOSED, made)
    return call.unknown(CallResult(call.name, call.place), "a decorator", escaped_from=call.name)


@MODELS.callable(
    "hydra.initialize", "hydra.initialize_config_dir", "hydra.initialize_config_module",
    "hydra.experimental.initialize", "hydra.experimental.initialize_config_dir",
)  # fmt: skip
def _initialized(call: Call) -> Values:
    """`initialize_config_module("project.conf")` says where `compose` finds its files."""
    names = ("config_path", "config_dir", "config_module")
    folder = _folder(next(filter(None, (call.arg(0, name) for name in names)), None)) or "."
    if call.name.endswith("_module"):
        folder = folder.replace(".", "/")
    call.do.set_entry(PROCESS, ProcessState.declared, _FOLDER, singleton(Const(folder)))
    return NOT_ANSWERED


@MODELS.callable("hydra.compose", "hydra.experimental.compose")
def _compose(call: Call) -> Values:
    """`compose(config_name=args.config)` reads one that the program is usually given where nobody says which."""
    folder = text_of(single_of(call.do.entry(PROCESS, ProcessState.declared, _FOLDER))) or "."
    name, given = call.text(0, "config_name"), single_of(call.arg(0, "config_name"))
    if name is None and isinstance(given, Unknown) and isinstance(given.term, Setting):
        usual = call.do.modules.usual_settings(given.term.name, f"{folder}/", ".yaml", (".yaml",))
        name = usual[0].partition(f"/{folder}/")[2] if usual is not None else None
    return _composed(call, folder, name) or NOT_ANSWERED


def _folder(given: Values | None) -> str | None:
    folder = single_of(given)
    known = text_of(folder) or (on_disk(folder) if folder is not None else None)
    if known is not None or not isinstance(folder, Text):
        return known
    # `PROJECT_ROOT / "conf"`, where the environment says which: it is looked for above the program.
    behind = [text_of(part) for part in folder.parts[1:]]
    return "".join(filter(None, behind)).strip("/") if None not in behind else None


@MODELS.decorator("hydra.main")
def _started_with(call: Call) -> Values:
    """The first parameter of what it decorates is the configuration."""
    function = function_of(call.args[0].single)
    made = call.do.entry(PROCESS, ProcessState.declared, _COMPOSED)
    if isinstance(function, Function) and made is not None and isinstance(made.single, DictOf):
        parameters = [*function.node.args.posonlyargs, *function.node.args.args]
        for each in parameters[:1]:
            call.do.set_entry(PROCESS, ProcessState.declared, each.arg, made)
    return call.args[0]


def _composed(call: Call, folder: str, name: str | None) -> Values | None:
    found = call.do.modules.hydra_config(folder, name) if name is not None else None
    if not isinstance(found, dict):
        return None
    made = OpenedFile(call, name or "", composed=True).value(found, "")
    show_entries(call.do, made)
    return made


@MODELS.callable("hydra.utils.instantiate", "hydra.utils.call")
def _instantiate(call: Call) -> Values:
    """`instantiate(cfg.model, size=3)` calls what stands under `_target_` there."""
    given = call.arg(0, "config")
    if given is None or not given.are(DictOf):
        return named_in_files(call)
    own = {name: values for name, values in call.keywords.items() if not name.startswith("_") and name != "config"}
    besides = Arguments(call.args[1:], own)
    recursive = call.keywords.get("_recursive_")
    return call.do.for_each_value(given, lambda each: _made_of(call, each, besides, recursive), call.node)


def _made_of(call: Call, settings: Value, besides: Arguments, recursive: Values | None = None) -> Values:
    """The object that a section describes, or the section where it describes none."""
    entries = {text: held for key, held in possible_pairs(call.do, settings) if (text := text_of(single_of(key)))}
    inner = recursive or entries.get("_recursive_")
    if inner is None or inner.single != FALSE:
        entries = {name: _with_objects(call, held) for name, held in entries.items()}
    target = text_of(single_of(entries.get(_TARGET)))
    if target is None:
        made = new_dict(call.do, [(singleton(Const(name)), held) for name, held in entries.items()], call.node)
        show_entries(call.do, made)
        return made
    cls, partial = named(call, target), entries.get("_partial_")
    if cls is None:
        return call.unknown(CallResult(target, ()), f"what {target} returns")
    first = (*(known_items(call.do, single_of(entries.get("_args_"))) or ()), *besides.positional)
    given = {name: held for name, held in entries.items() if not name.startswith("_")} | besides.keywords
    if partial is not None and partial.single == TRUE:
        return singleton(Partial(cls, first, tuple(given.items())))
    return call.do.call(singleton(cls), Arguments(first, given), call.node)


def _with_objects(call: Call, held: Values) -> Values:
    """What an entry holds, with objects in the place of the sections that describe them."""
    return call.do.for_each_value(held, lambda each: _with_object(call, each), call.node)


def _with_object(call: Call, each: Value) -> Values:
    if isinstance(each, DictOf):
        return _made_of(call, each, Arguments())
    items = known_items(call.do, each)
    if items is None or not any(one.has(DictOf) for one in items):
        return singleton(each)
    return new_list(call.do, [_with_objects(call, one) for one in items], call.node)
