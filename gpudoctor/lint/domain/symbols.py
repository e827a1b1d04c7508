"""What stands for values that could not be known, and for tests of a program: typed terms, by which the same unknown
and the same test are recognised again.

`len(loader)` is no number that anybody knows, and still it is the same one wherever the program asks for it, and a
rule may ask of which loader it is the length. So each `Unknown` carries a term, and the key of each `Atom` is one.
The family is closed: a new kind of term is a class here, or, where nobody will ever ask what it is made of, an
`Anonymous` one (`domain/value.py`).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.heuristics import RANK
from gpudoctor.lint.domain.rank import RankKind
from gpudoctor.lint.domain.value import NONE, Const, Term, Truth, Unknown, Value, Values, term_of, text_of
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.flow.valueset import ValueSet
from gpudoctor.record import dataclass, field


@dataclass(frozen=True)
class Setting(Term):
    """What the user chooses at the start under this name: `args.lr`."""

    name: str


@dataclass(frozen=True)
class FileSetting(Setting):
    """What a settings file says under this name, as `train.yaml:optimizer.lr`: another file may say something else."""


@dataclass(frozen=True)
class WrittenSwitch(Term):
    """What the author sets in the text of the program, and may set otherwise: `distributed = False`."""

    name: str
    at: Location


@dataclass(frozen=True)
class PlaceOnDisk(Term):
    """The file that is executed (`__file__`), or a folder that was computed from it: where it is on this machine."""

    path: str


@dataclass(frozen=True)
class Length(Term):
    """`len(of)`; of one of several things, None."""

    of: Value | None


@dataclass(frozen=True)
class Attribute(Term):
    """`of.name`."""

    of: Value | None
    name: str


@dataclass(frozen=True)
class Item(Term):
    """`of[index]`; None for one of several indices."""

    of: Value
    index: Value | None


@dataclass(frozen=True)
class EachOf(Term):
    """What a loop over `of` gets in one round."""

    of: Value


@dataclass(frozen=True)
class EntriesOf(Term):
    """Any of the entries of `of`, which came to those of another dictionary."""

    of: Value


@dataclass(frozen=True)
class Operation(Term):
    """`left operator right`, with the operator as Python writes it: `+`, `//`, `%`."""

    operator: str
    left: Value
    right: Value


@dataclass(frozen=True)
class NodeProduct(Term):
    """The size of a node multiplied by `number`, that of this rank's node: a rank, once a local rank is added."""

    size: Value
    number: Value


@dataclass(frozen=True)
class CallResult(Term):
    """What a function has returned: a library's, by its dotted name, or one of which nothing is known.

    `given` are its arguments where the same arguments have the same result, else the occurrence of the call.
    """

    function: str | Value
    given: Hashable


@dataclass(frozen=True)
class Loaded(Term):
    """Data that `function` has read for `given`: `indexed` where each sample has a number, False for a stream."""

    function: str
    given: Hashable
    indexed: bool


@dataclass(frozen=True)
class MethodResult(Term):
    """What `of.method(...)` has returned; `given` as for `CallResult`."""

    of: Value | None
    method: str
    given: Hashable = ()


@dataclass(frozen=True)
class OpenFile(Term):
    """A file that was opened at an occurrence of `open`; `spelled` is the path as the program writes it."""

    occurrence: Hashable
    path: Values | None
    mode: object
    spelled: str


@dataclass(frozen=True)
class ClockReading(Term):
    """What a clock said at one occurrence of the call."""

    occurrence: Hashable


@dataclass(frozen=True)
class OwnReading(Term):
    """What each process has found out for itself at one occurrence of a call: the date, a name that nobody else has, a
    number drawn from the `generator` of python or numpy."""

    occurrence: Hashable
    generator: str = ""


@dataclass(frozen=True)
class Raised(Term):
    """Whether an exception came to this handler of a `try`, counted from the first one."""

    handler: Location
    index: int


@dataclass(frozen=True)
class HandlerHasRun(Term):
    """The test whether what was registered here for a signal has been run: of each process the system tells another."""

    registered: Location


@dataclass(frozen=True)
class ParameterName(Term):
    """The name under which `named_parameters()` hands out a parameter, or `named_modules()` a part."""

    of: Value


@dataclass(frozen=True)
class Widened(Term):
    """Any of the values that a key of the store held, which were too many to be followed one by one."""

    key: Hashable
    values: Values


def each_of(value: Value) -> Iterator[Value]:
    """What a value may be, each once, also where that was too many to be kept one by one."""
    seen, left = {value}, [value]
    while left:
        term = (one := left.pop()).term
        if not isinstance(term, Widened):
            yield one
            continue
        # Names that take each other's values hold the same ones on ever more ways.
        left += [each for each in term.values if each not in seen]
        seen.update(term.values)


@dataclass(frozen=True)
class IsTrue(Term):
    """The test `if value:`."""

    value: Value


@dataclass(frozen=True)
class Compares(Term):
    """The test `left operator right`, with `==`, `<`, `>` or `in`; the others are one of these that fails."""

    operator: str
    left: Value
    right: Value


@dataclass(frozen=True)
class RankIs(Term):
    """The test whether the rank is `number`, or below it (`<`): the same one wherever the rank was got from."""

    kind: RankKind
    operator: str
    number: object


@dataclass(frozen=True)
class IsInstance(Term):
    """The test `isinstance(...)` of these arguments, of which `subject` is the first one as the program writes it.

    `plain_where` is the answer with which it is no tensor: False for `isinstance(x, torch.Tensor)`, True for `dict`.
    """

    given: tuple[Values, ...]
    subject: str = field(default="", compare=False)
    plain_where: bool | None = field(default=None, compare=False)


@dataclass(frozen=True)
class OneOf(Term):
    """The test of a name that holds these values: which of them it is decides.

    `asked` is what they are the answers about, where they are answers themselves.
    """

    values: Values
    asked: Hashable = None


@dataclass(frozen=True)
class AllOf(Term):
    """The test whether all of these tests have these answers."""

    literals: frozenset[Literal]


@dataclass(frozen=True)
class AnyOf(Term):
    """The test whether one of these tests has this answer."""

    literals: frozenset[Literal]


def names_day(form: str) -> bool:
    """This format for a date leaves out the time of the day."""
    return _OF_DAYS.issuperset(each[:1] for each in form.split("%")[1:])


_OF_DAYS = frozenset("aAbBdDeFgGhjmuUVwWyY")
_MOST_STEPS = 12
"""How many steps a value may be away from the file it was taken from."""


def keys_of(value: object) -> list[str]:
    """Under which keys of a configuration a text stands, or the one that it was cut out of."""
    match term_of(value):
        case Attribute(of, str(name)) | Item(of, Const(str(name))):
            return [*keys_of(of), name]
        case Item(of, _):
            return keys_of(of)
        # `text.rsplit(".", 1)`, `config.get("target")`
        case CallResult(Unknown(term=Attribute(of, "get")), ((ValueSet() as given, *_), *_)):
            return [*keys_of(of), *_texts(given)]
        case CallResult(Unknown(term=Attribute(of, _)), _):
            return keys_of(of)
        case MethodResult(of, "get", (ValueSet() as given, *_)):
            return [*keys_of(of), *_texts(given)]
    return []


def settings_of(value: Unknown) -> list[str]:
    """The same, or the one setting that the text is."""
    return keys_of(value) or ([value.term.name] if isinstance(value.term, Setting) else [])


def _texts(given: Values) -> list[str]:
    return [text] if (text := text_of(given.single)) is not None else []


def from_settings(value: Value) -> bool:
    """The user has chosen it or written it into a file; also what a loop takes from there, entry by entry."""
    for _ in range(_MOST_STEPS):
        if not isinstance(value, Unknown) or value.dependence:
            return False
        if value.config:
            return True
        of = _source(value)
        if of is None:
            return False
        value = of
    return False


def _source(value: Unknown) -> Value | None:
    """What an unknown value was taken from."""
    match value.term:
        case Attribute(of) | Item(of) | EachOf(of) | EntriesOf(of) | MethodResult(of):
            return of
        case CallResult(Unknown() as method):
            return method
        case CallResult(str() as name, (ValueSet() as first, *_)) if name.startswith("builtins."):
            return first.single
    return None


def speaks_of(key: Hashable, value: Hashable) -> bool:
    """A test with this key asks about the value, or one of the tests that it is made of does."""
    if key == value:
        return True
    if isinstance(key, Literal):
        return speaks_of(key.atom.key, value)
    parts = key.parts if isinstance(key, Term) else key if isinstance(key, (tuple, frozenset)) else ()
    return any(speaks_of(part, value) for part in parts)


def asked_of(literal: Literal) -> tuple[Hashable, ...]:
    """What a test is about: the values that it compares, the tests that it is made of."""
    match literal.atom.key:
        case OneOf(values):
            # Of a loop or a model that is one of several, each has its own answer.
            return tuple(
                part for each in values for part in (asked_of(each.literal) if isinstance(each, Truth) else (each,))
            )
        case Term() as key:
            return key.parts
    return ()


def asks_setting_for_rank(literal: Literal) -> bool:
    """`config.local_rank == 0`: by its name, each process has another one, whoever tells it which."""
    asked = (each.term for each in asked_of(literal) if isinstance(each, Unknown))
    names = (each.name for each in asked if isinstance(each, (Attribute, Setting)))
    return any(map(RANK.fits, names))


def entry_left_out(value: Unknown) -> Const | None:
    """`config.get("amp", False)`: what an entry of settings is that need not be there."""
    asked = method_asked(value)
    if asked is None or asked[1] != "get" or not isinstance(asked[0], Unknown) or not asked[0].config:
        return None
    given = asked[2]
    left_out = given[1].single if len(given) > 1 else NONE
    return left_out if given and isinstance(left_out, Const) else None


def method_asked(value: Value) -> tuple[Value, str, tuple[Values, ...]] | None:
    """The object, the method and the arguments by position of a call that an unknown value comes from."""
    match value.term:
        case CallResult(Unknown(Attribute(Value() as of, name)), (tuple() as given, ())):
            return of, name, given
        case MethodResult(Value() as of, name, (tuple() as given, ())):
            return of, name, given
        case MethodResult(Value() as of, name, ()):
            return of, name, ()
    return None
