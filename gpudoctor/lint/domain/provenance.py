"""What values were computed from."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.domain.container import Enumerated
from gpudoctor.lint.domain.function import Method
from gpudoctor.lint.domain.module import Module
from gpudoctor.lint.domain.symbols import Attribute, EachOf, Item, Loaded, MethodResult
from gpudoctor.lint.domain.value import Term, Text, Truth, Unknown, Value, term_of
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.flow.valueset import ValueSet


def provenance_of(value: object, depth: int = 1 << 30) -> Iterator[object]:
    """A value, a term or a test, and all that it was computed from, each once: what is nearest comes first.

    `depth` limits how far from it: arguments are one step farther than the call, and their values another one.
    """
    here = [value]
    seen: set[int] = set()
    while here and depth >= 0:
        farther: list[object] = []
        while here:
            each = here.pop()
            # `y = y + y`, line after line, has few parts on many ways.
            if id(each) in seen:
                continue
            seen.add(id(each))
            yield each
            match each:
                case Unknown():
                    here.append(each.term)
                case Literal():
                    here.append(each.atom.key)
                case Truth():
                    here.append(each.literal)
                case Term():
                    farther += each.parts
                case Enumerated():
                    farther += each.items
                case Text():
                    farther += each.parts
                case tuple() | frozenset() | ValueSet():
                    farther += each
        here, depth = farther, depth - 1


def is_table(value: Value) -> bool:
    """Data that were loaded as a table, whatever was done to them since: they have an index."""
    loaded = [each for each in provenance_of(value) if isinstance(each, Loaded)]
    return bool(loaded) and all(each.indexed for each in loaded)


def whole_of(value: Value | None) -> Module | None:
    """The model in which something lies that was not seen: `resnet.layer1[0]`, `resnet.blocks.values()`."""
    whole = value
    while True:
        match whole if isinstance(whole, Method) else term_of(whole):
            case Method(receiver=of) | Attribute(of=of) | Item(of=of) | EachOf(of=of):
                whole = of
            case MethodResult(of=of, method="values"):
                whole = of
            case _:
                break
    core = whole.core if whole is not None and whole is not value else None
    return core if isinstance(core, Module) else None
