"""Attributes: of modules, of objects of the project's classes, and of what library models answer for."""

from __future__ import annotations

import ast
from collections.abc import Callable
from itertools import takewhile
from typing import Any

from gpudoctor.lint.domain.abstract_state import NO, PROCESS, ContainerState, ObjectState, ProcessState, SettingState
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.container import DictOf, items_held
from gpudoctor.lint.domain.function import (
    BoundMethod,
    Class,
    Function,
    Instance,
    Library,
    Method,
    Namespace,
    Partial,
    ProjectModule,
    Super,
    class_of,
)
from gpudoctor.lint.domain.heuristics import NO_MODULE
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.symbols import Attribute, CallResult, Item
from gpudoctor.lint.domain.value import NONE, UNBOUND, Const, Unknown, Value, Values, single_of, singleton
from gpudoctor.lint.events.model import BareAsked, ModuleClassFlaw
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import ValueSet, union
from gpudoctor.lint.interface.contents import (
    ancestry,
    described_by,
    find_in_class,
    hidden_in,
    new_dict,
    possible_pairs,
    set_item,
)
from gpudoctor.lint.interface.library_call import NOT_ANSWERED, Call
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.imports import member
from gpudoctor.lint.interp.position import NONE_SET
from gpudoctor.lint.library.library_names import ABOUT_FORM, MODULE, OF_LAYERS, is_harmless
from gpudoctor.lint.library.register import HOOKS, MODELS
from gpudoctor.manifest.compiled import class_made_by
from gpudoctor.record import replace

PROPERTIES = ("property", "cached")
NAMES = ("__name__", "__qualname__")
OF_CLASSES = ("__subclasses__", "mro")
DICT_METHODS = frozenset(dir(dict))
_OF_OBJECTS = {
    "__setattr__": "builtins.setattr",
    "__getattribute__": "builtins.getattr",
    "__getattr__": "builtins.getattr",
}
"""Methods that every object has, and the functions that do the same."""


def attribute(m: Evaluator, value: Value, name: str, node: ast.AST, asked: bool = False) -> Values:
    """`value.name`. Where the program itself asks for what the object cannot have, the path ends."""
    ask = _NAMESPACES.get(type(value))
    if ask is not None:
        return ask(m, value, name, node)
    stored = m.read((value, name))
    if m.watched and (value, name) in m.watched:
        for told in HOOKS.watched_reads:
            told(m, value, name, node)
    # Few programs give an object a dictionary of attributes.
    if stored is None and "__dict__" in m.written and (shared := _kept_in(m, value)) is not None and shared != value:
        stored = _entry(m, shared, name)
    if stored is not None and not any([each.value is UNBOUND for each in stored.bindings]):  # noqa: C419, a list is quicker here
        return stored
    # Attributes of the object first, then its class, then its library base: Python's order.
    inherited = _from_own_class(m, value, name, node)
    if stored is None:
        if inherited is not None:
            return inherited
        if not asked or type(value) not in _WHOLLY_KNOWN:
            return _by_kind(m, value, name, node)
        begun = len(m.log)
        found = _by_kind(m, value, name, node)
        # A mistake that is told goes on, for others like it.
        noted = any(isinstance(event, ModuleClassFlaw) for event in m.log[begun:])
        return found if noted or not _fails(m, value, name, node) else NONE_SET
    # Set on some paths only: on the others it is that of the class, what was chosen before, or nobody gets on.
    if inherited is None and (_is_chosen(m, value, name) or _answers_for_all(m, value) or _is_known(value, name)):
        inherited = _by_kind(m, value, name, node)
    bound = ValueSet([each for each in stored.bindings if each.value is not UNBOUND])
    if inherited is not None:
        left = [inherited.guarded_by(each.condition) for each in stored.bindings if each.value is UNBOUND]
        return union([bound, *left])
    if bound.bindings and isinstance(value, (Instance, Module)):
        # Imported late: few attributes are set on some ranks only.
        from gpudoctor.lint.interp.unbound_names import note_attribute_missing

        note_attribute_missing(m, value, stored, node)
    return bound if bound.bindings else stored


def _is_set_somewhere(m: Evaluator, name: str) -> bool:
    # Imported late: most programs ask no object for what it lacks.
    from gpudoctor.lint.interp.exports import attributes_set

    return any(name in attributes_set(file.source.tree) for file in m.files_read())


def _fails(m: Evaluator, value: Value, name: str, node: ast.AST) -> bool:
    """This ends in an `AttributeError`: the path with it, but for what a handler takes."""
    # Those who read a file for its functions alone have made up what they are given.
    if m.muted or m.unreachable or not m.ends_by_errors:
        return False
    if not HOOKS.lacks[0](m, value, name):
        return False
    module = isinstance(value, Module)
    # `for part in model.modules(): part.index = 0` sets it on objects that were not seen.
    if not (module and name == "module") and _is_set_somewhere(m, name):
        return False
    if module and name == "module":
        m.emit(BareAsked, at=m.place(node), model=value)
    why = "is declared by no option" if isinstance(value, Namespace) else "is never set"
    m.abort(m.text(node), m.place(node), "AttributeError", why)
    return True


_WHOLLY_KNOWN = frozenset({Namespace, Instance, Module})


def _is_chosen(m: Evaluator, value: Value, name: str) -> bool:
    """It is there from the start: an option of the command line, or an attribute of something unknown."""
    if isinstance(value, Namespace):
        return _declares(m, value, name) or m.flag(value, ObjectState.opened) is not NO
    return isinstance(value, Unknown)


def has_option(m: Evaluator, owner: Namespace, name: str) -> bool:
    """The command line has such an option, or the program has put it there."""
    return m.read((owner, name)) is not None or _declares(m, owner, name)


def _declares(m: Evaluator, owner: Namespace, name: str) -> bool:
    return any(item.single == Const(name) for item in items_held(m.state(owner, SettingState.option_names)))


def _answers_for_all(m: Evaluator, value: Value) -> bool:
    """Its class answers for attributes that nobody set."""
    cls = class_of(value) if isinstance(value, Instance) else None
    return cls is not None and find_in_class(m, cls, "__getattr__") is not None


def _is_known(value: Value, name: str) -> bool:
    """A library has given it: `optimizer.step` where options put something in its place, or not."""
    return (type(value), name) in MODELS.methods or (type(value), name) in MODELS.attributes


def _from_own_class(m: Evaluator, value: Value, name: str, node: ast.AST) -> Values | None:
    cls = class_of(value)
    if cls is None or (type(value), name) in MODELS.before_own:
        return None
    found = find_in_class(m, cls, name)
    return None if found is None else m.for_each_value(found, lambda each: bind(m, value, each, name, node), node)


def _class_name(value: Unknown) -> str:
    """The class of what a library has made, or else who made it: `figure, axes = plt.subplots()`."""
    match value.term:
        case Item(index=Const(int(part))):
            return class_made_by(value.escaped_from, part)
    return class_made_by(value.escaped_from)


def _by_kind(m: Evaluator, value: Value, name: str, node: ast.AST) -> Values:
    # `args.__dict__.update(config)`
    if name == "__dict__":
        for told in HOOKS.opened:
            told(m, [value])
        given = isinstance(value, Namespace)
        if given or (isinstance(value, (Instance, Module)) and m.own_attribute(value, name) is None):
            return singleton(Unknown(Attribute(value, name), "attributes as a dictionary", m.text(node), config=given))
    if isinstance(value, Unknown):
        if isinstance(value.term, CallResult) and value.term.function in HOOKS.parts_of_results:
            part = HOOKS.parts_of_results[value.term.function](m, value, name, node)
            if part is not None:
                return part
        made_by = f"{_class_name(value)}.{name}" if value.escaped_from else ""
        label = f"{value.label}.{name}" if value.label else name
        divergence, shards = value.dependence | hidden_in(m, value), value.shards
        # Samplers give each rank as many samples as the others: a tensor's size is not about what is in it.
        if name in ABOUT_FORM:
            divergence, shards = divergence & ~Divergence.LOCAL, frozenset()
        found = Unknown(Attribute(value, name), value.why, label, divergence, value.config, shards, made_by)
        return singleton(m.setting(found, m.place(node)))
    if isinstance(value, Function) and name in NAMES:
        return singleton(Const(value.label))
    if isinstance(value, Function) and name == "__module__":
        # The outermost scope is that of its module.
        named = m.read((value.scopes[-1], "__name__"))
        if named is not None:
            return named
    if name in _OF_OBJECTS and not isinstance(value, DictOf):
        return _of_object(value, name)
    if name == "__class__" and isinstance(value, (Instance, Module)) and (cls := class_of(value)) is not None:
        return singleton(cls)
    if isinstance(value, Module) and not HOOKS.inherits[0](value, name):
        handed_on = _answered_by_class(m, value, name, node)
        if handed_on is not None:
            return handed_on
    model = MODELS.attributes.get((type(value), name)) or MODELS.any_attribute.get(type(value))
    if model is not None:
        answered = model(library_call(m, name, NO_ARGUMENTS, node, value))
        if answered is not NOT_ANSWERED:
            return answered
    if isinstance(value, (Instance, DictOf)) and (class_of(value) is not None or _is_its_own_dict(m, value)):
        return _missing(m, value, name, node)
    return singleton(Method(value, name))


def option_in(m: Evaluator, value: Unknown, name: str, node: ast.AST) -> Values | None:
    """`vars(args)[name]`, also after `config.update(vars(args))`: an option under its name, or another object's
    attribute."""
    merged = m.state(value, SettingState.merged)
    for each in (value, *(merged or ())):
        owner = described_by(each)
        if isinstance(owner, (Instance, Module)) and m.own_attribute(owner, name) is not None:
            return attribute(m, owner, name, node)
        if isinstance(owner, Namespace) and has_option(m, owner, name):
            return attribute(m, owner, name, node)
    return None


def _missing(m: Evaluator, value: Instance | DictOf, name: str, node: ast.AST) -> Values:
    """An attribute that nobody was seen to set: a base may have it, or a part of the program that was lost."""
    cls = class_of(value)
    # `self.__dict__ = settings`: its attributes are the entries of that dictionary.
    kept = m.own_attribute(value, "__dict__")
    if kept is not None and isinstance(kept.single, Unknown):
        option = option_in(m, kept.single, name, node)
        if option is not None:
            return option
        return _by_kind(m, replace(kept.single, label=value.label), name, node)
    # `cfg = Config(yaml.safe_load(file))`: an entry of it under another spelling.
    if isinstance(value, DictOf) and (cls is not None or _is_its_own_dict(m, value)):
        if name in DICT_METHODS:
            return singleton(Method(value, name))
        found = _entry_as_attribute(m, value, name, node)
        if found is not None:
            return found
        config = m.flag(value, ObjectState.of_settings) is not NO
        entry = Unknown(Attribute(value, name), "an entry", m.text(node, 40), config=config)
        return singleton(m.setting(entry, m.place(node)))
    if cls is not None:
        answered = _answered_by_class(m, value, name, node)
        if answered is not None:
            return answered
        # `self.log` of a LightningModule comes from a base that is not read.
        opened = isinstance(value, Instance) and m.flag(value, ObjectState.opened) is not NO
        if cls.library_bases or not cls.complete or (opened and name in DICT_METHODS):
            return singleton(Method(value, name))
        # `try: return self._model`, `except AttributeError:` expects that nobody has set it yet.
        asked = m.attributes_asked_in == len(m.frames)
        if asked and isinstance(value, Instance) and not opened:
            m.abort(m.text(node), m.place(node), "AttributeError", "is never set")
            return NONE_SET
    why = "an attribute that was never seen to be set"
    return singleton(Unknown(Attribute(value, name), why, m.text(node, 40), hidden_in(m, value)))


def _answered_by_class(m: Evaluator, value: Value, name: str, node: ast.AST) -> Values | None:
    """What the `__getattr__` of its class says of an attribute that nobody has set, if it has one."""
    cls = class_of(value)
    getter = find_in_class(m, cls, "__getattr__") if cls is not None else None
    if getter is None:
        return None
    answered = m.answer_of(getter, Arguments((singleton(value), singleton(Const(name)))), node)
    if answered is not None:
        return answered
    # `try: return super().__getattr__(name)`, `except AttributeError: return getattr(self.module, name)`.
    if m.attributes_asked_in == len(m.frames):
        m.abort(m.text(node), m.place(node), "AttributeError", "is never set")
        return NONE_SET
    return m.unknown(node, "answered by __getattr__")


def _kept_in(m: Evaluator, value: Value) -> DictOf | None:
    """The dictionary whose entries are its attributes, if one was given to it: `self.__dict__ = self._shared_state`."""
    held = m.own_attribute(value, "__dict__")
    kept = [each for each in held if isinstance(each, DictOf)] if held is not None else []
    return kept[0] if len(kept) == 1 else None


def _is_its_own_dict(m: Evaluator, value: Value) -> bool:
    """`self.__dict__ = self`, as EasyDict does."""
    return _kept_in(m, value) == value


def _holds_entries(m: Evaluator, value: DictOf) -> bool:
    """Its attributes are its entries: `self.__dict__ = self`, `__getattr__ = dict.get`."""
    cls = class_of(value)
    if _is_its_own_dict(m, value):
        return True
    return cls is not None and any(find_in_class(m, cls, name) for name in ("__getattr__", "__setattr__"))


def _entry(m: Evaluator, value: DictOf, name: str) -> Values | None:
    return next((values for each, values in possible_pairs(m, value) if each.single == Const(name)), None)


def _entry_as_attribute(m: Evaluator, value: DictOf, name: str, node: ast.AST) -> Values | None:
    cls = class_of(value)
    getter = find_in_class(m, cls, "__getattr__") if cls is not None else None
    held = _entry(m, value, name)
    # What it makes of an entry that is a plain dictionary is its own; all else it hands on, as a rule, and a model is
    # made with thousands of these.
    plain = held is not None and held.any(lambda each: isinstance(each, DictOf) and each.cls is None)
    if plain and getter is not None and isinstance(getter.single, Function):
        answered = m.answer_of(getter, Arguments((singleton(value), singleton(Const(name)))), node)
        if answered is not None:
            # As whoever reads the attribute writes it, not the one who wrote `self[name]`.
            return answered.map(lambda each: _called_as_read(m, value, each, node))
    key = singleton(Const(name))
    known = held is not None or m.state(value, ContainerState.more) is not None
    return m.item_at(value, key, node) if known and _holds_entries(m, value) else None


def _called_as_read(m: Evaluator, value: DictOf, entry: Value, node: ast.AST) -> Value:
    own = isinstance(entry.term, Item) and entry.term.of == value
    return entry.read_as(m.text(node, 40)) if own else entry


def bind(m: Evaluator, receiver: Value, found: Value, name: str, node: ast.AST) -> Values:
    """What reading a class attribute through an object gives: a bound method, a property's value, or the value."""
    if not isinstance(found, Function):
        return _through_descriptor(m, receiver, found, node) or singleton(found)
    # `__new__` is given its class by hand.
    if found.kind == "staticmethod" or name == "__new__":
        return singleton(found)
    if found.kind == "classmethod":
        return singleton(BoundMethod(class_of(receiver) or receiver, found, name))
    # Reading it runs it: `self.model` may build the model.
    if found.kind in PROPERTIES:
        value = m.call(singleton(BoundMethod(receiver, found, name)), NO_ARGUMENTS, node)
        if found.kind == "cached" and not m.unreachable:
            m.write((receiver, name), value)
        return value
    return singleton(BoundMethod(receiver, found, name))


def _through_descriptor(m: Evaluator, receiver: Value, found: Value, node: ast.AST) -> Values | None:
    """An object of a class with `__get__` answers for the attribute; None where it is no such thing."""
    cls = class_of(found) if isinstance(found, Instance) else None
    getter = find_in_class(m, cls, "__get__") if cls is not None else None
    if getter is None:
        return None
    owner = class_of(receiver)
    given = Arguments((singleton(found), singleton(receiver), singleton(owner if owner is not None else NONE)))
    return m.call(getter, given, node)


_OF_EACH_CLASS = ("__module__", "__doc__", "__qualname__", "__dict__", "__weakref__")
_OF_DATACLASSES = ("__init__", "__repr__", "__eq__", "__hash__", "__match_args__", "__dataclass_fields__")


def _own_of_class(m: Evaluator, cls: Class, node: ast.AST) -> Values:
    """`cls.__dict__`, which nobody can write into: what the class has itself, none of its bases."""
    unknown = m.unknown(node, "what Python keeps in a class")
    kept = [*_OF_EACH_CLASS, *(_OF_DATACLASSES if cls.is_dataclass else ())]
    given = (each.keywords for each in cls.node.decorator_list if isinstance(each, ast.Call))
    if any(each.arg == "slots" for keywords in given for each in keywords):
        kept.append("__slots__")
    own = {name: values for name in m.names_of(cls.scope) if (values := m.own_attribute(cls.scope, name)) is not None}
    entries = {**dict.fromkeys(kept, unknown), **own}
    return new_dict(m, [(singleton(Const(name)), values) for name, values in entries.items()], node, exact=cls.complete)


def _from_class(m: Evaluator, cls: Class, name: str, node: ast.AST) -> Values:
    found = find_in_class(m, cls, name)
    if found is None and name in NAMES:
        return singleton(Const(cls.label))
    if found is None and name == "__dict__":
        return _own_of_class(m, cls, node)
    if found is None and name == "__module__" and (file := m.project.module_of(cls.place.path)) is not None:
        return singleton(Const(file.name))
    if found is None and cls.metaclass is not None:
        above = find_in_class(m, cls.metaclass, name)
        if above is not None:
            return above.map(lambda each: BoundMethod(cls, each, name) if isinstance(each, Function) else each)
    if found is None:
        if cls.library_bases or name in OF_CLASSES:
            return singleton(Method(cls, name))
        return m.unknown(node, f"{cls.label} has no `{name}` that could be seen")

    def through(value: Value) -> Values:
        if isinstance(value, Function) and value.kind == "classmethod":
            return singleton(BoundMethod(cls, value, name))
        return singleton(value)

    return m.for_each_value(found, through, node)


def _from_super(m: Evaluator, value: Super, name: str, node: ast.AST) -> Values:
    cls = value.receiver if isinstance(value.receiver, Class) else class_of(value.receiver)
    if cls is not None:
        found = find_in_class(m, cls, name, after=value.after)
        if found is not None and not (name == "__init__" and _is_module_first(m, cls, value.after)):
            return m.for_each_value(found, lambda each: bind(m, value.receiver, each, name, node), node)
    # Bound to the object itself, whichever class is asked.
    if name == "__dict__":
        return m.attribute(value.receiver, name, node)
    if name in _OF_OBJECTS and not isinstance(value.receiver, DictOf):
        return _of_object(value.receiver, name)
    return singleton(Method(value.receiver, f"super.{name}"))


def _of_object(value: Value, name: str) -> Values:
    """What `value.__setattr__` is where no class of the project has its own: `setattr` for this object."""
    return singleton(Partial(Library(_OF_OBJECTS[name]), (singleton(value),)))


def _is_module_first(m: Evaluator, cls: Class, after: Value) -> bool:
    """A library's module comes before the next class with a constructor: `class Layer(Net, Mixin)`, where `Net` is a
    module and `Mixin` is none, or `class Net(ModelMixin, Mixin)`."""
    reached = module = False
    for each in ancestry(cls):
        if reached and m.read((each.scope, "__init__")) is not None:
            return module and MODULE not in each.library_bases
        reached = reached or each == after
        first = takewhile(lambda base: isinstance(base, Library), each.bases if reached else ())
        module = module or any(map(_may_be_module, first))
    return False


def _may_be_module(base: Value) -> bool:
    """A class of a library that may be a module, and is no plain mixin."""
    return isinstance(base, Library) and (
        base.name.startswith(OF_LAYERS) or not (is_harmless(base.name) or NO_MODULE.fits(base.name))
    )


def _from_library(m: Evaluator, value: Library, name: str, node: ast.AST) -> Values:
    module, _, last = value.name.rpartition(".")
    # The name of a module is all of it, and lower-case by custom.
    if last[:1].isupper() and (name in NAMES or name == "__module__"):
        return singleton(Const(last if name in NAMES else module))
    return m.library_name(f"{value.name}.{name}", node)


_NAMESPACES: dict[type[Value], Callable[[Evaluator, Any, str, ast.AST], Values]] = {
    Library: _from_library,
    ProjectModule: member,
    Super: _from_super,
    Class: _from_class,
}
"""What holds names and is no object: its attributes are found elsewhere than those of objects."""


def library_call(m: Evaluator, name: str, arguments: Arguments, node: ast.AST, receiver: Value | None) -> Call:
    """A call as a library model sees it."""
    result_name = m.hints.get(id(node))
    return Call(m, name, arguments, node, result_name, receiver)


def set_attribute(m: Evaluator, target: ast.Attribute, given: Values) -> None:
    """`owner.name = given`."""
    for binding in m.evaluate(target.value).restrict(m.path).bindings:
        owner, place = binding.value, m.place(target)
        # `optimizer.first_step = optimizer.step`, of one of several: each has its own.
        values = given.restrict(binding.condition)
        # Before the attribute is there: registering must see what was known until now.
        setter = MODELS.setters.get(type(owner))
        if setter is not None:
            setter(m, owner, target.attr, values, place)
        for told in HOOKS.attribute_sets:
            told(m, owner, target.attr, values, place)
        shared = _kept_in(m, owner) if target.attr != "__dict__" else None
        if shared is None and isinstance(owner, DictOf) and target.attr != "__dict__" and _holds_entries(m, owner):
            shared = owner
        if shared is not None:
            set_item(m, shared, singleton(Const(target.attr)), values, target)
            continue
        method = _setter(m, owner, target.attr, values)
        if method is not None:
            m.call(singleton(BoundMethod(owner, method, target.attr)), Arguments((values,)), target)
            continue
        if any(is_so(owner, target.attr) for is_so in HOOKS.changes_by_itself):
            continue
        m.set_own_attribute(owner.keeper, target.attr, values)


def _setter(m: Evaluator, owner: Value, name: str, values: Values) -> Function | None:
    """What a property of its class does with what it is assigned; layers of a module are its parts all the same."""
    if m.entry(PROCESS, ProcessState.set_by_property, name) is None:
        return None
    cls = class_of(owner)
    if cls is None or (isinstance(owner, Module) and values.any(lambda each: each.is_model)):
        return None
    found = single_of(find_in_class(m, cls, name))
    return found.setter if isinstance(found, Function) else None
