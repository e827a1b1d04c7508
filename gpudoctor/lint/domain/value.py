"""The root of all values, and the plain ones: constants, the unknown, symbolic truth and text."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar, overload

from gpudoctor.diagnostic import Location
from gpudoctor.lint.flow.condition import ALWAYS, Condition, Divergence, Literal
from gpudoctor.lint.flow.interning import age, interned
from gpudoctor.lint.flow.valueset import ValueSet, set_of
from gpudoctor.record import compared, dataclass, field, replace

if TYPE_CHECKING:
    from enum import Enum


MAX_PARTS = 64
"""A text of more parts ends in one that is unknown."""


class Value:
    """Anything that an expression can have. Immutable; what changes about it stands in the store.

    What is asked of a value whatever it stands for, each kind answers here: what the evaluation of Python asks, then
    what only some kinds have, where the others have none of it.
    """

    __slots__ = ()

    is_open: ClassVar[bool] = False
    """Whether it is true, and what it is equal to, is not known."""
    is_object: ClassVar[bool] = False
    """It is surely not None."""
    is_choice: ClassVar[bool] = False
    """What an `elif` chain over experiments picks one of; loops do not pile these up."""
    is_constant: ClassVar[bool] = False
    """A constant of the language, which the program has written or which was computed of such."""
    is_tested: ClassVar[bool] = False
    """Tests of its type say whether one calculates with it (`is_plain`)."""
    is_model: ClassVar[bool] = False
    """It has weights, and is called with batches."""
    has_many: ClassVar[bool] = False
    """It has as many samples or batches as there are: nobody unpacks it."""
    is_mutable: ClassVar[bool] = False
    """A container whose content may change: what it holds stands in the store."""
    is_handed_over: ClassVar[bool] = False
    """A function of the program, whatever it was given already: who has it may call it."""
    is_launched: ClassVar[bool] = False
    """The launcher decides it: a rank, or a count of processes, devices or nodes."""

    term: Term | None = None
    """What stands for it, where it could not be known."""
    shards: frozenset[Value] = frozenset()
    """The loaders of which this rank saw only its own share when it computed the value."""
    label: str = ""
    """What readers know it by."""
    place: Location | None = None
    """Where it was made, or named."""
    forwards: frozenset[Hashable] = frozenset()
    """The calls of modules in its graph."""
    graph: bool | None = None
    """Whether it carries a graph; None where that is not known, and of what is no tensor."""
    origin: Enum | None = None
    """Of a tensor, what it is or came from."""
    batch_of: Value | None = None
    """The loader of which it is an item."""
    as_text: bool = False
    """A number of the launcher that is still a string."""
    index: Value | None = None
    """Of a device, which of its kind it is; None where that is the current one of the process."""
    modules: frozenset[Value] = frozenset()
    """Of an optimizer or of parameters: the modules whose parameters it holds."""
    complete: bool = False
    """Of these: nothing unknown is among what it holds."""
    class_name: str = ""
    """The dotted name of its class, of what a stub describes."""
    config: bool = False
    """Not known, and chosen by who starts the program."""
    escaped_from: str = ""
    """The library callable that has made it, of which nothing more is known."""
    why: str = ""
    """Not known: where knowledge ended."""
    times: Value | None = None
    """Not known: the number of processes or devices that it was multiplied by."""
    among: tuple[Const, ...] = ()
    """Not known: all that it can be, as of an option with `choices`."""
    agreed: bool = False
    """Not known: a collective has returned it, the same on all ranks."""
    device: Value | None = None
    """Of a tensor, where it is; None where that is not known."""
    extent: Enum | None = None
    """Of a tensor, how many numbers it surely holds."""
    part_of: Value | None = None
    """Of a module, what it is any part of, where only that is known of it."""
    mean: bool = False
    """A tensor: the mean of a loss over the samples of a batch, or a sum of such, multiplied by nothing."""
    doubtful: bool = False
    """A tensor: it has a graph only if a part of what a model returned was computed by that."""
    used: frozenset[Value] = frozenset()
    """Of a tensor, the modules of which single parameters are in its graph, past their forward:
    `F.linear(x, model.head.weight)`."""
    divided: Value | None = None
    """Of a tensor, the number of processes by which it was divided, graph and all."""
    over: Value | None = None
    """Of a tensor, the number by which it was divided last, whatever that counts, graph and all."""
    part: bool = False
    """A tensor: an entry of what a loader yields, or of what a model returns, not the whole of it."""
    on_cpu: bool = False
    """A tensor: it surely lies on the CPU."""
    on_accelerator: bool = False
    """A tensor: it surely lies on a GPU or the like."""
    parent: Value | None = None
    """Of data that was made of other data, this."""
    iterable: bool | None = None
    """Of data, whether it is a stream; None where that is not known."""
    sharded: bool = False
    """Data, or a loader: each rank has its own share of it."""
    made_by: str = ""
    """The dotted name of the library callable that made it, of what such have made."""
    key_prefix: str = ""
    """Of a wrapper, what the keys of its state begin with. FSDP takes its own off."""

    @property
    def is_text(self) -> bool:
        """A string, as far as it is known."""
        return False

    @property
    def is_none(self) -> bool:
        """Surely None: what is not given, for most options."""
        return False

    @property
    def in_python(self) -> object:
        """Of a constant, what it is in Python; None as well of all else."""
        return None

    @property
    def divergence(self) -> Divergence:
        """How far ranks may disagree about this value."""
        return Divergence.NONE

    @property
    def truth(self) -> bool | None:
        """Whether it counts as true, where the value alone says so."""
        return None

    @property
    def keeper(self) -> Hashable:
        """Under what its attributes stand in the store."""
        return self

    @property
    def core(self) -> Value:
        """What lies under all wrappers."""
        return self

    @property
    def state_of(self) -> Value:
        """Of a state dict, what it is the state of; else the value itself, which may be written as its own state."""
        return self

    def core_under(self, *kinds: Enum) -> Value | None:
        """What lies under all wrappers, where these are all of such kinds; None elsewhere, and of what is no model."""
        return None

    def wrapped_by(self, *kinds: Enum) -> bool:
        """A wrapper of one of these kinds is around it, or it is one itself."""
        return False

    @property
    def synchronises(self) -> bool:
        """One of the wrappers around it averages its gradients over ranks."""
        return False

    @property
    def in_text(self) -> tuple[Value, ...]:
        """What `str` of this value puts together."""
        return (self,)

    @property
    def folder_parts(self) -> tuple[Value, ...]:
        """Of a path, what stands before the last part that was joined on; nothing where none was."""
        parts = self.in_text
        return parts[: max((index for index, part in enumerate(parts) if part == SEPARATOR), default=0)]

    def as_number(self) -> Value:
        """This value, where such a string is read as the number that it is."""
        return self

    @property
    def is_cpu(self) -> bool:
        """A device: the CPU."""
        return False

    @property
    def is_cuda(self) -> bool:
        """A device: a GPU, whichever."""
        return False

    @property
    def is_accelerator(self) -> bool:
        """A device with memory of its own."""
        return False

    @property
    def literal_index(self) -> int | None:
        """Of a device, its index, where the program wrote it as a number."""
        return None

    def counts(self, *kinds: Enum) -> bool:
        """It is a rank of one of these kinds, or the number of what they say."""
        return False

    @property
    def is_setting(self) -> bool:
        """The text of the program chooses it, or who starts it does."""
        return False

    def differs_from(self, other: Value) -> bool:
        """It surely is not equal to this value, as their kinds say."""
        return False

    def has_names_for(self, key: Value) -> bool:
        """It is data whose entries have names, so that `key in data` asks for a name and not for a content."""
        return False

    def on_each_rank(self) -> Value:
        """This value, where each rank has one of its own."""
        return self

    def bound_to(self, name: str) -> Value:
        """This value, once it has the name: some are known to readers by that."""
        return self

    def is_plain(self, tests: Iterable[Literal], where: str = "") -> bool:
        """It is nothing that one calculates with, as these tests of a type say of it, or of what was read at `where`
        before."""
        return False

    def as_plain(self) -> Value:
        """This value, where tests say so."""
        return self

    def read_as(self, label: str) -> Value:
        """This value as it is read under such a name, where nothing else tells what it is."""
        return self

    def if_tensor(self, **fields: Any) -> Value:
        """The same tensor with these fields; any other value as it is."""
        return self


Values = ValueSet[Value]
V = TypeVar("V", bound=Value)
NO_SHARDS: frozenset[Value] = frozenset()


if TYPE_CHECKING:

    def singleton(value: Value, when: Condition = ALWAYS) -> Values:
        """The set of one value."""

else:
    singleton = set_of


@dataclass(frozen=True, slots=True)
class Const(Value):
    """A constant of the language: None, a number, a string, a bool, bytes or Ellipsis."""

    is_setting = True
    is_constant = True

    value: bool | int | float | complex | str | bytes | type(Ellipsis) | None  # type: ignore[valid-type]

    @property
    def is_text(self) -> bool:
        return isinstance(self.value, str)

    @property
    def is_none(self) -> bool:
        return self.value is None

    @property
    def in_python(self) -> object:
        return self.value

    @property
    def truth(self) -> bool:
        return bool(self.value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Const) or type(self.value) is not type(other.value):
            return False
        # NaN is no number equal to itself, and the same constant all the same: what is made of it must be found again.
        return self.value == other.value or (self.value != self.value and other.value != other.value)

    def __hash__(self) -> int:
        value = self.value
        return hash((type(value), value if value == value else None))

    def __repr__(self) -> str:
        return repr(self.value)


NONE, TRUE, FALSE = Const(None), Const(True), Const(False)


def divergence_of(values: Iterable[Value]) -> Divergence:
    """How far ranks may disagree about what is made of all of these."""
    found = Divergence.NONE
    for value in values:
        found |= value.divergence
    return found


def shards_of(values: Iterable[Value]) -> frozenset[Value]:
    """The loaders of which this rank saw only its own share when it computed these."""
    return NO_SHARDS.union(*[value.shards for value in values])


@overload
def single_of(values: Values | None) -> Value | None: ...
@overload
def single_of(values: Values | None, *kinds: type[V]) -> V | None: ...
def single_of(values: Values | None, *kinds: type[Value]) -> Value | None:
    """The one value that it is, of one of such kinds; None where there may be several, or none was given."""
    only = values.single if values is not None else None
    return only if not kinds or isinstance(only, kinds) else None


def text_of(value: Value | None) -> str | None:
    """The string that it is; None where it is none that is wholly known."""
    return value.value if isinstance(value, Const) and value.is_text else None  # type: ignore[return-value]


def constant_of(value: Value | None) -> bool | int | float | complex | str | bytes | type(Ellipsis) | None:  # type: ignore[valid-type]
    """The constant of the language that it is; None as well where it is another value."""
    return value.value if isinstance(value, Const) else None


def int_of(value: Value | None) -> int | None:
    """The integer that it is; None where it is none that is known."""
    return value.value if isinstance(value, Const) and type(value.value) is int else None


class Term:
    """What stands for a value that could not be known. Terms that are equal stand for the same value.

    Terms that somebody asks about are in `domain/symbols.py`.
    """

    __slots__ = ()

    @property
    def parts(self) -> tuple[Hashable, ...]:
        """What it is made of: values, arguments, names."""
        found = compared(self)
        assert isinstance(found, tuple)
        return found


@dataclass(frozen=True)
class Anonymous(Term):
    """Something that nobody asks about. `of` tells it from others of the same `kind`: an occurrence, or what it was
    made of."""

    kind: str
    of: Hashable = ()


SCALAR = "scalar"
"""A text, a number, a truth or nothing, as of an option without a type."""


@dataclass(frozen=True, slots=True, eq=False)
class Unknown(Value):
    """A value that could not be known. Two with the same `term` are the same value.

    `why` says where knowledge ended; `label` is how a reader would call it (`args.lr`). `config` marks what the user
    chooses when he starts the program: one value for all ranks.
    """

    is_open = True
    term: Term
    why: str = field(default="", compare=False)
    label: str = field(default="", compare=False)
    dependence: Divergence = field(default=Divergence.NONE, compare=False)
    config: bool = field(default=False, compare=False)
    shards: frozenset[Value] = field(default=frozenset(), compare=False)
    escaped_from: str = field(default="", compare=False)
    """The dotted name of the library callable that made it, or of a member of what that made: `torch.load`,
    `torch.optim.Optimizer.state`."""
    times: Value | None = field(default=None, compare=False)
    """The number of processes or devices that it was multiplied by: `args.batch_size * world_size`."""
    kind: str = field(default="", compare=False)
    """The type of which it surely is, as `int`, or `SCALAR`; empty where that is not known."""
    among: tuple[Const, ...] = field(default=(), compare=False)
    """All that it can be, as of an option with `choices`; empty where that is not known."""
    agreed: bool = field(default=False, compare=False)
    """A collective has returned it: it is the same on all ranks."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "term", interned(self.term))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Unknown) and self.term is other.term

    def __hash__(self) -> int:
        return id(self.term)

    @property
    def divergence(self) -> Divergence:
        return self.dependence

    @property
    def is_setting(self) -> bool:
        return self.config

    def read_as(self, label: str) -> Unknown:
        return replace(self, label=label)

    def on_each_rank(self) -> Unknown:
        return replace(self, dependence=self.dependence | Divergence.RANK)

    def __repr__(self) -> str:
        return f"Unknown({self.label or self.why})"


def of_kinds(values: Values | None, *kinds: type[Value]) -> ValueSet[Any] | None:
    """These values, where what is of no such kind is one that could not be known."""
    if values is None or values.are(*kinds):
        return values
    return values.map(lambda value: value if isinstance(value, kinds) else _of_other_kind(value))


def _of_other_kind(value: Value) -> Unknown:
    return Unknown(Anonymous("of another kind", value), "what should be of another kind", value.label, value.divergence)


def term_of(value: object) -> Term | None:
    """What stands for a part of a term, where that is a value that could not be known."""
    return value.term if isinstance(value, Unknown) else None


UNBOUND = Unknown(Anonymous("unbound"), "never assigned on this path")
"""What a name or a fact holds on the sides of a branch that did not write it."""


@dataclass(frozen=True)
class Truth(Value):
    """The answer of a test that is open: true where the literal holds."""

    literal: Literal

    @property
    def divergence(self) -> Divergence:
        return self.literal.atom.divergence

    @property
    def is_setting(self) -> bool:
        return self.literal.atom.switch

    def __repr__(self) -> str:
        return f"Truth({self.literal!r})"


@dataclass(frozen=True)
class Text(Value):
    """A string that is known in parts, as an f-string or a joined path: `f"out/{rank}.pt"`. No part is itself one."""

    is_object = True
    is_setting = True
    is_text = True
    truth = True
    parts: tuple[Value, ...]

    def __post_init__(self) -> None:
        # `x = f"{x}{x}"`, line after line: in parts of parts a question would be asked of each of them.
        if len(self.parts) > MAX_PARTS or any(isinstance(part, Text) for part in self.parts):
            object.__setattr__(self, "parts", _few(_flat(self.parts)))

    @property
    def in_text(self) -> tuple[Value, ...]:
        return self.parts

    @property
    def divergence(self) -> Divergence:
        return divergence_of(self.parts)

    def differs_from(self, other: Value) -> bool:
        text, first = text_of(other), self.parts[0] if self.parts else None
        if text is None or first is None:
            return False
        # `f"cuda:{local_rank}" != "cpu"`.
        if (begins := text_of(first)) is not None:
            return not text.startswith(begins)
        return len(self.parts) == 1 and first.differs_from(other)

    def __repr__(self) -> str:
        return f"Text({', '.join(map(repr, self.parts))})"


SEPARATOR = Const("/")
"""Stands between the parts of a path."""


def ends_of(name: Value) -> tuple[str, tuple[Value, ...], str]:
    """What a text begins with, the parts between that are not known, and what it ends with."""
    parts = list(name.in_text)
    start, end = "", ""
    while parts and isinstance(parts[0], Const):
        start += str(parts.pop(0).value)  # type: ignore[attr-defined]
    while parts and isinstance(parts[-1], Const):
        end = str(parts.pop().value) + end  # type: ignore[attr-defined]
    return start, tuple(parts), end


def _flat(parts: tuple[Value, ...]) -> list[Value]:
    return [each for part in parts for each in (part.parts if isinstance(part, Text) else (part,))]


def _few(parts: list[Value]) -> tuple[Value, ...]:
    """The first parts, and one that stands for the rest."""
    if len(parts) <= MAX_PARTS:
        return tuple(parts)
    rest = tuple(parts[MAX_PARTS - 1 :])
    left = Unknown(Anonymous("rest of a text", rest), "the rest of a long text", "...", divergence_of(rest))
    return (*parts[: MAX_PARTS - 1], left)


class Composed(Value):
    """A value that is made of several others, by which alone it is known.

    `x = (x, x)`, line after line, or `return f(x), f(x)` in functions that call one another: what is the same twice
    has twice as many parts with each step. Compared part by part, it would take as long. Here, each of the parts is
    compared once, with the first one that was like it; values of which that is the same one are equal.
    """

    __slots__ = ("_first", "_hash")
    _first: tuple[int, Hashable]
    """The first value like this one, and the age of the keys under which it was the first."""
    _hash: int

    @property
    def parts(self) -> tuple[Hashable, ...]:
        """What it is made of: values, sets of values, names."""
        found = compared(self)
        assert isinstance(found, tuple)
        return found

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return type(self) is type(other) and _first_like(self) is _first_like(other)

    def __hash__(self) -> int:
        try:
            return self._hash
        except AttributeError:
            self._hash = found = hash(compared(self))
            return found


def _first_like(value: Composed) -> Hashable:
    """The parts of a value, or those of the first one that was equal to it."""
    now = age()
    try:
        at, found = value._first
        if at == now:
            return found
    except AttributeError:
        pass
    found = interned((type(value), compared(value)))
    # One assignment: the timer of a budget may end what is done here at any place, and constants of ours are compared
    # in several threads.
    value._first = now, found
    return found


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Allocated(Value):
    """A value with an identity: made at a place, once for each time the program came by."""

    is_object = True
    identity: Hashable
    place: Location
    label: str

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.label} at line {self.place.line})"
