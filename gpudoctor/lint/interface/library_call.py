"""How a library model sees the interpreter: the call to answer, and what it may do.

A model is a function from a `Call` to the values that the call returns. It is registered under the dotted name of
the library callable, or under a kind of value and the name of a method or an attribute.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable, Iterable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Generic, TypeVar, overload

from gpudoctor.lint.domain.abstract_state import ContainerState
from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.domain.container import DictOf, ListOf, TupleOf
from gpudoctor.lint.domain.symbols import CallResult, MethodResult
from gpudoctor.lint.domain.value import (
    FALSE,
    NONE,
    TRUE,
    Anonymous,
    Const,
    Term,
    Unknown,
    Value,
    Values,
    single_of,
    text_of,
)
from gpudoctor.lint.domain.value import singleton as singleton
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.flow.valueset import Binding, ValueSet, union
from gpudoctor.lint.interface.contents import WITH_ITEMS, known_items, names_known, pairs, possible_pairs
from gpudoctor.lint.interface.hooks import answers
from gpudoctor.manifest.compiled import declared, functions
from gpudoctor.manifest.effects import WORDS, Effect
from gpudoctor.record import dataclass, replace

T = TypeVar("T", bound=Value)
E = TypeVar("E", bound=Effect)

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Location
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.interface.library_context import LibraryContext as LibraryContext

    Ready = Callable[[LibraryContext, T], None]
    Setter = Callable[[LibraryContext, T, str, Values, Location], None]
    import typing_extensions

    from gpudoctor.manifest.compiled import Declared

    R = typing_extensions.TypeVar("R", bound=Value | None, covariant=True, default=Value | None)
else:
    R = TypeVar("R")
    # A record asks for the names of its types, and nobody needs to run what only says which members there are.
    LibraryContext = object


@dataclass(slots=True)
class Call(Generic[R]):
    """A call of a library callable, or the mere use of something of a library; `Call[Module]` one of a module."""

    do: LibraryContext
    name: str
    arguments: Arguments
    node: ast.AST
    result_name: str | None = None
    """What the program calls the result."""
    receiver: R = None  # type: ignore[assignment]

    @property
    def args(self) -> tuple[Values, ...]:
        """The arguments by position."""
        return self.arguments.positional

    @property
    def keywords(self) -> dict[str, Values]:
        """The arguments by name."""
        return self.arguments.keywords

    @property
    def open_ended(self) -> bool:
        """`*args` or `**kwargs` could not be followed: an argument may be there that is not seen."""
        return self.arguments.open_ended

    @property
    def rest(self) -> tuple[Values, ...]:
        """What `*args` and `**kwargs` hold that could not be followed, without a name or a position."""
        return self.arguments.rest or ()

    # Made when they are asked for, which most models never do.
    @property
    def place(self) -> Location:
        """Where the call stands."""
        return self.do.place(self.node)

    @property
    def label(self) -> str:
        """The name that the program gives to the result, or how it is called."""
        node = self.node
        return self.result_name or self.do.text(node.func if isinstance(node, ast.Call) else node, 40)

    @property
    def written(self) -> str:
        """As `label`, but what has no name is no attribute: `targets.view(-1)`."""
        return self.result_name or self.do.text(self.node, 40)

    @property
    def argument_places(self) -> dict[str, Location]:
        """Where the arguments stand, by their position or name."""
        node = self.node
        if not isinstance(node, ast.Call):
            return {}
        found = {each.arg: self.do.place(each.value) for each in node.keywords if each.arg}
        return found | {str(index): self.do.place(each) for index, each in enumerate(node.args)}

    def arg(self, index: int, name: str) -> Values | None:
        """The argument at this position or of this name, None where it was left out."""
        # By name first: the position is only right where nothing before it was left out.
        if name in self.keywords:
            return self.keywords[name]
        return self.args[index] if 0 <= index < len(self.args) else self._on_some_paths(name)

    def _on_some_paths(self, name: str) -> Values | None:
        """What `**settings` holds under this name where a branch has decided what is in it; None where it was left
        out."""
        if not self.arguments.rest:
            return None
        found: list[Values] = []
        is_there = False
        for values in self.arguments.rest:
            for each in values.restrict(self.do.path).bindings:
                entries = possible_pairs(self.do, each.value) if isinstance(each.value, DictOf) else []
                held = [item.guarded_by(each.condition) for key, item in entries if key.single == Const(name)]
                is_there = is_there or bool(held)
                left_out = singleton(Const(None)).guarded_by(each.condition)
                found += held or ([left_out] if isinstance(each.value, DictOf) else [])
        return union(found) if is_there else None

    @property
    def hides_names(self) -> bool:
        """An argument may be there that no name asks for: what a branch puts into `**settings` is found by its name."""
        held = [value for values in self.rest for value in values.restrict(self.do.path)]
        return self.open_ended and not all(isinstance(each, DictOf) and names_known(self.do, each) for each in held)

    @property
    def declared(self) -> Declared | None:
        """What the stub of its library says of it."""
        return declared(self.full_name)

    @property
    def full_name(self) -> str:
        """The dotted name of what is called, of a method with its class where that is known."""
        owner = (self.receiver.class_name or self.receiver.escaped_from) if self.receiver is not None else ""
        return f"{owner}.{self.name}" if owner else self.name

    def effect(self, kind: type[E]) -> E | None:
        """What its stub says of it in this respect."""
        function = self.declared
        return function.effect(kind) if function is not None else None

    def position(self, parameter: str) -> int:
        """Where a parameter stands that a stub declares; -1 where there is none, or it can only be named."""
        function = self.declared
        return function.position(parameter) if function is not None else -1

    def given(self, parameter: str) -> Values | None:
        """The argument for a parameter that a stub declares; None where it was left out, or there is none."""
        return self.arg(self.position(parameter), parameter)

    def by_name(self) -> Arguments:
        """The arguments under the names of the parameters that a stub declares; what has none keeps its position."""
        function = self.declared
        names = function.positional if function is not None else ()
        named = dict(zip(names, self.args, strict=False))
        return replace(self.arguments, positional=self.args[len(named) :], keywords={**named, **self.keywords})

    def spelled(self, index: int, name: str) -> str:
        """How the program writes this argument; an empty text where it does not stand in this call."""
        node = self.node
        # A `partial` and `*args` bring arguments that stand elsewhere.
        if not isinstance(node, ast.Call) or len(node.args) != len(self.args):
            return ""
        by_name = next((each.value for each in node.keywords if each.arg == name), None)
        given = by_name or (node.args[index] if 0 <= index < len(node.args) else None)
        return self.do.text(given) if given is not None and not isinstance(given, ast.Starred) else ""

    @property
    def spelled_receiver(self) -> str:
        """How the program writes what the method is called on; an empty text where it calls no attribute."""
        function = self.node.func if isinstance(self.node, ast.Call) else None
        return self.do.text(function.value) if isinstance(function, ast.Attribute) else ""

    def one(self, index: int, name: str, kind: type[T]) -> T | None:
        """The argument where it is exactly one value of this kind."""
        return single_of(self.arg(index, name), kind)

    @property
    def first(self) -> Value | None:
        """The first argument without a name, where it is one value."""
        return self.args[0].single if self.args else None

    def constant(self, index: int, name: str) -> object:
        """The constant given here; None where there is none or it is not known."""
        only = self.one(index, name, Const)
        return only.value if only is not None else None

    def text(self, index: int, name: str) -> str | None:
        """The string given here; None where there is none or it is not wholly known."""
        return text_of(single_of(self.arg(index, name)))

    def is_true(self, index: int, name: str) -> bool:
        """The argument is definitely the constant True."""
        return self.constant(index, name) is True

    def switch(self, index: int, name: str, *, usual: bool = False) -> bool | None:
        """Whether an argument is on: True, False, or None where that is not known. Left out, it is as usual."""
        given = self.arg(index, name)
        if given is None:
            return usual
        only = given.single
        return True if only == TRUE else False if only in (FALSE, NONE) else None

    def all_values(self) -> list[Value]:
        """Every value of every argument."""
        return self.arguments.values()

    def values_and_rest(self) -> list[Value]:
        """Every value of every argument, with what may follow them by `*layers` of an unknown length."""
        return [*self.all_values(), *(value for values in self.rest for value in values)]

    def sure_values(self) -> list[Value]:
        """The values of those arguments that can be nothing else, with what their containers surely hold."""
        return definite_values(self.do, [*self.args, *self.keywords.values()])

    def allocation_site(self) -> Hashable:
        """A fresh identity for what this call makes."""
        return self.do.allocation_site(self.place)

    def result(self, why: str = "", *, divergence: Divergence = Divergence.NONE, fresh: bool = False) -> Unknown:
        """What the callable has returned, of which nothing more is known; `fresh` where the same arguments may give
        another thing the next time."""
        term = CallResult(self.name, self.allocation_site() if fresh else self.args)
        return Unknown(term, why or f"what {self.name} returns", self.label, divergence, escaped_from=self.name)

    def unknown(
        self, term: Term, why: str, dependence: Divergence = Divergence.NONE, *, config: bool = False,
        escaped_from: str = "",
    ) -> Values:  # fmt: skip
        """What is not known, as the program calls it."""
        return singleton(Unknown(term, why, self.label, dependence, config, escaped_from=escaped_from))

    def method_result(self, occurrence: Hashable = ()) -> Unknown:
        """What a method has returned, of which nothing more is known."""
        term = MethodResult(self.receiver, self.name, occurrence)
        return Unknown(term, f"what .{self.name}() returns", self.label, escaped_from=self.full_name)

    def emit(self, kind: type[Event], /, **fields: object) -> None:
        """Log an event at the place of this call."""
        self.do.emit(kind, at=self.place, **fields)


Model = Callable[["Call[Any]"], Values]
NOT_ANSWERED: Values = ValueSet(())
"""What a model of all attributes or methods of a kind returns for one that it does not know."""


@lru_cache(maxsize=1024)
def _beginnings(name: str) -> tuple[str, ...]:
    """What a dotted name begins with, and the name itself."""
    parts = name.split(".")
    return tuple(".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _registered(table: dict[Any, Any], *keys: object) -> Callable[[Any], Any]:
    # What a table holds are models of any kind, and what a decorator gets is one of a certain kind.
    return answers(table, *keys)


class Models:
    """The register of library models. Names are matched exactly first, then by their longest prefix."""

    def __init__(self) -> None:
        self.callables: dict[str, Model] = {}
        self.prefixes: dict[str, Model] = {}
        self.words: dict[str, Model] = {}
        self.decorators: dict[str, Model] = {}
        self.names: dict[str, Callable[[LibraryContext, Location], Values]] = {}
        self.methods: dict[tuple[type[Value], str], Model] = {}
        self.any_method: dict[type[Value], Model] = {}
        self.attributes: dict[tuple[type[Value], str], Model] = {}
        self.any_attribute: dict[type[Value], Model] = {}
        self.setters: dict[type[Value], Setter[Any]] = {}
        self.ready_objects: dict[type[Value], Ready[Any]] = {}
        self.calls: dict[type[Value], Model] = {}
        self.fallbacks: list[Model] = []
        self.before_own: dict[tuple[type[Value], str], Model] = {}
        self.later: dict[str, Callable[[], object]] = {}
        """What loads the models of names that begin so, where none of these was asked for yet."""
        self._others: dict[str, Model | None] = {}
        """What answers for names that were asked for and have no model of their own."""

    def callable(self, *names: str) -> Callable[[Model], Model]:
        """Answer calls of these dotted names; one that ends in `*` answers for all names that begin so."""

        def register(model: Model) -> Model:
            for name in names:
                if name.endswith("*"):
                    self.prefixes[name[:-1]] = model
                else:
                    self.callables[name] = model
            return model

        return register

    def effect(self, kind: type[E]) -> Callable[[Callable[[Call, E], Values]], Callable[[Call, E], Values]]:
        """Answer all functions at which a stub has this word, but for those that have a model of their own, and the
        methods of objects whose class a stub knows."""

        def register(model: Callable[[Call, E], Values]) -> Callable[[Call, E], Values]:
            def answer(call: Call) -> Values:
                return model(call, call.effect(kind) or kind())

            word = next(word for word, known in WORDS.items() if known is kind)
            self.words[word] = answer
            for name in functions(word):
                self.callables.setdefault(name, answer)
            return model

        return register

    def decorator(self, *names: str) -> Callable[[Model], Model]:
        """Say what these decorators make of a function; others are taken to keep it."""
        return _registered(self.decorators, *names)

    @overload
    def method(self, kind: type[T], /, *names: str) -> Callable[[Callable[[Call[T]], Values]], Model]: ...
    @overload
    def method(self, kind: tuple[type[Value], ...], /, *names: str) -> Callable[[Callable[..., Values]], Model]: ...
    def method(self, kind: Any, /, *names: str) -> Any:
        """Answer these methods of a kind of value, or of several; with no names, all that nobody else answers."""
        kinds: tuple[type[Value], ...] = kind if isinstance(kind, tuple) else (kind,)
        named = [(each, name) for each in kinds for name in names]
        return _registered(self.methods, *named) if names else _registered(self.any_method, *kinds)

    def attribute(self, kind: type[T], *names: str) -> Callable[[Callable[[Call[T]], Values]], Model]:
        """Answer these attributes of a kind of value; with no names, all that nobody else answers."""
        named = [(kind, name) for name in names]
        return _registered(self.attributes, *named) if names else _registered(self.any_attribute, kind)

    def instead_of_own(self, kind: type[T], *names: str) -> Callable[[Callable[[Call[T]], Values]], Model]:
        """Answer these methods even where a class of the project has its own."""
        return _registered(self.before_own, *[(kind, name) for name in names])

    def setter(self, kind: type[T]) -> Callable[[Setter[T]], Setter[T]]:
        """Look on when an attribute of a kind of value is set."""
        return _registered(self.setters, kind)

    def ready(self, kind: type[T]) -> Callable[[Ready[T]], Ready[T]]:
        """Look on when the constructor of an object of a project's class has run."""
        return _registered(self.ready_objects, kind)

    def called(self, *kinds: type[T]) -> Callable[[Callable[[Call[T]], Values]], Model]:
        """Answer calls of a kind of value."""
        return _registered(self.calls, *kinds)

    def name(self, *names: str) -> Callable[[Callable[[LibraryContext, Location], Values]], object]:
        """Answer the mere mention of a library name that is no callable: `os.environ`, `math.inf`."""
        return _registered(self.names, *names)

    def load(self, name: str) -> None:
        """See to it that the models are there that answer for this dotted name."""
        for beginning in _beginnings(name):
            load = self.later.get(beginning)
            if load is not None:
                load()
                # Only then: another thread may ask for it meanwhile.
                self.later.pop(beginning, None)
                self._others.clear()

    def own(self, name: str) -> Model | None:
        """The model for this dotted name alone."""
        self.load(name)
        return self.callables.get(name)

    def find(self, name: str) -> Model | None:
        """The model for a dotted name."""
        # A model of its own outranks that of the namespace: `torch.save` beside `torch.*`.
        exact = self.callables.get(name)
        if exact is not None:
            return exact
        if name not in self._others:
            self._others[name] = self.own(name) or self._of_namespace(name)
        return self._others[name]

    def _of_namespace(self, name: str) -> Model | None:
        end = len(name)
        while end > 0:
            if name[:end] in self.prefixes:
                return self.prefixes[name[:end]]
            # Longest prefix first, cut at dots, so that `torch.nn.` comes before `torch.`.
            cut = name.rfind(".", 0, end - 1)
            end = cut + 1 if cut >= 0 else 0
        return None


MODELS = Models()
_NOTHING = singleton(NONE)


def always(value: Value) -> Callable[..., Values]:
    """A model that answers the same, whatever it is asked."""
    answer = singleton(value)
    return lambda *_: answer


def logs(kind: type[Event], answer: Values = _NOTHING, /, **fields: str | bool) -> Callable[..., Values]:
    """A model that logs an event. Texts name what the call has for a field: `wrapper="receiver"`."""

    def model(call: Call, *_: Effect) -> Values:
        said = {name: getattr(call, each) if isinstance(each, str) else each for name, each in fields.items()}
        call.emit(kind, **said)
        return answer

    return model


def itself(call: Call[Value]) -> Values:
    """The model of what returns the object on which it is called."""
    return singleton(call.receiver)


def plain_result(call: Call) -> Values:
    """The model of what returns something of which no more is known."""
    return singleton(call.result())


def next_item(call: Call[Value]) -> Values:
    """The model of what takes an item out of the object on which it is called."""
    return call.do.items_of(singleton(call.receiver), call.node)


def said_by_stub(call: Call) -> Values:
    """What a call returns by the words of its stub, which do what they say; NOT_ANSWERED where there is none."""
    said = call.declared
    words = said.words if said is not None else ()
    answers = [MODELS.words[word](call) for word in words if word in MODELS.words]
    # Of two words one says what is returned: `@gives_back(given="loss") @backpropagates(loss="loss")`.
    return next((each for each in answers if each.single is not NONE), answers[0]) if answers else NOT_ANSWERED


def unknown(do: LibraryContext, node: ast.AST, why: str) -> Values:
    """A value about which nothing is known, a new one at each visit."""
    return ValueSet.of(Unknown(Anonymous("", do.allocation_site(do.place(node))), why, do.text(node, 40)))


def alternatives(do: LibraryContext, values: Values, depth: int = 3) -> list[Values]:
    """The values apart from containers, and those that tuples, lists and dictionaries hold, each with what else may
    be in its place."""
    plain: list[Binding[Value]] = []
    found: list[Values] = []
    for binding in values.bindings:
        items = _places_in(do, binding.value)
        if items and depth:
            found += [leaf for item in items for leaf in alternatives(do, item, depth - 1)]
        else:
            plain.append(binding)
    return [*([ValueSet(plain)] if plain else ()), *found]


def _places_in(do: LibraryContext, value: Value) -> list[Values]:
    """What stands at each place of a container, as far as places are known, and at all others together."""
    inner = pairs(do, value)
    if inner is not None:
        return [*(item for _, item in inner), *_unnamed(do, value)]
    known = known_items(do, value)
    if known is not None or not isinstance(value, ListOf):
        return list(known or ())
    anywhere = _items(do, value)
    return [union(anywhere)] if anywhere else []


def _unnamed(do: LibraryContext, value: Value) -> list[Values]:
    """What stands in a dictionary under keys that are not known."""
    more = do.state(value, ContainerState.more) if isinstance(value, DictOf) else None
    return [more] if more is not None else []


def flatten(
    do: LibraryContext, values: list[Value], depth: int = 3, of_several: Callable[[Values], Iterable[Value]] = iter
) -> list[Value]:
    """The values, and what the tuples, lists and dictionaries among them hold.

    `of_several` says how to take what one place may hold."""
    found: list[Value] = []
    for value in values:
        if type(value) not in WITH_ITEMS:
            found.append(value)
            continue
        inner = possible_pairs(do, value) if isinstance(value, DictOf) else None
        items = [*(item for _, item in inner), *_unnamed(do, value)] if inner is not None else _items(do, value)
        if (items or inner is not None) and depth:
            found += flatten(do, [each for item in items for each in of_several(item)], depth - 1, of_several)
        else:
            found.append(value)
    return found


def definite_values(do: LibraryContext, given: list[Values], depth: int = 3) -> list[Value]:
    """The values that are the only possible ones, and what the tuples, lists and dictionaries among them hold."""
    found: list[Value] = []
    for values in given:
        only = values.single or _one_place(values)
        # What may be something else proves no mistake.
        if only is None:
            continue
        if type(only) not in WITH_ITEMS:
            found.append(only)
            continue
        inner = pairs(do, only)
        items = [item for _, item in inner] if inner is not None else list(known_items(do, only) or ())
        found += definite_values(do, items, depth - 1) if items and depth else [only]
    return found


def _one_place(values: Values) -> Value | None:
    """One of several tensors that lie on the same device: the loss of a model that was loaded or made anew."""
    tensors = [value for value in values if value.device is not None]
    alike = len(tensors) == len(values) > 0 and len({(each.device, each.origin) for each in tensors}) == 1
    return tensors[0] if alike else None


def _items(do: LibraryContext, value: Value) -> list[Values]:
    """The items that are known one by one, and what the others may be."""
    known = known_items(do, value)
    if known is not None or not isinstance(value, ListOf):
        return list(known or ())
    # What is put in on some path only may be there as well.
    held, more = do.state(value, ContainerState.items), do.state(value, ContainerState.more)
    found = [item for each in held or () if isinstance(each, TupleOf) for item in each.items]
    return [*found, *([more] if more is not None else ())]
