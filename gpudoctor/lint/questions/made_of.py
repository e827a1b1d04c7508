"""What values were made of, as far as rules ask: whose length a number is, what it was taken from."""

from __future__ import annotations

from collections.abc import Container, Iterable

from gpudoctor.lint.domain.data import Loader
from gpudoctor.lint.domain.group import ManagedObject
from gpudoctor.lint.domain.module import Wrapper
from gpudoctor.lint.domain.provenance import provenance_of
from gpudoctor.lint.domain.rank import Size
from gpudoctor.lint.domain.symbols import Attribute, CallResult, Item, Length, MethodResult, Operation
from gpudoctor.lint.domain.symbols import each_of as each_of
from gpudoctor.lint.domain.tensor import Tensor
from gpudoctor.lint.domain.value import Value


def tensors_behind(value: Value) -> list[Tensor]:
    """The tensors that it is, or was made of: `float(score)` is a number of its own, and says of what."""
    return [each for part in value.in_text for each in provenance_of(part) if isinstance(each, Tensor)]


def functions_behind(value: Value) -> set[str]:
    """The functions of libraries whose results it is, or was made of."""
    parts = (each for part in value.in_text for each in provenance_of(part))
    return {each.function for each in parts if isinstance(each, CallResult) and isinstance(each.function, str)}


def loaders_measured(values: Iterable[Value]) -> list[Loader]:
    """The loaders whose length is in these, and nothing that makes up for the processes."""
    made_of = [part for value in values for part in provenance_of(value)]
    # Who asks for the number of processes has thought of it.
    if any(isinstance(part, Size) for part in made_of):
        return []
    lengths = (part.of for part in made_of if isinstance(part, Length))
    return [each for each in lengths if isinstance(each, Loader)]


def is_made_with(values: Iterable[Value], numbers: Container[object]) -> bool:
    """One of these numbers is in the values, or what the object of a framework says of its training."""
    parts = (part for value in values for part in provenance_of(value))
    return any(part in numbers or isinstance(part, ManagedObject) for part in parts)


def is_length(value: Value) -> bool:
    """`len(dataset)`, multiplied by nothing."""
    return value.times is None and isinstance(value.term, Length)


def asked_of_engine(value: Value, method: str) -> bool:
    """A wrapper has said it: `engine.gradient_accumulation_steps()`."""
    match value.term:
        case MethodResult(Wrapper(), asked):
            return asked == method
    return False


def is_attribute(value: Value, name: str) -> bool:
    """It is what something has under this name: `accelerator.gradient_accumulation_steps`."""
    return isinstance(value.term, Attribute) and value.term.name == name


def is_entry(value: Value, of: Value | None, name: str) -> bool:
    """It is what stands there under this name: `config["gradient_accumulation_steps"]`."""
    match value.term:
        case Item(owner, key) if key is not None:
            return owner == of and key.in_python == name
    return False


def agreed_part(value: Value) -> Value | None:
    """Of a sum, the one part that is the same on all ranks: of `args.seed + rank` the first."""
    match value.term:
        case Operation("+", left, right):
            alike = [each for each in (left, right) if not each.divergence]
            return alike[0] if len(alike) == 1 else None
    return None
