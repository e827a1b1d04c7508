"""What the tests of a program ask about: by it rules tell whose answer one has, and what else it may decide."""

from __future__ import annotations

from collections.abc import Iterable

from gpudoctor.lint.domain.function import Library
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.symbols import (
    Attribute,
    ClockReading,
    Compares,
    HandlerHasRun,
    IsTrue,
    MethodResult,
    OneOf,
    Operation,
    OwnReading,
    ParameterName,
    Raised,
    asked_of,
)
from gpudoctor.lint.domain.tensor import Tensor, TensorOrigin
from gpudoctor.lint.domain.value import Term, Truth, Unknown, Value
from gpudoctor.lint.flow.condition import Condition, Divergence, Literal
from gpudoctor.lint.flow.valueset import ValueSet

_NEAR = 6
"""Steps from a test: enough for a call inside a comparison inside `and`; beyond it the test is about something else."""


def asks_about(test: Literal, value: Value) -> bool:
    """It is about this very value, or about what was nearly made of it."""
    return value in provenance_of(test, _NEAR)


def asks_about_made(test: Literal, tensor: Tensor) -> bool:
    """It is about what the same call has made: `if grid.shape != output.shape:` asks whether it is to be made anew."""
    parts = provenance_of(test, _NEAR)
    return tensor.root is not None and any(isinstance(each, Tensor) and each.root == tensor.root for each in parts)


def says_on_cpu(test: Literal) -> bool:
    """It may say that a tensor is on no GPU: `if x.is_cuda: table = table.cuda()` has another side."""
    asked = (part.name for part in provenance_of(test, _NEAR) if isinstance(part, Attribute))
    return any(name == "device" or (name == "is_cuda" and not test.holds) for name in asked)


def asks_own_reading(test: Literal) -> bool:
    """It is about a tensor, the clock or a signal, and not only about what was counted."""
    return any(isinstance(part, (Tensor, ClockReading, HandlerHasRun)) for part in provenance_of(test, _NEAR))


def generators_asked(test: Literal) -> frozenset[str]:
    """The generators that the numbers which it compares were drawn from; none where it asks for something else that
    this rank alone has."""
    parts = [*provenance_of(test, _NEAR)]
    if any(isinstance(part, (Tensor, ClockReading, HandlerHasRun)) for part in parts):
        return frozenset()
    return frozenset(part.generator for part in parts if isinstance(part, OwnReading))


def asks_signal(test: Literal) -> bool:
    """Whether what was registered for a signal has been run."""
    return isinstance(test.atom.key, HandlerHasRun)


def where_nothing_is_raised(condition: Condition) -> Condition:
    """Without the tests that no exception was caught, as around a group that is made in a `try`: mostly none is."""
    caught = [each for each in condition.literals if isinstance(each.atom.key, Raised) and not each.holds]
    return condition.difference(Condition(frozenset(caught))) if caught else condition


def where_something_is_raised(condition: Condition) -> bool:
    """An exception was caught on the way, so that not all has been done that stands before it."""
    return any(isinstance(each.atom.key, Raised) and each.holds for each in condition.literals)


def asks_clock(test: Literal) -> bool:
    """What it compares is made of what a clock said."""
    return _of_a_clock(test.atom.key)


def _of_a_clock(asked: object) -> bool:
    parts: Iterable[object] = ()
    match asked:
        case ClockReading():
            return True
        case Truth(literal):
            parts = (literal.atom.key,)
        case Value():
            parts = (asked.term,)
        case Term():
            parts = asked.parts
        case ValueSet() | tuple():
            parts = asked
    return any(map(_of_a_clock, parts))


def asks_output(test: Literal) -> bool:
    """It compares what a model has said of a batch."""
    return any(isinstance(each, Tensor) and each.origin is TensorOrigin.OUTPUT for each in asked_of(test))


def shards_asked(test: Literal) -> set[Value]:
    """The loaders of whose shards it compares results, also in a part: `first or error < best`."""
    values = [value for part in (test, *test.atom.every, *test.atom.none) for value in asked_of(part)]
    return {shard for value in values if isinstance(value, Value) for shard in value.shards}


def asks_for_parameters(test: Literal) -> bool:
    """It picks some parameters by their names: `if "head" not in name:`."""
    return any(isinstance(part, ParameterName) for part in provenance_of(test, _NEAR))


def asks_for_kind_of_launch(test: Literal) -> bool:
    """`accelerator.distributed_type`: how the program was launched."""
    return any(map(_is_kind_of_launch, provenance_of(test, _NEAR)))


def _is_kind_of_launch(part: object) -> bool:
    match part:
        case Attribute(ManagedObject(), "distributed_type" | "state") | Attribute(_, "parallel_mode"):
            return True
    return False


def asks_for_deepspeed(test: Literal) -> bool:
    """It comes out so only where Accelerate has its plugin for DeepSpeed, or asks the plugin itself."""
    match test.atom.key, test.holds:
        case (Compares("==", asked, other), False) if other.is_none and _is_plugin(asked):
            return True
        case (IsTrue(asked), True) if _is_plugin(asked):
            return True
        case (Compares("==", _, Library(name)), True) if name.endswith("DistributedType.DEEPSPEED"):
            return True
        # Of None nothing can be taken.
        case ((Compares() | IsTrue()), _):
            parts = provenance_of(test.atom.key)
            return any(isinstance(part, (Attribute, MethodResult)) and _is_plugin(part.of) for part in parts)
    return False


def _is_plugin(value: object) -> bool:
    match value:
        case Unknown(Attribute(_, "deepspeed_plugin")):
            return True
    return False


def ways_told(test: Literal) -> list[Condition]:
    """When each of the values is there that a name may have which it is about: it may tell those ways apart."""
    key = test.atom.key
    return [each.condition for each in key.values.bindings] if isinstance(key, OneOf) else []


def rounds_between(test: Literal) -> list[Value]:
    """In how many rounds of a counter it comes out so once: all `n` of `(i + 1) % n` in it."""
    return [each.right for each in provenance_of(test) if isinstance(each, Operation) and each.operator == "%"]


def every_nth(test: Literal) -> Value | None:
    """The `n` where it is just such a test: `if (i + 1) % n == 0:`."""
    match test.atom.key:
        case IsTrue(Unknown(Operation("%", _, divisor))) | Compares(_, Unknown(Operation("%", _, divisor))):
            return divisor
    return None


def asks_for_one_round(test: Literal) -> bool:
    """Whether a counter has come to a number, which it does in one round of the loop."""
    asked = test.atom.key
    if not (test.holds and isinstance(asked, Compares) and asked.operator == "=="):
        return False
    return _counts_up(asked.left) is not _counts_up(asked.right)


def _counts_up(value: Value) -> bool:
    """Another number in each round: a counter, and what is added to it."""
    match value.term:
        case Operation("+" | "-", left, right):
            return _counts_up(left) or _counts_up(right)
        case Operation():
            return False
    return bool(value.divergence & Divergence.BATCH_INDEX)
