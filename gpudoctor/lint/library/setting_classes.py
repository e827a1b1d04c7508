"""Objects of classes of settings, which a library makes of a file, a dictionary or the command line: dacite, pyrallis,
OmegaConf's structured configurations, pydantic."""

from __future__ import annotations

from functools import partial, reduce

from gpudoctor.lint.domain.abstract_state import ObjectState, SettingState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS
from gpudoctor.lint.domain.container import DictOf
from gpudoctor.lint.domain.function import Class, Instance, class_of
from gpudoctor.lint.domain.rank import as_setting
from gpudoctor.lint.domain.symbols import Setting
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values, constant_of, single_of, text_of
from gpudoctor.lint.events.process import ArgumentDeclared
from gpudoctor.lint.interface.contents import find_method, new_dict, note_chosen_file, possible_pairs, show_entries
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, singleton
from gpudoctor.lint.library.argument_parsers import declared_by, note_default, number_in
from gpudoctor.lint.library.missing_attributes import note_opened
from gpudoctor.lint.library.stub_models import inherited_method, returns_kind

_TYPED = frozenset({"tap.Tap", "tap.tap.Tap"})


def chosen_object(call: Call, cls: Class) -> Values:
    """An object of the class, whose fields are options of the command line."""
    return call.do.modules.object_of_settings(cls, call.node, partial(option, call))


def declare(call: Call, name: str, flags: tuple[str, ...], default: Values | None) -> None:
    """Log that an option is declared."""
    held = as_setting(default) if default is not None else None
    call.emit(ArgumentDeclared, name=name, flags=flags, default=held, left_out=single_of(default, Const))


def option(call: Call, name: str, default: Values | None) -> Values:
    """An option of the command line that is made of a parameter or a field."""
    declare(call, name, (f"--{name}",), default)
    note_default(call, name, default)
    declared = declared_by(call, name, default)
    if declared is None or not declared.any(lambda value: value.is_launched):
        declared = _given(call, name, default) or declared
    return _chosen(name) if declared is None else declared


def _chosen(name: str) -> Values:
    return singleton(Unknown(Setting(name), "chosen at the start", name, config=True))


def _given(call: Call, name: str, default: Values | None) -> Values | None:
    """What whoever starts the program says, as what the field is by default would have it."""
    said, left = call.do.launch.option((f"--{name}",)), constant_of(single_of(default))
    if isinstance(left, bool) and said is not None:
        return singleton(Const(said if isinstance(said, bool) else said.lower() in _YES))
    if not isinstance(said, str) or not isinstance(left, (str, int, float)):
        return None
    value = said if isinstance(left, str) else number_in(said, f"builtins.{type(left).__name__}")
    return singleton(Const(value)) if value is not None else None


_YES = frozenset({"true", "1", "yes", "y", "t", "on"})


@MODELS.callable("draccus.parse", "pyrallis.parse", "pyrallis.argparsing.parse")
def _parsed(call: Call) -> Values:
    cls = call.one(0, "config_class", Class)
    return chosen_object(call, cls) if cls is not None else NOT_ANSWERED


@MODELS.method(Instance, "parse_args")
def _typed(call: Call[Instance]) -> Values:
    """`class Options(tap.Tap)`, and `Options().parse_args()`: its fields are the options."""
    made = call.receiver
    if _TYPED.isdisjoint(made.cls.library_bases):
        return inherited_method(call)

    def chosen(name: str, default: Values | None) -> Values:
        values = option(call, name, default)
        call.do.set_own_attribute(made, name, values)
        return values

    call.do.modules.object_of_settings(made.cls, call.node, chosen)
    if (own := find_method(call.do, made, "process_args")) is not None:
        call.do.call(own, NO_ARGUMENTS, call.node)
    return singleton(made)


@MODELS.callable(
    "dacite.from_dict", "dacite.core.from_dict", "cattrs.structure", "cattr.structure", "dacite.from_dict.from_dict",
    "draccus.load", "draccus.decode", "pyrallis.load", "pyrallis.decode", "msgspec.convert",
)  # fmt: skip
def _structured(call: Call) -> Values:
    """What a file or dictionary says becomes an object, and so do the sections in it."""
    given = (call.keywords.get(name) for name in ("data_class", "type", "cl", "t"))
    values = [*call.args[:2], *(each for each in given if each is not None)]
    cls = next((only for each in values if isinstance(only := each.single, Class)), None)
    return call.do.modules.object_of_settings(cls, call.node) if cls is not None else NOT_ANSWERED


@MODELS.callable("omegaconf.OmegaConf.structured")
def _structured_config(call: Call) -> Values:
    """`OmegaConf.structured(Config)` has the fields of the class, and of an object what they hold."""
    given = call.one(0, "obj", Instance)
    cls = call.one(0, "obj", Class) or (class_of(given) if given is not None else None)
    if cls is None:
        return returns_kind(call)
    if given is None:
        return call.do.modules.object_of_settings(cls, call.node)
    note_opened(call.do, [given])
    return singleton(given)


@MODELS.callable("omegaconf.OmegaConf.merge")
def _merged(call: Call) -> Values:
    """`OmegaConf.merge(OmegaConf.structured(Config()), loaded)` has the fields that it had, with what was loaded; of
    files each is laid over those before it."""
    cls = class_of(call.first) if isinstance(call.first, Instance) else None
    if cls is not None:
        made = call.do.modules.object_of_settings(cls, call.node)
        for each in call.args[1:]:
            if isinstance(each.single, DictOf):
                _lay_over_fields(call, made.single, each.single)
        return made
    sections = [each for each in call.args if each.are(DictOf)]
    if not sections or call.rest:
        return returns_kind(call)
    made = reduce(partial(_laid_over, call), sections)
    if isinstance(only := made.single, DictOf) and len(sections) < len(call.args):
        # The command line may say more.
        call.do.set_flag(only, SettingState.chosen_file)
    show_entries(call.do, made)
    return made


@MODELS.method(Instance, "get")
def _entry(call: Call[Instance]) -> Values:
    """`config.model.get("depth", 12)`, where the node of a class is asked like a dictionary."""
    cls, name = call.receiver.cls, call.text(0, "key")
    if cls.library_bases or not cls.complete or name is None:
        return inherited_method(call)
    # What has no field may be one of the class that is chosen in its place.
    return call.do.own_attribute(call.receiver, name) or _chosen(name)


def _lay_over_fields(call: Call, made: Value | None, section: DictOf) -> None:
    """What a section says of an object's fields; of a field that is an object in turn, what it says of that one's."""
    for key, said in possible_pairs(call.do, section) if isinstance(made, Instance) else ():
        if (name := text_of(key.single)) is None:
            continue
        field, part = call.do.own_attribute(made, name), said.single
        if field is not None and isinstance(field.single, Instance) and isinstance(part, DictOf):
            _lay_over_fields(call, field.single, part)
        else:
            call.do.set_own_attribute(made, name, said)


def _laid_over(call: Call, before: Values, after: Values) -> Values:
    """What the second says, section by section, and what the first says of the rest."""
    if not (isinstance(old := before.single, DictOf) and isinstance(new := after.single, DictOf)):
        return after
    said = dict(possible_pairs(call.do, old))
    for key, held in possible_pairs(call.do, new):
        said[key] = _laid_over(call, said[key], held) if key in said else held
    made = new_dict(call.do, list(said.items()), call.node)
    if isinstance(only := made.single, DictOf):
        call.do.set_flag(only, ObjectState.of_settings)
        note_chosen_file(call.do, only, (old, new))
    return made


@MODELS.callable("omegaconf.OmegaConf.to_object", "omegaconf.OmegaConf.to_container")
def _as_object(call: Call) -> Values:
    return call.args[0] if isinstance(call.first, (DictOf, Instance)) else NOT_ANSWERED
