"""Tests of shell scripts, as far as what they compare is known."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from tree_sitter import Node

    from gpudoctor.lint.launchfiles.shell_words import Word

_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "eq": operator.eq,
    "ne": operator.ne,
    "gt": operator.gt,
    "ge": operator.ge,
    "lt": operator.lt,
    "le": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_THERE = frozenset({"-f", "-e", "-r", "-s", "-a"})
_SIGNS, _BARE = frozenset("*?["), ("extglob_pattern", "word")


class Evaluates(Protocol):
    """A script on its way."""

    def source(self, node: Node) -> str: ...
    def word(self, node: Node) -> Word: ...
    def arithmetic(self, node: Node) -> int | None: ...
    def has_file(self, name: Word) -> bool: ...


def holds(test: Node, at: Evaluates) -> bool | None:
    """What a test comes to; None where that is not known."""
    if test.type in ("test_command", "parenthesized_expression", "compound_statement"):
        inner = test.named_children
        return holds(inner[0], at) if len(inner) == 1 else None
    if test.type == "unary_expression" and len(test.children) == 2:
        sign, value = at.source(test.children[0]), test.children[1]
        if sign == "!":
            inside = holds(value, at)
            return None if inside is None else not inside
        if sign in _THERE and at.has_file(at.word(value)):
            return True
        text = at.word(value).text
        return None if text is None or sign not in ("-n", "-z") else bool(text) is (sign == "-n")
    if test.type not in ("binary_expression", "list") or len(test.children) < 3:
        return None
    left, sign, right = test.children[0], at.source(test.children[1]), test.children[2]
    if sign in ("&&", "||"):
        both = holds(left, at), holds(right, at)
        ends = sign == "||"
        return ends if ends in both else None if None in both else not ends
    if sign in ("=", "==", "!="):
        fits = _fits(at.word(left).text, test.children[2:], at)
        return None if fits is None else fits is (sign != "!=")
    numbers = [found if (found := at.word(each).number) is not None else at.arithmetic(each) for each in (left, right)]
    compare = _COMPARISONS.get(sign.lstrip("-"))
    return None if compare is None or None in numbers else compare(*numbers)


def matching(subject: str | None, items: Sequence[Node], at: Evaluates) -> Node | None:
    """The branch of a `case` that is taken; None where that is not known."""
    for item in items if subject is not None else ():
        fit = [_fits(subject, [each], at) for each in item.children_by_field_name("value")]
        if True in fit:
            return item
        if None in fit:
            return None
    return None


def _fits(text: str | None, pattern: Sequence[Node], at: Evaluates) -> bool | None:
    """Whether a text is what a pattern says: `*","*`."""
    parts = [at.word(each).text for each in pattern]
    # A star in quotes is just that, and one from a variable is either.
    if text is None or any(
        part is None or (each.type not in _BARE and _SIGNS & set(part))
        for each, part in zip(pattern, parts, strict=True)
    ):
        return None
    return fnmatchcase(text, "".join(filter(None, parts)))
