"""Arguments of calls: given, changed and taken away in the layout that the call has."""

from __future__ import annotations

import ast
import itertools
from typing import TYPE_CHECKING

from gpudoctor.lint.fix.syntax import NoFix
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from collections.abc import Sequence

    from gpudoctor.lint.fix.imports import Change
    from gpudoctor.lint.fix.syntax import Syntax

_LONG, _LONGEST = 100, 120
"""A line that grows beyond the first is broken, or beyond the second where the file has such lines anyway."""


@dataclass(frozen=True)
class _Item:
    """One argument as it is written, from its first character to its last, and the comma behind it, -1 for none."""

    node: ast.expr | ast.keyword
    start: int
    end: int
    comma: int

    @property
    def value(self) -> ast.expr:
        return self.node.value if isinstance(self.node, ast.keyword) else self.node

    @property
    def after(self) -> int:
        return self.comma + 1 if self.comma >= 0 else self.end


def set_arguments(syntax: Syntax, call: ast.Call, given: Sequence[tuple[str, int, str]]) -> list[Change]:
    """Give a call several arguments, each with its name, its position and its text."""
    there = [each for each in given if find(call, each[0], each[1]) is not None]
    changes = [change for each in there for change in set_argument(syntax, call, *each)]
    new = [f"{name}={text}" for name, position, text in given if (name, position, text) not in there]
    return [*changes, *_add(syntax, call, *new)] if new else changes


def set_argument(syntax: Syntax, call: ast.Call, name: str, position: int, text: str) -> list[Change]:
    """Give a call an argument, or another value to the one it has."""
    given = find(call, name, position)
    if given is not None:
        value = given.value if isinstance(given, ast.keyword) else given
        start, end = syntax.span(value)
        return [(start, end, text), *_break(syntax, call, given, len(text) - (end - start))]
    return _add(syntax, call, f"{name}={text}")


def remove_arguments(syntax: Syntax, call: ast.Call, names: Sequence[tuple[str, int]]) -> list[Change]:
    """Take arguments away, with their commas, and with their lines and comments where they have them to themselves."""
    items = _items(syntax, call)
    given = [node for name, position in names if (node := find(call, name, position)) is not None]
    gone = [item.node in given for item in items]
    plain = [each for item, each in zip(items, gone, strict=True) if item.node in call.args]
    if not given or sorted(plain) != plain:
        raise NoFix("it is not there, or others would move to its position")
    changes: list[Change] = []
    start = 0
    for index, item in enumerate(items):
        if not gone[index]:
            start = index + 1
        # A run of them ends here.
        elif index + 1 == len(items) or not gone[index + 1]:
            changes += _removed(syntax, items, start, item)
            start = index + 1
    return changes


def _removed(syntax: Syntax, items: list[_Item], first: int, last: _Item) -> list[Change]:
    """The changes that take away a run of arguments."""
    run = items[first : items.index(last) + 1]
    lines = [_own_lines(syntax, item) for item in run]
    if all(lines):
        return [(each[0], each[1], "") for each in lines if each is not None]
    following = items[items.index(last) + 1 :]
    if following:
        # A line of its own goes on where the next argument stands.
        between = syntax.text[last.after : following[0].start]
        return [(run[0].start, last.after if "#" in between else following[0].start, "")]
    return [(items[first - 1].end, last.end, "")] if first else [(run[0].start, last.after, "")]


def _own_lines(syntax: Syntax, item: _Item) -> tuple[int, int] | None:
    """The lines of an argument, where nothing else stands on them."""
    start, end = syntax.line_start(item.start), syntax.line_end(item.after)
    rest = syntax.text[item.after : end].strip()
    if syntax.text[start : item.start].strip() or (rest and not rest.startswith("#")):
        return None
    return start, min(end + 1, len(syntax.text))


def find(call: ast.Call, name: str, position: int) -> ast.expr | ast.keyword | None:
    """The argument, by its name or its position."""
    found = next((each for each in call.keywords if each.arg == name), None)
    if found is not None or position < 0 or len(call.args) <= position:
        return found
    before = call.args[: position + 1]
    if any(isinstance(each, ast.Starred) for each in before):
        raise NoFix("arguments are passed on")
    return before[-1]


def _items(syntax: Syntax, call: ast.Call) -> list[_Item]:
    nodes: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    starts = sorted((syntax.span(node)[0], index) for index, node in enumerate(nodes))
    close = syntax.span(call)[1] - 1
    ends = [start for start, _ in starts[1:]] + [close] * bool(starts)
    items = []
    for (start, index), limit in zip(starts, ends, strict=True):
        end, comma = _end(syntax.text, syntax.span(nodes[index])[1], limit)
        items.append(_Item(nodes[index], start, end, comma))
    return items


def _end(text: str, end: int, limit: int) -> tuple[int, int]:
    """Where an argument ends, with the brackets around it, and where its comma is, or -1."""
    at, last = end, end
    while at < limit:
        if text[at] == "#":
            at = text.find("\n", at)
        elif text[at] == ")":
            last = at + 1
        elif text[at] == ",":
            return last, at
        at += 1
    return last, -1


def _add(syntax: Syntax, call: ast.Call, *texts: str) -> list[Change]:
    if any(each.arg is None for each in call.keywords):
        raise NoFix("it may be among the arguments that are passed on")
    items, text = _items(syntax, call), ", ".join(texts)
    close = syntax.span(call)[1] - 1
    if not items:
        return [(close, close, text)]
    # `f(x for x in y)` is no place for a second argument.
    if any(isinstance(item.node, ast.GeneratorExp) for item in items) and len(items) == 1:
        raise NoFix("a generator without brackets of its own")
    last = items[-1]
    line_end = syntax.line_end(last.after)
    below = line_end < close
    indent = _own_line(syntax, last)
    if below and indent is not None:
        # One argument a line: the new one gets a line, and the comment stays with the old one.
        comma = [] if last.comma >= 0 else [(last.end, last.end, ",")]
        mark = "," if last.comma >= 0 else ""
        lines = f",\n{indent}".join(texts)
        return [*comma, (line_end, line_end, f"\n{indent}{lines}{mark}")]
    if last.comma >= 0:
        return [(last.after, last.after, f" {text}" if below else f" {text},")]
    return [(last.end, last.end, f",{_gap(syntax, items, text)}{text}")]


def _break(syntax: Syntax, call: ast.Call, given: ast.expr | ast.keyword, more: int) -> list[Change]:
    """A new line before an argument that grows, where its line becomes too long; behind the first one."""
    items = _items(syntax, call)
    index = next(i for i, item in enumerate(items) if item.node is given)
    item, begin = items[index], syntax.line_start(items[index].start)
    line = syntax.text[begin : syntax.line_end(item.end)].partition("#")[0].rstrip()
    if len(line) + more <= _room(syntax):
        return []
    # Before it and behind it, where others stand on the same line.
    around = items[index - 1 : index + 1] if index else items[:2]
    return [
        (one.comma + 1, other.start, f"\n{_indent(syntax, items)}")
        for one, other in itertools.pairwise(around)
        if syntax.line_start(one.start) == syntax.line_start(other.start)
    ]


def _room(syntax: Syntax) -> int:
    """How long lines may be."""
    return min(max(_LONG, *map(len, syntax.source.lines)), _LONGEST)


def _indent(syntax: Syntax, items: list[_Item]) -> str:
    """What stands before an argument on a line of its own."""
    own = next((indent for item in items if (indent := _own_line(syntax, item)) is not None), None)
    return " " * (items[0].start - syntax.line_start(items[0].start)) if own is None else own


def _own_line(syntax: Syntax, item: _Item) -> str | None:
    """What stands before an argument on its line, where that is nothing but space."""
    before = syntax.text[syntax.line_start(item.start) : item.start]
    return before if not before.strip() else None


def _gap(syntax: Syntax, items: list[_Item], text: str) -> str:
    """What comes between the last argument and a new one: a space, or a new line where arguments stand so."""
    last = items[-1]
    indent = _own_line(syntax, last)
    alone = len(items) == 1 or syntax.line_start(items[-2].start) != syntax.line_start(last.start)
    if indent is not None and alone:
        return f"\n{indent}"
    line = syntax.text[syntax.line_start(last.end) : syntax.line_end(last.end)].partition("#")[0].rstrip()
    return " " if len(line) + len(text) + 2 <= _room(syntax) else f"\n{_indent(syntax, items)}"
