"""What values were computed from."""

from __future__ import annotations

from collections.abc import Iterator

from gpudoctor.lint.domain.container import Enumerated
from gpudoctor.lint.domain.value import Unknown
from gpudoctor.lint.flow.condition import Literal
from gpudoctor.lint.flow.valueset import ValueSet


def provenance_of(value: object) -> Iterator[object]:
    """A value, a key or a test, and all that it was computed from, each once."""
    todo, seen = [value], set[int]()
    while todo:
        each = todo.pop()
        # `y = y + y`, line after line, has few parts on many ways.
        if id(each) in seen:
            continue
        seen.add(id(each))
        yield each
        if isinstance(each, Unknown):
            todo.append(each.key)
        elif isinstance(each, Literal):
            todo.append(each.atom.key)
        elif isinstance(each, Enumerated):
            todo += each.items
        elif isinstance(each, (tuple, frozenset, ValueSet)):
            todo += each
