"""What asks an object about itself: `isinstance`, `hasattr`, `getattr`, `type`."""

from __future__ import annotations

import ast
from types import FunctionType

from gpudoctor.lint.domain.abstract_state import MAYBE, NO, YES, ModuleState, SettingState
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf
from gpudoctor.lint.domain.data import Dataset, Loader, Sampler
from gpudoctor.lint.domain.function import (
    BoundMethod,
    Class,
    Function,
    Instance,
    Library,
    Method,
    Namespace,
    ProjectModule,
    class_of,
    function_of,
    library_name_of,
)
from gpudoctor.lint.domain.module import Module, Wrapper, WrapperKind
from gpudoctor.lint.domain.optim import Optimizer, Parameters
from gpudoctor.lint.domain.symbols import CallResult, IsInstance, Setting, each_of
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.traced_number import number_of
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    SCALAR,
    TRUE,
    UNBOUND,
    Anonymous,
    Const,
    Text,
    Truth,
    Unknown,
    Value,
    Values,
    single_of,
    text_of,
)
from gpudoctor.lint.events.model import WrapperMissed
from gpudoctor.lint.events.process import ArgumentDeclared, SettingDefault
from gpudoctor.lint.flow.condition import MAYBE_BY_RANK, Atom, Divergence, Literal
from gpudoctor.lint.flow.valueset import Binding, ValueSet, union
from gpudoctor.lint.interface.contents import (
    ancestry,
    default_of,
    fields_of,
    find_in_class,
    find_method,
    new_dict,
    new_list,
    note_any_name,
)
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, flatten, singleton
from gpudoctor.lint.library.argument_parsers import note_default
from gpudoctor.lint.library.builtin import unknown
from gpudoctor.lint.library.dynamic_import import is_module, member_named_by, method_named_by
from gpudoctor.lint.library.hidden_ranks import hide_rank, holds_rank
from gpudoctor.lint.library.missing_attributes import declares, lacks, note_opened
from gpudoctor.lint.library.unread_code import note_escape
from gpudoctor.lint.library.wrapper_names import CALLABLES, FSDP_MODULE, wrapper_has
from gpudoctor.manifest.compiled import declared
from gpudoctor.record import replace

_TORCH_DATA = "torch.utils.data."
OTHER_BACKENDS = frozenset(["mps", "xpu", "npu", "hpu", "mlu", "musa", "xla", "privateuseone"])


MAX_NAMES = 4
"""So many names that an attribute may have are all looked up."""
_TENSORS = frozenset({"torch.Tensor", "torch.FloatTensor"})
_PLAIN = frozenset(map("builtins.{}".format, ("list", "tuple", "dict", "set", "str", "bytes", "int", "float", "bool")))
_CONTAINERS = frozenset(map("builtins.{}".format, ("list", "tuple", "dict", "set")))
_CONTAINER = {"object", "collection", "sized", "iterable", "container", "reversible"}
_KINDS_OF: dict[type[Value], frozenset[str]] = {
    DictOf: frozenset({"dict", "mapping", "mutablemapping", *_CONTAINER}),
    ListOf: frozenset({"list", "sequence", "mutablesequence", *_CONTAINER}),
    TupleOf: frozenset({"tuple", "sequence", "hashable", *_CONTAINER}),
}
"""What containers are, of Python, `typing` and `collections.abc`."""


def _kinds_of(value: DictOf | ListOf | TupleOf) -> frozenset[str]:
    if isinstance(value, ListOf) and value.kind in ("set", "frozenset"):
        return frozenset({value.kind, "abstractset", *(["mutableset"] if value.kind == "set" else []), *_CONTAINER})
    return _KINDS_OF[type(value)]


@MODELS.callable("builtins.isinstance", "builtins.issubclass")
def _isinstance(call: Call) -> Values:
    # Which classes are metaclasses is another question.
    about_metaclass = call.name == "builtins.issubclass" and call.args[-1:] == (singleton(Library("builtins.type")),)
    return _ask_kind(call, *call.args) if len(call.args) == 2 and not about_metaclass else NOT_ANSWERED


@MODELS.callable("dataclasses.is_dataclass")
def _is_dataclass(call: Call) -> Values:
    # The same class on every rank, as of `isinstance`.
    key = Anonymous(call.name, call.args)
    atom = Atom(key, Divergence.NONE, call.label, call.place, switch=False, tells_kind=True)
    return singleton(Truth(Literal(atom, True)))


@MODELS.callable("torch.is_tensor")
def _is_tensor(call: Call) -> Values:
    return _ask_kind(call, call.args[0], singleton(Library("torch.Tensor"))) if call.args else NOT_ANSWERED


def _ask_kind(call: Call, asked: Values, of: Values) -> Values:
    """Whether something is of one of these kinds."""
    kinds = flatten(call.do, list(of))
    asks = _is_derived if call.name == "builtins.issubclass" else _is_a
    answers = asked.restrict(call.do.path).map(lambda value: _any_of([asks(call.do, value, kind) for kind in kinds]))
    if answers.single == FALSE:
        _note_missed(call, asked.single, frozenset(map(library_name_of, kinds)))
    if answers.all(lambda answer: answer != NONE):
        return union([answers])
    # The same class on every rank: such a branch is no rank-dependent one.
    subject = call.node.args[0] if isinstance(call.node, ast.Call) and call.node.args else None
    names = list(map(library_name_of, kinds))
    plain = False if not _TENSORS.isdisjoint(names) else True if _PLAIN.issuperset(names) else None
    key = IsInstance((asked, of), call.do.text(subject) if subject is not None else "", plain)
    atom = Atom(key, Divergence.NONE, call.label, call.place, switch=False, tells_kind=True)
    open_ = Truth(Literal(atom, True))
    if answers.all(lambda answer: answer == NONE):
        return singleton(open_)
    # Wrapped where there are several GPUs, it is a `DDP` there, whatever the model without wrapper may be.
    return union([answers.map(lambda answer: open_ if answer == NONE else answer)])


def _note_missed(call: Call, model: Value | None, kinds: frozenset[str]) -> None:
    """A model that was sharded in place has no wrapper that it could be."""
    if isinstance(model, Module) and call.do.flag(model, ModuleState.holds_shards) is YES:
        call.emit(WrapperMissed, module=model, kinds=kinds)


def _any_of(answers: list[bool | None]) -> Value:
    """TRUE, FALSE, or NONE where it is not known."""
    if True in answers:
        return TRUE
    return FALSE if answers and all(answer is False for answer in answers) else NONE


def _is_derived(do: LibraryContext, cls: Value | None, kind: Value) -> bool | None:
    """A class derives from this one, or is it."""
    if not isinstance(cls, Class):
        return None
    if isinstance(kind, Class):
        return kind in ancestry(cls) or (False if cls.complete else None)
    name = library_name_of(kind)
    if name in cls.library_bases or name == "builtins.object":
        return True
    # Of `collections.abc.Iterable` is what has its methods.
    plain = cls.complete and not cls.library_bases and name.startswith(("builtins.", "torch."))
    return False if plain else None


def _is_a(do: LibraryContext, value: Value | None, kind: Value) -> bool | None:
    return _is_of_class(value, kind) if isinstance(kind, Class) else _is_called(do, value, library_name_of(kind))


def _is_of_class(value: Value | None, kind: Class) -> bool | None:
    """It is of a class of the project."""
    if isinstance(value, Const):
        # An enumeration's members may be texts, too.
        may_be = not kind.complete or any(each in _PLAIN or each.startswith("enum.") for each in kind.library_bases)
        return None if may_be and value != NONE else False
    cls = class_of(value) if value is not None and not isinstance(value, Wrapper) else None
    if cls is None:
        return None
    # A base that was not read may derive from the class in question.
    return kind in ancestry(cls) or (None if not cls.complete else False)


def _is_called(do: LibraryContext, value: Value | None, name: str) -> bool | None:
    """It is of the kind of this name, of Python or of a library."""
    # `callback() if isinstance(callback, type) else callback`.
    if name == "builtins.type" and isinstance(value, (Class, Instance, Module)):
        return isinstance(value, Class)
    # `register` as a decorator, with a name in brackets or without: `if isinstance(name, str):`.
    if name in _PLAIN and isinstance(value, (Class, Function)):
        return False if isinstance(value, Function) or (value.complete and name not in value.library_bases) else None
    # `if isinstance(model, list): ...`: of one model, or of several.
    if name in _PLAIN and isinstance(value, (Module, Wrapper, Optimizer, Loader)):
        return False
    of_python = name.startswith("builtins.")
    match value:
        case Const():
            kinds = [each.__name__ for each in type(number_of(value)).__mro__]
            return name.rpartition(".")[2] in kinds if of_python else None
        case Unknown(kind=known) if known == SCALAR:
            return False if name in _CONTAINERS else None
        case Unknown(kind=known) if known and of_python:
            # A `bool` is an `int`, too.
            return name == f"builtins.{known}" or (known == "bool" and name == "builtins.int")
        case Wrapper():
            return _wrapper_is_a(value, name)
        case Dataset() if name == "torch.utils.data.IterableDataset":
            return value.iterable
        case Module():
            return _module_is_a(do, value, name)
        # Of torch's own none is made of another one.
        case Sampler(own=None, made_by=made_by) if name.startswith(_TORCH_DATA) and made_by.startswith(_TORCH_DATA):
            return name.rpartition(".")[2] in ("Sampler", made_by.rpartition(".")[2])
        case Tensor():
            return _tensor_is_a(value, name, of_python)
        # `if isinstance(parameters, torch.Tensor): parameters = [parameters]` opens many a helper.
        case Parameters() if name == "torch.Tensor":
            return False
        case DictOf() | ListOf() | TupleOf():
            return _container_is_a(do, value, name)
    return None


def _tensor_is_a(value: Tensor, name: str, of_python: bool) -> bool | None:
    # What has a graph is no number of Python; a batch may hold some.
    if name in ("builtins.int", "builtins.float", "builtins.str") and value.graph:
        return False
    # A batch as a whole may be a tensor, a tuple or a dictionary.
    if value.batch_of is None and name in _TENSORS:
        return True
    # What was computed of such a part is one: a mean, a loss.
    if value.extent is not None and (name in _TENSORS or of_python):
        return name in _TENSORS
    # So may what a model returns be.
    return False if of_python and value.batch_of is None and value.origin is TensorOrigin.FACTORY else None


def _container_is_a(do: LibraryContext, value: DictOf | ListOf | TupleOf, name: str) -> bool | None:
    of_omegaconf = name.startswith("omegaconf.")
    if isinstance(value, DictOf) and (of_omegaconf or name == "builtins.dict"):
        read_with_it = do.own_attribute(value, "__dict__") is not None
        return read_with_it if of_omegaconf else None if read_with_it else True
    # A list that was read with it is a `ListConfig`, and one of the program's none.
    if not name or (of_omegaconf and isinstance(value, ListOf)):
        return None
    # Another file that the user may name can hold a list.
    if name == "builtins.list" and isinstance(value, DictOf) and _is_chosen_document(do, value):
        return None
    # `isinstance(batch, Mapping)` is asked as often as `dict`.
    return name.rpartition(".")[2].lower() in _kinds_of(value)


def _is_chosen_document(do: LibraryContext, value: DictOf) -> bool:
    """It is all that a file holds which the user may choose."""
    return do.flag(value, SettingState.chosen_file) is not NO and do.state(value, SettingState.read_from) is not None


def _wrapper_is_a(value: Wrapper, name: str) -> bool | None:
    last = name.rpartition(".")[2]
    # `model.module if isinstance(model, DDP) else model` is the common way to unwrap.
    if last in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel"):
        return value.kind.value == last
    return True if name == "torch.nn.Module" else None


def _module_is_a(do: LibraryContext, value: Module, name: str) -> bool | None:
    if name == "torch.nn.Module":
        return True
    if name.rpartition(".")[2] in ("DistributedDataParallel", "DataParallel", "FullyShardedDataParallel"):
        return False
    # What `fully_shard` was called with is one since then.
    if name == FSDP_MODULE:
        return {YES: True, NO: False, MAYBE: None}[do.flag(value, ModuleState.sharded)]
    return None


def _answer(known: bool | None) -> Value:
    return NONE if known is None else (TRUE if known else FALSE)


@MODELS.callable("builtins.hasattr")
def _hasattr(call: Call) -> Values:
    given, name = (call.args[0], call.text(1, "name")) if len(call.args) > 1 else (None, None)
    here = given.restrict(call.do.path) if given is not None else None
    if here is not None and name is None and here.are(ProjectModule):
        # A setting names it: what it is by default, as `getattr` takes it.
        usual = text_of(default_of(call.do, call.args[1].single))
        if usual is not None:
            return here.map(lambda module: TRUE if _has(call, module, usual) else FALSE)
    if here is not None and name is not None:
        by_rank = _set_on_some_ranks(call, here.single, name)
        if by_rank is not None:
            return by_rank
        # `hasattr(model, "module")` asks for a wrapper; the answer decides how keys are saved.
        answers = here.map(lambda value: _answer(_has(call, value, name)))
        if answers.all(lambda answer: answer != NONE):
            return union([answers])
    value = single_of(given)
    config = isinstance(value, (Namespace, Unknown)) and value.divergence is Divergence.NONE
    atom = Atom(Anonymous("hasattr", call.args), text=call.label, place=call.place, switch=config)
    return singleton(Truth(Literal(atom, True)))


def _set_on_some_ranks(call: Call, value: Value | None, name: str) -> Values | None:
    """The answer of each rank, where only some of them have set the attribute."""
    held = call.do.own_attribute(value, name) if isinstance(value, (Instance, Module)) else None
    missing = [each.condition for each in held.bindings if each.value is UNBOUND] if held is not None else []
    if held is None or value is None or not any(each.divergence & Divergence.RANK for each in missing):
        return None
    if find_method(call.do, value, name) is not None:
        return None
    return ValueSet([Binding(FALSE if each.value is UNBOUND else TRUE, each.condition) for each in held.bindings])


def _has(call: Call, value: Value, name: str) -> bool | None:
    if call.do.own_attribute(value, name) is not None or find_method(call.do, value, name) is not None:
        return True
    if isinstance(value, Wrapper):
        answer = wrapper_has(value, name)
        return _has(call, value.inner, name) if answer is None else answer
    if isinstance(value, (Module, Instance)):
        cls = value.cls
        if isinstance(value, Module) and _since_sharded(call, value, name):
            return True
        known = cls is not None and cls.complete
        # Bare models have no `.module`, and no `no_sync`, so the check tells wrapped from bare.
        bare = name in ("module", "no_sync") and (known or isinstance(value, Module))
        if bare and name == "no_sync":
            _note_missed(call, value, frozenset((name,)))
        return False if bare or lacks(call.do, value, name) else None
    match value:
        case Sampler():
            # Of torch's samplers only DistributedSampler has `set_epoch`.
            return bool(value.base.distributed) if name == "set_epoch" and value.distributed is not None else None
        case Loader():
            return name in ("sampler", "dataset", "batch_sampler") or None
        case _ if value == NONE or lacks(call.do, value, name):
            return False
        case Namespace():
            return declares(call.do, value, name) or None
        case ProjectModule():
            return not call.do.attribute(value, name, call.node).has(Unknown) or None
        case Class():
            above = (value, *([value.metaclass] if value.metaclass is not None else []))
            if hasattr(type, name) or any(find_in_class(call.do, each, name) for each in above):
                return True
            return None if value.library_bases or not value.complete else False
        case Function():
            return hasattr(FunctionType, name)
        case Const():
            return hasattr(value.value, name)
        case DictOf() if name == "__dict__":
            return False
        # The libraries are new: what a program asks for, before it falls back on something older, is there.
        case Library() if name not in OTHER_BACKENDS:
            return True
    return None


def _since_sharded(call: Call, value: Module, name: str) -> bool:
    """The model can do this since it was sharded in place."""
    return declared(f"{FSDP_MODULE}.{name}") is not None and call.do.flag(value, ModuleState.sharded) is YES


@MODELS.callable("builtins.getattr", "builtins.object.__getattribute__")
def _getattr(call: Call) -> Values:
    value, name = (call.args[0], call.text(1, "name")) if len(call.args) > 1 else (None, None)
    if value is not None and name is None and value.all(lambda each: isinstance(each, Instance) or is_module(each)):
        # One of several modules: what is asked of each is its own.
        return call.do.for_each_value(value, lambda each: _member(call, each), call.node)
    if value is not None and name is None and 1 < len(call.args[1].restrict(call.do.path)) <= MAX_NAMES:
        names = call.args[1].restrict(call.do.path)
        if names.all(lambda each: text_of(each) is not None):
            return call.do.for_each_value(names, lambda each: _under(call, value, text_of(each) or ""), call.node)
    if value is None or name is None:
        library = library_name_of(call.first)
        made_by = f"{library}.*" if library else ""
        if MODELS.find(made_by) is not None:
            # `getattr(torchvision.models, args.arch)`: one of the names there.
            return singleton(Library(made_by))
        # `{name: getattr(args, name) for name in names}`: one of these may be the rank.
        divergence = MAYBE_BY_RANK if call.args and holds_rank(call.do, call.args[0]) else Divergence.NONE
        why = "an attribute whose name is not known"
        return call.unknown(Anonymous("getattr", call.args), why, divergence, escaped_from=made_by)
    return _under(call, value, name)


def _under(call: Call, value: Values, name: str) -> Values:
    here = value.restrict(call.do.path)
    return union(_get(call, each.value, name).guarded_by(each.condition) for each in here.bindings)


def _member(call: Call, owner: Value) -> Values:
    # Settings may have more than was read, or what is said for them: `config.get("optimizer", "Adam")`.
    named = [
        method_named_by(call.do, owner, each, call)
        if isinstance(owner, Instance)
        else member_named_by(call.do, owner, each, call)
        for each in call.args[1].restrict(call.do.path)
    ]
    found = [each for each in named if each is not None]
    why = "an attribute whose name is not known"
    return union(found) if found else call.unknown(Anonymous("getattr", (owner, call.args[1:])), why)


def _get(call: Call, value: Value, name: str) -> Values:
    default = call.arg(2, "default")
    # `getattr(model, "module", model)` unwraps without asking for the class.
    if (
        default is not None
        and isinstance(value, (Module, Wrapper, Instance, Namespace, Function))
        and _has(call, value, name) is False
    ):
        return default
    found = call.do.attribute(value, name, call.node)
    if default is not None and isinstance(value, (Instance, Namespace, Unknown)):
        _note_default(call, found, name, default)
    return found


def _note_default(call: Call, found: Values, name: str, default: Values) -> None:
    """What nobody was seen to set is the default, for all that is known."""
    value, left_out = found.single, default.single
    own = Divergence.RANK | Divergence.LOCAL
    if isinstance(value, Unknown) and isinstance(left_out, Const) and not value.divergence & own:
        call.emit(SettingDefault, value=value, text=f"{call.spelled(0, 'object')}.{name}", left_out=left_out)


@MODELS.callable("builtins.setattr", "builtins.object.__setattr__")
def _setattr(call: Call) -> Values:
    if len(call.args) > 2:
        # Python itself keeps the attribute: a module that is hidden in this way is no part of its owner.
        owners, named, given = call.args[:3]
        _set_named(call, owners, named, given, registers=call.name == "builtins.setattr")
    return singleton(NONE)


def _set_named(call: Call, owners: Values, named: Values, given: Values, registers: bool) -> None:
    name = text_of(named.single)
    if name is not None:
        for value in owners:
            setter = MODELS.setters.get(type(value)) if registers else None
            # `setattr(self, f"layer{i}", layer)` registers a layer as plain assignment does.
            if setter is not None:
                setter(call.do, value, name, given, call.place)
            call.do.set_own_attribute(value.keeper, name, given)
        return
    # `for name, net in nets.items(): setattr(self, name, net)`: which parts the module has is not known.
    note_opened(call.do, owners)
    _may_replace(call, owners, given)
    for value in owners:
        note_any_name(call.do, value, named, given, call.node)
    if given.any(lambda value: value.config):
        _make_settings(call, [value for value in owners if isinstance(value, Instance)], given)
    modules = [value for value in owners if isinstance(value, Module)]
    setter = MODELS.setters[Module]
    for owner in modules:
        setter(call.do, owner, " under a name", given, call.place)
    if modules and given.has(Unknown):
        note_escape(call.do, "setattr", (owners,), call.node)


def _may_replace(call: Call, owners: Values, given: Values) -> None:
    """`if isinstance(field, Default): setattr(self, name, field.value)`: an object is not surely there any more."""
    for owner in owners:
        for name in call.do.names_of(owner) if isinstance(owner, Instance) else ():
            held = call.do.own_attribute(owner, name)
            if held is not None and held.has(Instance):
                call.do.set_own_attribute(owner, name, union([held, given]))


def _make_settings(call: Call, owners: list[Instance], given: Values) -> None:
    """`for name, value in given.items(): setattr(config, name, value)`: each attribute is what its default says, unless
    the user says otherwise."""
    for owner in owners:
        # What nobody was seen to set is among these.
        if isinstance(given.single, Unknown):
            call.do.set_own_attribute(owner, "__dict__", given)
        names = [*call.do.names_of(owner), *(fields_of(owner.cls) if owner.cls is not None else ())]
        for name in dict.fromkeys(names):
            default = call.do.attribute(owner, name, call.node)
            if default.are(Const):
                call.emit(ArgumentDeclared, name=name, flags=(f"--{name}",), default=default)
                note_default(call, name, default)
                chosen = Unknown(Setting(name), "chosen at the start", name, config=True)
                call.do.set_own_attribute(owner, name, singleton(chosen))


@MODELS.callable("builtins.property")
def _property(call: Call) -> Values:
    """`model = property(_get_model)`, or what a decorator of the program's own returns."""
    getter = call.arg(0, "fget")
    # With a setter it is more than what reads it.
    if getter is None or len(call.args) > 1 or not getter.are(Function):
        return NOT_ANSWERED
    return getter.map(lambda each: replace(each, kind="property") if isinstance(each, Function) else each)


@MODELS.callable("builtins.type")
def _type(call: Call) -> Values:
    given = call.args[0].bindings if len(call.args) == 1 else ()
    # `for name, value in cfg.items(): if type(value) is dict`: what each of many settings is.
    types = [(_type_of(call.do, one), each.condition) for each in given for one in each_of(each.value)]
    if types and all(kind != NONE for kind, _ in types):
        return union([singleton(kind, when) for kind, when in types])
    # `type(value)(items)` where a test has said that it is a list: a class of Python's own does nothing to what it is
    # given.
    return singleton(call.result("a type")) if _is_of_python(call) else unknown(call, "a type")


def _is_of_python(call: Call) -> bool:
    """It is a setting, or a test on the way here has told it to be one of Python's own plain kinds."""
    if call.args and call.args[0].all(_is_plain_setting):
        return True
    tests = (each.atom.key for each in call.do.path.kinds if each.holds)
    return any(isinstance(test, IsInstance) and test.plain_where and test.given[0] == call.args[0] for test in tests)


def _is_plain_setting(value: Value) -> bool:
    if isinstance(value, Unknown):
        return value.config or f"builtins.{value.kind}" in _PLAIN
    return isinstance(value, (Const, Text, Truth))


def _type_of(do: LibraryContext, value: Value) -> Value:
    """The class of an object, None where it is not known."""
    # `type(model) is DDP` or `in (DataParallel, DDP)`: as seen in YOLOv5.
    if isinstance(value, Wrapper) and value.kind is not WrapperKind.PREPARED:
        return Library(CALLABLES[value.kind])
    cls = class_of(value)
    if cls is not None:
        return cls
    # `type(default)(text)`: a setting is read as what it is by default.
    value = default_of(do, value) or value
    if isinstance(value, (Const, Text, Truth)):
        kind = type(value.value).__name__ if isinstance(value, Const) else "str" if isinstance(value, Text) else "bool"
        return Library(f"builtins.{kind}")
    made_by = value.made_by if isinstance(value, Module) else ""
    return Library(made_by) if made_by.startswith("torch.nn.") else NONE


@MODELS.callable("inspect.isclass", "inspect.isfunction")
def _is_definition(call: Call) -> Values:
    kind = Class if call.name.endswith("class") else Function
    answers = call.args[0].map(lambda each: _answer(_is_defined_as(kind, each))) if len(call.args) == 1 else None
    return answers if answers is not None and not answers.any(lambda each: each == NONE) else NOT_ANSWERED


def _is_defined_as(kind: type[Value], value: Value) -> bool | None:
    if isinstance(value, Library):
        return kind is Class if value.name.rpartition(".")[2][:1].isupper() else None
    known = (Class, Function, BoundMethod, Instance, Module, ProjectModule, Const, Text, DictOf, ListOf, TupleOf)
    return isinstance(value, kind) if isinstance(value, known) else None


@MODELS.callable("inspect.getfullargspec")
def _argument_names(call: Call) -> Values:
    """The parameters of a function of the program, and what they are by default."""
    function = function_of(single_of(call.arg(0, "func")))
    if function is None:
        return NOT_ANSWERED
    given = function.node.args

    def names(of: list[ast.arg]) -> Values:
        return new_list(call.do, [singleton(Const(each.arg)) for each in of], call.node)

    by_keyword: list[tuple[Values | None, Values]] = [
        (singleton(Const(name)), values) for name, values in function.keyword_defaults
    ]
    made = Namespace(call.allocation_site(), call.place, call.label, "namespace")
    for name, values in {
        "args": names([*given.posonlyargs, *given.args]),
        "varargs": singleton(Const(given.vararg.arg if given.vararg is not None else None)),
        "varkw": singleton(Const(given.kwarg.arg if given.kwarg is not None else None)),
        "defaults": singleton(TupleOf(function.defaults) if function.defaults else NONE),
        "kwonlyargs": names(given.kwonlyargs),
        "kwonlydefaults": new_dict(call.do, by_keyword, call.node) if by_keyword else singleton(NONE),
    }.items():
        call.do.set_own_attribute(made, name, values)
    return singleton(made)


@MODELS.callable("builtins.callable")
def _callable(call: Call) -> Values:
    only = call.first
    if isinstance(only, (Function, BoundMethod, Method, Class, Library, Module, Wrapper)):
        return singleton(TRUE)
    return singleton(FALSE) if only == NONE else unknown(call, "whether something can be called")


@MODELS.callable("builtins.locals")
def _locals(call: Call) -> Values:
    """What a function was given, under the names of its parameters, beside what it has named itself."""
    given = call.do.execution.parameters
    entries = [(singleton(Const(name)), values) for name, values in given.items()]
    return new_dict(call.do, [(None, unknown(call, "local names")), *entries], call.node) if given else NOT_ANSWERED


@MODELS.callable("builtins.vars")
def _vars(call: Call) -> Values:
    # `vars(models)[name]`
    if isinstance(call.first, ProjectModule):
        return singleton(call.first)
    if isinstance(call.first, Class):
        return call.do.attribute(call.first, "__dict__", call.node)
    # `vars(args).update(config)`
    note_opened(call.do, call.args[0] if call.args else ())
    made = Unknown(CallResult("builtins.vars", call.args), "attributes as a dictionary", call.written, config=True)
    hide_rank(call.do, made, call.args)
    return singleton(made)
