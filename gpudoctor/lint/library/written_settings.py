"""What stands in a settings file of the project that the program opens: `yaml.safe_load(open("train.yaml"))`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable
from types import NoneType

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.abstract_state import PROCESS, ContainerState, ObjectState, ProcessState, SettingState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, ListOf
from gpudoctor.lint.domain.function import Instance, Namespace
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import FileSetting, OpenFile, PlaceOnDisk, Setting, from_settings
from gpudoctor.lint.domain.value import Const, Text, Unknown, Value, Values, ends_of, text_of
from gpudoctor.lint.events.process import ArgumentDeclared, SettingDefault
from gpudoctor.lint.flow.condition import ALWAYS, Atom, Literal
from gpudoctor.lint.flow.valueset import Binding, ValueSet
from gpudoctor.lint.interface.contents import (
    default_of,
    is_shown,
    may_have_more,
    new_dict,
    new_list,
    possible_pairs,
    show_entries,
)
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, singleton
from gpudoctor.lint.library.argument_parsers import declared_by, note_default
from gpudoctor.lint.library.environment_variables import named_in_setting
from gpudoctor.lint.library.paths import known_text, on_disk
from gpudoctor.lint.library.stub_models import returns_kind
from gpudoctor.lint.source.group_options import OPEN, GroupOptions, SaidAtStart
from gpudoctor.record import dataclass, replace

MOST_VALUES = 1000
"""Files with more of them are tables of data."""
_SEVERAL = 2
"""A list of fewer may be longer in another file: `gpus: [0]`."""


READERS = (
    "commentjson.load", "hjson.load", "json.load", "toml.load", "tomli.load", "tomllib.load", "yaml.full_load",
    "yaml.load", "yaml.safe_load", "yaml.unsafe_load",
)  # fmt: skip
"""What reads an open file."""
_OF_TEXT = ("commentjson.loads", "hjson.loads", "json.loads", "toml.loads", "tomli.loads", "tomllib.loads")
_YAML = (".yaml", ".yml")
_JSON, _TOML = (".json",), (".toml",)
_PYTHON = (".py",)
_ENDINGS = {
    "commentjson": _JSON, "hjson": _JSON, "json": _JSON, "toml": _TOML, "tomli": _TOML, "tomllib": _TOML,
}  # fmt: skip
"""How the names of files end that a library reads; those of all others are YAML."""


@MODELS.callable(*READERS, *_OF_TEXT)
def _loaded(call: Call) -> Values:
    files = [_file_behind(each) for each in (call.args[0] if call.args else ())]
    if call.name in _OF_TEXT or call.name.startswith("yaml."):
        # What the user writes there himself is no name of a file.
        files = [each for each in files if isinstance(each.term, OpenFile)]
    return read_from(call, files) or NOT_ANSWERED


def _file_behind(given: Value) -> Value:
    """The open file that a text was read from, be it line by line, without comments."""
    parts = (each for part in given.in_text for each in provenance_of(part))
    opened = {each.term: each for each in parts if isinstance(each, Unknown) and isinstance(each.term, OpenFile)}
    return next(iter(opened.values())) if len(opened) == 1 else given


@MODELS.callable(
    "omegaconf.OmegaConf.load",
    *(f"{name}.Config.fromfile" for name in ("mmcv", "mmcv.utils", "mmengine", "mmengine.config")),
)
def _loaded_with_attributes(call: Call) -> Values:
    """Their entries are read as attributes, too."""
    found = read_from(call, call.args[0] if call.args else ())
    if found is None:
        return _unread(call)
    show_entries(call.do, found)
    return found


@MODELS.callable("addict.Dict", "easydict.EasyDict", "munch.munchify", "munch.Munch", "omegaconf.OmegaConf.create")
def _with_attributes(call: Call) -> Values:
    if call.rest or len(call.args) > 1 or not (call.args or call.keywords):
        return _unread(call)
    given = call.args[0] if call.args else new_dict(call.do, [], call.node)
    if not isinstance(given.single, DictOf):
        return _unread(call)
    named = [(singleton(Const(name)), values) for name, values in call.keywords.items()]
    if named:
        held = [(key, values) for key, values in possible_pairs(call.do, given.single)]
        given = new_dict(call.do, [*held, *named], call.node)
    show_entries(call.do, given)
    return given


@MODELS.callable("yacs.config.CfgNode.merge_from_file")
def _merged(call: Call) -> Values:
    """`cfg.merge_from_file(args.config)`: what stood there was the default, and the file says something else."""
    found = read_from(call, call.args[0] if call.args else (), _evaluated)
    if found is not None and call.receiver is not None:
        _put_over(call.do, call.receiver, found.single)
    return NOT_ANSWERED


@MODELS.callable("yacs.config.CfgNode.clone")
def _cloned(call: Call) -> Values:
    """Of settings a copy says what they say."""
    return singleton(call.receiver) if call.receiver is not None else NOT_ANSWERED


def _evaluated(written: object) -> object:
    """`TRAIN: ("coco_2017_train",)`: what reads as a literal of Python is one."""
    if isinstance(written, dict):
        return {key: _evaluated(each) for key, each in written.items()}
    if not isinstance(written, str):
        return written
    try:
        found = ast.literal_eval(written)
    except (ValueError, SyntaxError, RecursionError, MemoryError):
        return written
    return list(found) if isinstance(found, tuple) else found


def _put_over(do: LibraryContext, owner: Value, said: Value | None) -> None:
    """What a file says of the sections of a configuration stands in the place of what they held."""
    for key, values in possible_pairs(do, said) if isinstance(said, DictOf) else ():
        name = text_of(key.single)
        held = do.own_attribute(owner, name) if name else None
        section = held.single if held is not None else None
        if isinstance(section, Unknown) and isinstance(values.single, DictOf):
            _put_over(do, section, values.single)
        elif name:
            do.set_own_attribute(owner.keeper, name, values)


def _unread(call: Call) -> Values:
    return returns_kind(call) if call.declared is not None else NOT_ANSWERED


def _as_written(written: object) -> object:
    return written


def read_from(call: Call, files: Iterable[Value], meant: Callable[[object], object] = _as_written) -> Values | None:
    """What a file holds, given by its path or open; None where the project has none of this name that can be read.
    `meant` says what the reader makes of what is written there.

    What is off in it, nothing or one is a setting that the user may turn up; all else is as written, where the user may
    not name another file."""
    opened = [each.term.path or () if isinstance(each.term, OpenFile) else (each,) for each in files]
    paths = [path for values in opened for path in values]
    given, found = next(((each, read) for each in paths if (read := _document(call, each))), (None, None))
    if given is None or found is None:
        return None
    path, document, chosen = found
    # `os.path.join(os.path.dirname(args.config), "../runtime.yml")`: the user chooses no more than where it lies.
    _, open_parts, end = ends_of(given)
    is_named = any(isinstance(part.term, FileSetting) for part in given.in_text) or (bool(open_parts) and "/" in end)
    return _with_entries(call, path, meant(document), chosen or len(paths) > 1, is_named)


def module_given(call: Call, option: str) -> Values | None:
    """What the file of Python holds that the user has to name, where it only gives names to values; None where nothing
    says which one it is."""
    found = call.do.modules.usual_settings(option, "", "", _PYTHON)
    if found is None or not isinstance(found[1], dict):
        return None
    made = _with_entries(call, found[0], found[1], by_default=True)
    show_entries(call.do, made)
    return made


def _with_entries(call: Call, path: str, document: object, by_default: bool, is_named: bool = False) -> Values:
    opened = OpenedFile(call, path, by_default, is_named, hook=call.keywords.get("object_hook"))
    made = opened.value(document, "")
    if isinstance(only := made.single, DictOf):
        call.do.set_state(only, SettingState.read_from, singleton(Const(path)))
    return made


def _document(call: Call, file: Value) -> tuple[str, dict[object, object], bool] | None:
    """The path of the file that is read, what it holds, and whether the user may name another one."""
    name = known_text(file) or on_disk(file)
    # `--config`, with a file of the project as its default.
    known = name or _usual_name(call.do, file)
    found = call.do.modules.settings_in(known) if known else None
    if found is None and name is None:
        found = _usual(call, file)
    if found is None or not isinstance(found[1], dict) or _is_table(found[1]):
        return None
    return found[0], found[1], name is None or any(part.config for part in file.in_text)


def _usual_name(do: LibraryContext, file: Value) -> str | None:
    """The path where the user leaves out all options that it is made of."""
    usual = Text(tuple([default_of(do, part) or part for part in file.in_text]))
    return on_disk(usual) or known_text(usual)


def _usual(call: Call, file: Value) -> tuple[str, object] | None:
    """The file of the project that stands for all those that the user may name."""
    before, named, behind = ends_of(file)
    if named and isinstance(named[0].term, PlaceOnDisk):
        before, named, behind = ends_of(Text(file.in_text[1:]))
    only = named[0] if len(named) == 1 else None
    # What a settings file says is no name of another one: it was looked for.
    if only is None or only.divergence or not from_settings(only) or text_of(default_of(call.do, only)):
        return None
    option = only.term.name if isinstance(only.term, Setting) else ""
    # `json.load` reads no YAML.
    endings: tuple[str, ...] = _ENDINGS.get(call.name.partition(".")[0], _YAML)
    if call.name.endswith(".Config.fromfile"):
        endings = (*_PYTHON, *_YAML, *_JSON)
    found = call.do.modules.usual_settings(option, before, behind, endings)
    if found is not None and only is file:
        # It is the same file wherever the option is asked for.
        call.do.set_entry(PROCESS, ProcessState.defaults, option, singleton(Const(found[0])))
    return found


@told(HOOKS.attribute_sets)
def _takes_entries(do: LibraryContext, owner: Value, name: str, values: Values, place: Location) -> None:
    """`config.run = {"rank": rank}`: settings whose entries are attributes make such settings of a dictionary.
    `for name in loaded: setattr(args, name, loaded[name])`: with another file it has more of them."""
    loops = do.execution.open_loops[-1:]
    if isinstance(owner, (Instance, Namespace)) and any(may_have_more(do, loop.source.single) for loop in loops):
        do.set_flag(owner, ObjectState.opened)
    if is_shown(do, owner) if isinstance(owner, DictOf) else isinstance(owner, Unknown) and owner.config:
        show_entries(do, values)


def _is_table(document: object) -> bool:
    todo, seen = [document], 0
    while todo and seen <= MOST_VALUES:
        each = todo.pop()
        seen += 1
        todo += each.values() if isinstance(each, dict) else each if isinstance(each, list) else ()
    return seen > MOST_VALUES


@dataclass(frozen=True)
class OpenedFile:
    """One reading of a file by the program."""

    call: Call
    path: str
    by_default: bool = False
    """The user may name another one, with other values for the same settings."""
    is_named: bool = False
    """Another settings file names it, or the program does, and says by that what there is in it."""
    composed: bool = False
    """Whoever starts it may put another word in the place of each, as `trainer=FSDPTrainer`, but for those that an
    object is made with."""
    hook: Values | None = None
    """What makes something else of each dictionary: `json.load(file, object_hook=lambda d: SimpleNamespace(**d))`."""

    def value(self, written: object, name: str) -> Values:
        """What is written under a name, which has those above it before it: `optimizer.lr`."""
        call = self.call
        match written:
            case GroupOptions():
                return self._chosen(written, name)
            case dict() if self.composed and "_target_" in written:
                return replace(self, composed=False).value(written, name)
            case dict():
                entries: list[tuple[Values | None, Values]] = [
                    (singleton(Const(key)), self.value(each, _below(name, key)))
                    for key, each in written.items()
                    if isinstance(key, (str, int, float, NoneType))
                ]
                made = new_dict(call.do, entries, call.node)
                if isinstance(only := made.single, DictOf):
                    call.do.set_flag(only, ObjectState.of_settings)
                    if self.by_default and not self.is_named:
                        call.do.set_flag(only, SettingState.chosen_file)
                return made if self.hook is None else call.do.call(self.hook, Arguments((made,)), call.node)
            case list():
                items = [self.value(each, _below(name, at)) for at, each in enumerate(written)]
                held = new_list(call.do, items, call.node)
                if self.by_default and len(items) < _SEVERAL and isinstance(only := held.single, ListOf):
                    call.do.set_flag(only, ContainerState.grown)
                return held
            case SaidAtStart(value):
                return singleton(Const(value))
        if written is OPEN:
            return singleton(Unknown(FileSetting(f"{self.path}:{name}"), "a setting", name, config=True))
        if (read := named_in_setting(call.do, written, call.place)) is not None:
            return read
        # `local_rank: -1` stands for what a launcher passes.
        if written in (-1, None):
            passed = declared_by(call, name.rpartition(".")[2], singleton(Const(written)))
            if passed is not None:
                return passed
        # It says what the program does as it lies there. What is off, nothing or one is for others to turn up.
        says = (isinstance(written, str) and not (self.composed and written.isidentifier())) or written is True
        says = says or (isinstance(written, (int, float)) and written not in (0, 1))
        if says and not self.by_default:
            if type(written) is int:
                last = name.rpartition(".")[2]
                call.emit(ArgumentDeclared, name=last, flags=(), default=singleton(Const(written)))
            return singleton(Const(written))
        term = FileSetting(f"{self.path}:{name}")
        kind = type(written).__name__ if isinstance(written, (int, float, str)) else ""
        setting = Unknown(term, "written in a settings file", name, config=True, kind=kind)
        default = Const(written) if isinstance(written, (int, float, str, NoneType)) else None
        # YAML has dates, too.
        if default is not None:
            note_default(self.call, term.name, singleton(default))
            self.call.emit(SettingDefault, value=setting, text=name, left_out=default)
        return singleton(self.call.do.launch.setting(setting, self.call.place, default))

    def _chosen(self, options: GroupOptions, name: str) -> Values:
        """What the user's option of a group says here."""
        bindings: list[Binding[Value]] = []
        when = ALWAYS
        for index, (option, each) in enumerate(options.said):
            literal = Literal(
                Atom(Setting(f"{options.group}={option}"), text=f"{options.group}={option}", switch=True), True
            )
            last = index + 1 == len(options.said)
            made = self.value(each, name)
            bindings += made.guarded_by(when if last else when.conjoined_with(literal)).bindings
            when = when if last else when.conjoined_with(literal.negated())
        return ValueSet(bindings)


def _below(name: str, key: object) -> str:
    return f"{name}.{key}" if name else str(key)
