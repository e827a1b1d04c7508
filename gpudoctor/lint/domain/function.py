"""Functions, classes, instances and library names."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import Allocated, Composed, Value, Values
from gpudoctor.record import dataclass


@dataclass(frozen=True, slots=True)
class Library(Value):
    """A name of a library that is not read: `torch.nn.Linear`."""

    is_object = True
    is_choice = True
    is_setting = True

    name: str

    # Written out, because so many are asked.
    def __hash__(self) -> int:
        return hash(self.name)

    def __repr__(self) -> str:
        return f"Library({self.name})"

    @property
    def is_named_constant(self) -> bool:
        """It has the form of a name that is given once: `transformers.WEIGHTS_NAME`, not `wandb.run.dir`."""
        return self.name.rpartition(".")[2].isupper()


def library_name_of(value: Value | None) -> str:
    """The dotted name of a library that it is; empty where it is none."""
    return value.name if isinstance(value, Library) else ""


@dataclass(frozen=True)
class ProjectModule(Value):
    """A module of the project, by its scope in the store."""

    is_choice = True

    scope: Hashable
    name: str

    @property
    def keeper(self) -> Hashable:
        return self.scope


@dataclass(frozen=True)
class LazyImport(Value):
    """What a module of the project binds to a name, where nobody has asked for it yet."""

    module: ProjectModule
    name: str


@dataclass(frozen=True, eq=False, repr=False)
class Function(Allocated):
    """A function of the project: its syntax, the scopes it sees (inner to outer) and its defaults."""

    is_choice = True
    is_handed_over = True

    node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
    scopes: tuple[Hashable, ...]
    file: object
    defaults: tuple[Values, ...] = ()
    keyword_defaults: tuple[tuple[str, Values], ...] = ()
    kind: str = "function"
    """`function`, `staticmethod`, `classmethod`, `property`, `cached` for a property that keeps its first value, or
    `library` for what stands in the place of a library's own code."""
    owner: Value | None = None
    """The class whose body it stands in."""
    decorators: tuple[str, ...] = ()
    """Dotted names of library decorators on it."""
    setter: Function | None = None
    """Of a property: what is run where it is assigned to."""


@dataclass(frozen=True, eq=False)
class BoundMethod(Composed):
    """A function with its receiver already given: a method of an object, or of a library object by name."""

    is_handed_over = True

    receiver: Value
    function: Value
    name: str = ""

    def __repr__(self) -> str:
        return f"Bound({self.receiver!r}.{self.name})"


def function_of(value: Value | None) -> Function | None:
    """The function of the program that is run where the value is called, its own or the one of a bound method."""
    function = value.function if isinstance(value, BoundMethod) else value
    return function if isinstance(function, Function) else None


@dataclass(frozen=True, slots=True, eq=False)
class Method(Composed):
    """A method of a value that a library model answers for: `loader.sampler.set_epoch`."""

    receiver: Value
    name: str

    def __repr__(self) -> str:
        return f"Method({self.receiver!r}.{self.name})"


@dataclass(frozen=True, eq=False)
class Partial(Composed):
    """A callable with arguments already given."""

    is_choice = True
    is_handed_over = True

    function: Value
    args: tuple[Values, ...] = ()
    keywords: tuple[tuple[str, Values], ...] = ()


@dataclass(frozen=True, eq=False, repr=False)
class Class(Allocated):
    """A class of the project. `bases` in order; `library_bases` are the dotted names of all library classes above."""

    is_choice = True

    node: ast.ClassDef
    scope: Hashable
    bases: tuple[Value, ...]
    library_bases: frozenset[str]
    is_dataclass: bool = False
    complete: bool = True
    """False where a base could not be resolved."""
    metaclass: Class | None = None
    """The class of the project that makes it, its own or that of a base."""

    @property
    def keeper(self) -> Hashable:
        return self.scope

    @property
    def own_bases(self) -> tuple[Class, ...]:
        """Those of its bases that are classes of the project."""
        return tuple([base for base in self.bases if isinstance(base, Class)])

    @property
    def methods(self) -> dict[str, ast.FunctionDef]:
        """The functions that its body defines, as they are written."""
        return {each.name: each for each in self.node.body if isinstance(each, ast.FunctionDef)}


@dataclass(frozen=True, eq=False, repr=False)
class Instance(Allocated):
    """An object of a class of the project that is none of the kinds that have a file of their own."""

    is_choice = True

    cls: Class


@dataclass(frozen=True, eq=False, repr=False)
class Namespace(Allocated):
    """An object whose attributes are settings: `argparse.Namespace`, an OmegaConf node, a click context."""

    source: str


@dataclass(frozen=True, eq=False, repr=False)
class Parser(Allocated):
    """`argparse.ArgumentParser` and its groups; groups share the identity of their parser."""


@dataclass(frozen=True, eq=False, repr=False)
class Commands(Allocated):
    """A group of commands, of which the user names one: `@click.group()`, `typer.Typer()`."""


@dataclass(frozen=True, eq=False, repr=False)
class Generator(Allocated):
    """A started generator: its body runs when it is iterated or entered."""

    function: Value
    args: tuple[Values, ...]
    keywords: tuple[tuple[str, Values], ...]


@dataclass(frozen=True, eq=False)
class Super(Composed):
    """`super()`: the receiver, and the class after which the search for a method begins."""

    receiver: Value
    after: Value


@dataclass(frozen=True)
class ContextManager(Value):
    """An object of a library that a `with` opens: `no_grad`, `no_sync`, `autocast`; `owner` is what it belongs to."""

    name: str
    owner: Value | None = None


@dataclass(frozen=True)
class FieldFactory(Value):
    """`field(default_factory=…)` of a dataclass: what makes the value of each new object."""

    factory: Values


def class_of(value: Value) -> Class | None:
    """The project's class of an object."""
    return getattr(value, "cls", None) if isinstance(value, Allocated) else None


@dataclass(frozen=True)
class ChosenCall:
    """A call that was not followed, because a setting chooses what is called: `instantiate(cfg.trainer).train()`, a
    method `name` of what the library callable `by` returned, each empty where that is not known."""

    node: ast.Call
    place: Location
    name: str
    by: str
    given: tuple[Values, ...]
    """Its arguments."""
