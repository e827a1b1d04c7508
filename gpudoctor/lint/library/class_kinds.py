"""Which kind of value an object of a project's class is: a module, a data set, a sampler, or just an object."""

from __future__ import annotations

import ast
from collections.abc import Hashable, Iterator

from gpudoctor.diagnostic import Confidence, Location
from gpudoctor.lint.domain.abstract_state import ClassState, ContainerState, ModuleState
from gpudoctor.lint.domain.container import DictOf, TupleOf, items_held
from gpudoctor.lint.domain.data import Dataset, Loader, Sampler
from gpudoctor.lint.domain.function import Class, Instance, function_of
from gpudoctor.lint.domain.heuristics import (
    AVERAGED_MODEL,
    COLLATOR,
    DATASET,
    NO_MODULE,
    SAMPLER,
    Heuristic,
)
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.optim import Optimizer
from gpudoctor.lint.domain.symbols import Attribute
from gpudoctor.lint.domain.value import Allocated, Unknown, Value, Values, single_of
from gpudoctor.lint.events.knowledge import Guess
from gpudoctor.lint.interface.contents import new_list, show_entries
from gpudoctor.lint.interface.hooks import HOOKS, told
from gpudoctor.lint.interface.library_call import MODELS, NOT_ANSWERED, Call, LibraryContext, singleton
from gpudoctor.lint.library.stub_models import inherited_method
from gpudoctor.lint.source.syntax_walk import nodes_of
from gpudoctor.manifest.compiled import prefixes, taking_charge

MODULE_ROOTS = prefixes("modules")
LIBRARIES_OF_MODELS = prefixes("models")
LOSSES = prefixes("losses")
SHOWN = frozenset({"addict.Dict", "addict.addict.Dict", "easydict.EasyDict", "munch.Munch"})
"""Dictionaries whose entries are their attributes."""
DICTIONARIES = frozenset({"builtins.dict", "collections.OrderedDict", "collections.defaultdict"}) | SHOWN
_TOOLS = prefixes("tools")
_MODULES_SAY_SO = prefixes("modules_say_so")
HOOKS.tells_kind.update(
    ("builtins.isinstance", "builtins.issubclass", "builtins.hasattr", "builtins.callable", "torch.is_tensor")
)


def guess(do: LibraryContext, heuristic: Heuristic, name: str, place: Location) -> None:
    """Log that what is made at a place is taken for something on account of its name, unless that is sure."""
    if heuristic.confidence is Confidence.LIKELY and not name.startswith(heuristic.sure_in):
        do.emit(Guess, at=place, name=name, means=heuristic.means)


@told(HOOKS.instance)
def new_object(cls: Class, identity: Hashable, place: Location, label: str, do: LibraryContext) -> Allocated:
    """The value of a new object of this class."""
    # First, since a LightningModule also has what looks like a data set or an optimizer.
    if is_module_class(cls):
        return Module(identity, place, label, cls=cls, exact=cls.complete)
    base = next(filter(DATASET.fits, sorted(cls.library_bases)), None)
    if base is not None:
        guess(do, DATASET, base, place)
        iterable = any(each.endswith(".IterableDataset") for each in cls.library_bases)
        return Dataset(identity, place, label, cls=cls, iterable=iterable, draws=draws_items(cls))
    base = next(filter(SAMPLER.fits, sorted(cls.library_bases)), None)
    if base is not None:
        guess(do, SAMPLER, base, place)
        # An own Sampler may shard in `__iter__`; whether it does is not known.
        distributed = any(each.endswith(".DistributedSampler") for each in cls.library_bases) or None
        own = counts_epochs(cls)
        return Sampler(identity, place, label, made_by=cls.label, distributed=distributed, sets_own_epoch=own, own=cls)
    # Its sampler may be built anywhere in the class: opaque until `super().__init__` is seen.
    if "torch.utils.data.DataLoader" in cls.library_bases:
        return Loader(identity, place, label, opaque=True, cls=cls)
    if any(map(_is_optimizer, cls.library_bases)):
        return Optimizer(identity, place, label, made_by=cls.label, complete=False, cls=cls)
    if not DICTIONARIES.isdisjoint(cls.library_bases):
        made = DictOf(identity, place, label, cls)
        do.set_state(made, ContainerState.entries, singleton(TupleOf(())))
        return made
    return Instance(identity, place, label, cls)


@MODELS.ready(DictOf)
def _shows_entries(do: LibraryContext, made: DictOf) -> None:
    """`class ConfigDict(addict.Dict)`"""
    if isinstance(made.cls, Class) and not SHOWN.isdisjoint(made.cls.library_bases):
        show_entries(do, singleton(made))


@MODELS.callable("builtins.object.__new__")
@MODELS.method(Class, "__new__")
def _new(call: Call) -> Values:
    """`super().__new__(cls)`."""
    cls = single_of(call.arg(0, "cls"))
    if not isinstance(cls, Class):
        return NOT_ANSWERED
    # A metaclass: `super().__new__(mcs, name, bases, body)`.
    made = call.do.state(cls, ClassState.makes)
    if made is not None:
        return made
    return singleton(new_object(cls, call.do.allocation_site(call.place), call.place, cls.label, call.do))


@MODELS.method(Class, "__subclasses__")
def _subclasses(call: Call[Class]) -> Values:
    """Those that were made until now."""
    return new_list(call.do, list(items_held(call.do.state(call.receiver, ClassState.subclasses))), call.node)


@told(HOOKS.made_alone)
def _put_anywhere(do: LibraryContext, made: Value) -> None:
    todo: list[Value] = [made] if isinstance(made, Module) else []
    seen: set[Value] = set()
    while todo:
        part = todo.pop()
        if part in seen:
            continue
        seen.add(part)
        place = Unknown(Attribute(part, "device"), "where its users move it")
        do.set_state(part, ModuleState.device, singleton(place))
        todo += do.parts.get(part, ())


@MODELS.method(Instance, "__init__")
def _own_trainer(call: Call[Instance]) -> Values:
    """A trainer of the project, which has the training from a framework's class."""
    charge = taking_charge()
    base = next((each for each in sorted(call.receiver.cls.library_bases) if each in charge), None)
    if base is not None:
        MODELS.load(base)
        for told_of in HOOKS.derived_from:
            told_of(call.do, call.receiver, base, call.arguments, call.node)
    return inherited_method(call)


def _is_optimizer(name: str) -> bool:
    # `torch.optim.lr_scheduler.X` lies one level deeper and is no optimizer.
    return name == "torch.optim.optimizer.Optimizer" or (name.startswith("torch.optim.") and name.count(".") == 2)


def draws_items(cls: Class) -> bool:
    """`__getitem__` never looks at the index."""
    method = cls.methods.get("__getitem__")
    if method is None:
        return any(draws_items(base) for base in cls.own_bases)
    names = [each.arg for each in method.args.args]
    return len(names) == 2 and names[1] not in {each.id for each in nodes_of(ast.Name, method)}


def mentions(cls: Class, name: str) -> bool:
    """The body of the class, or of one that it derives from, asks something for an attribute of this name."""
    found = any(each.attr == name for each in nodes_of(ast.Attribute, cls.node))
    return found or any(mentions(base, name) for base in cls.own_bases)


def counts_epochs(cls: Class) -> bool:
    """The class draws the order in a way of its own, which may need nobody to tell it the epoch."""
    methods = cls.methods
    mentions = list(_mentions_of_epoch(methods))
    # The order comes from the base, and with it the need of `set_epoch`.
    if "__iter__" not in methods or (not mentions and _goes_through_base(methods["__iter__"])):
        return any(counts_epochs(base) for base in cls.own_bases)
    # `self.epoch += 1` inside: resume-aware samplers advance by themselves.
    return not mentions or any(isinstance(each.ctx, ast.Store) or each.attr == "set_epoch" for each in mentions)


def _goes_through_base(method: ast.FunctionDef) -> bool:
    """`for index in super().__iter__():`."""
    names = [each.func.id for each in nodes_of(ast.Call, method) if isinstance(each.func, ast.Name)]
    return "super" in names and any(each.attr == "__iter__" for each in nodes_of(ast.Attribute, method))


def _mentions_of_epoch(methods: dict[str, ast.FunctionDef]) -> Iterator[ast.Attribute]:
    for name, method in methods.items():
        if name not in ("__init__", "set_epoch"):
            yield from (each for each in nodes_of(ast.Attribute, method) if each.attr in ("epoch", "set_epoch"))


def is_module_class(cls: Class) -> bool:
    """The class derives from `nn.Module`, directly or through a library's model."""
    return any(is_module_name(name) for name in cls.library_bases)


def is_tool(name: str) -> bool:
    """A name of a library of models that is none."""
    return name.startswith(_TOOLS) and not AVERAGED_MODEL.fits(name)


def is_no_module(made_by: str) -> bool:
    """A dotted name in a library of models, of what is none: `transformers.BertTokenizer.from_pretrained`."""
    if not made_by.startswith(LIBRARIES_OF_MODELS):
        return False
    # Activations have no weights, wherever they are.
    return any(NO_MODULE.fits(part) or part == "activations" for part in made_by.split("."))


def is_module_name(name: str) -> bool:
    """A dotted library name whose objects are modules."""
    # `torch.nn.modules.loss._Loss`
    last = name.rpartition(".")[2].removeprefix("_")
    if not name.startswith(MODULE_ROOTS) or not last[:1].isupper():
        return name.startswith("torch.nn.modules.") and last[:1].isupper()
    if name.startswith(("torch.nn.utils.", "torch.nn.init.", "torch.nn.functional.")):
        return False
    if is_tool(name):
        return False
    if name.startswith(_MODULES_SAY_SO) and not last.endswith("Module"):
        return False
    return not (NO_MODULE.fits(last) or COLLATOR.fits(last))


def is_sketch(method: Values | None) -> bool:
    """Its body is `...`: tutorials show the outline of a class so, before they fill it in."""
    function = function_of(single_of(method))
    body = function.node.body if function is not None else None
    return isinstance(body, list) and all(isinstance(each, ast.Expr) and _is_dots(each.value) for each in body)


def _is_dots(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and (value.value is ... or isinstance(value.value, str))
