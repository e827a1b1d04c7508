"""Lists with commas: arguments of calls and names of imports, given, changed and taken away in the layout they have."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import libcst as cst

from gpudoctor.diagnostic import Location
from gpudoctor.lint.fix.changes import NewArguments

WithComma = TypeVar("WithComma", cst.Arg, cst.ImportAlias)
Whitespace = cst.BaseParenthesizableWhitespace
_NOTHING, _SPACE, _LINE_END = cst.SimpleWhitespace(""), cst.SimpleWhitespace(" "), cst.TrailingWhitespace()


class File(Protocol):
    """What the layout of a call depends on."""

    placed: dict[cst.CSTNode, tuple[tuple[int, int], tuple[int, int]]]
    lines: list[str]
    room: list[int]

    def expression(self, text: str) -> cst.BaseExpression: ...
    def expression_at(self, at: Location) -> cst.CSTNode: ...


def with_arguments(change: NewArguments, was: cst.Call, now: cst.Call, file: File) -> cst.Call:
    """A call with other arguments. Where it was tells how long its lines are."""
    args = list(now.args)
    tail: Whitespace = _NOTHING
    if args and not isinstance(args[-1].comma, cst.Comma):
        tail, args[-1] = args[-1].whitespace_after_arg, args[-1].with_changes(whitespace_after_arg=_NOTHING)
    listed = CommaList(args, now.whitespace_before_args, tail)
    values = [each.value for each in was.args]
    line, column = file.placed[was.args[0]][0] if was.args else (1, 1)
    margin = re.sub(r"[^\t]", " ", file.lines[line - 1][: column - 1])
    for place, text in change.values:
        node = file.expression_at(place)
        index = next(index for index, each in enumerate(values) if each is node)
        if len(text) - (place.end_column - place.column) > file.room[place.line - 1]:
            listed.break_before(index or 1, margin)
        old = listed.items[index]
        listed.items[index] = old.with_changes(value=replaced(old.value, file.expression(text)))
    full = bool(values) and len(", ".join(change.added)) + 2 > file.room[file.placed[was.args[-1]][1][0] - 1]
    if change.added:
        new = file.expression(f"_({', '.join(change.added)})")
        assert isinstance(new, cst.Call)
        listed.append(new.args, broken_at=margin if full else "")
    gone = [file.expression_at(place) for place in change.removed]
    for index in reversed(range(len(values))):
        if values[index] in gone:
            listed.remove(index)
    args = listed.written
    if args:
        args[-1] = args[-1].with_changes(whitespace_after_arg=listed.tail)
    return now.with_changes(args=args, whitespace_before_args=listed.head)


def replaced(old: cst.BaseExpression, new: cst.BaseExpression) -> cst.BaseExpression:
    """The new expression in the brackets of the old one, which are not its own."""
    if new.lpar or isinstance(old, (cst.Tuple, cst.GeneratorExp)):
        return new
    return new.with_changes(lpar=old.lpar, rpar=old.rpar)


def with_name(taking: cst.ImportFrom, name: str) -> cst.ImportFrom:
    """A `from` import that takes one more name: sorted in where the others are, else at the end."""
    assert not isinstance(taking.names, cst.ImportStar)
    names = [each.evaluated_name for each in taking.names]
    index = next((index for index, each in enumerate(names) if each > name), len(names))
    head: Whitespace = taking.lpar.whitespace_after if taking.lpar else taking.whitespace_after_import
    listed = CommaList(taking.names, head, taking.rpar.whitespace_before if taking.rpar else _NOTHING)
    new = cst.ImportAlias(cst.Name(name))
    if sorted(names) == names and index < len(names):
        listed.insert(index, new)
    else:
        listed.append([new])
    found = taking.with_changes(names=listed.written)
    # Without a comma what is behind the last name belongs to the bracket.
    bare = not isinstance(listed.written[-1].comma, cst.Comma)
    return found.with_deep_changes(taking.rpar, whitespace_before=listed.tail) if taking.rpar and bare else found


class CommaList(Generic[WithComma]):
    """The items with the white space before each, and behind the last. Whether that has a comma stays as it was."""

    def __init__(self, items: Sequence[WithComma], head: Whitespace, tail: Whitespace = _NOTHING) -> None:
        self.items: list[WithComma] = list(items)
        self.gaps: list[Whitespace] = [head]
        for item in items:
            self.gaps.append(item.comma.whitespace_after if isinstance(item.comma, cst.Comma) else tail)
        self._trailing = bool(items) and isinstance(items[-1].comma, cst.Comma)

    def insert(self, index: int, item: WithComma) -> None:
        """Put an item before another one, in a line of its own where that is."""
        gap = self.gaps[index]
        self.gaps.insert(index + 1, _bare(gap) if isinstance(gap, cst.ParenthesizedWhitespace) else _SPACE)
        self.items.insert(index, item)

    def append(self, items: Sequence[WithComma], *, broken_at: str = "") -> None:
        """Put items at the end, as those before are: in lines of their own, or beside them. `broken_at` is what to
        begin a new line with, where there is no room."""
        if not self.items:
            self.items += items
            self.gaps += [*[_SPACE] * (len(items) - 1), _NOTHING]
            return
        beside, tail = self.gaps[-2:]
        gap: Whitespace = _bare(beside) if isinstance(beside, cst.ParenthesizedWhitespace) else _SPACE
        if gap is _SPACE and broken_at:
            gap = self._line_break(broken_at)
        alone = all(isinstance(each, cst.ParenthesizedWhitespace) for each in self.gaps[1:-1] or self.gaps[:1])
        others: list[Whitespace] = [gap if alone else _SPACE] * (len(items) - 1)
        # A comment on the line of the last item stays there.
        if isinstance(gap, cst.ParenthesizedWhitespace) and isinstance(tail, cst.ParenthesizedWhitespace):
            gap, tail = gap.with_changes(first_line=tail.first_line), tail.with_changes(first_line=_LINE_END)
        self.gaps[-1:] = [gap, *others, tail]
        self.items += items

    def remove(self, index: int) -> None:
        """Take an item away, with its line and its comment where it has them to itself."""
        before, after = self.gaps[index : index + 2]
        last = index == len(self.items) - 1
        if isinstance(before, cst.ParenthesizedWhitespace) and isinstance(after, cst.ParenthesizedWhitespace):
            gap: Whitespace = after.with_changes(first_line=before.first_line)
        # A comment must not take what follows with it.
        elif isinstance(before, cst.ParenthesizedWhitespace) and (before.first_line.comment or not last):
            gap = before
        else:
            gap = after if last or isinstance(after, cst.ParenthesizedWhitespace) else before
        self.gaps[index : index + 2] = [gap]
        del self.items[index]
        if not self.items:
            self.gaps, self._trailing = [_NOTHING], False

    def break_before(self, index: int, margin: str) -> None:
        """Begin a new line before an item, where none begins there."""
        if 0 < index < len(self.items) and not isinstance(self.gaps[index], cst.ParenthesizedWhitespace):
            self.gaps[index] = self._line_break(margin)

    def _line_break(self, margin: str) -> Whitespace:
        """As the others are broken, or with this margin."""
        for gap in self.gaps[: len(self.items)]:
            if isinstance(gap, cst.ParenthesizedWhitespace):
                return _bare(gap)
        return cst.ParenthesizedWhitespace(indent=False, last_line=cst.SimpleWhitespace(margin))

    @property
    def head(self) -> Whitespace:
        """What is before the first item."""
        return self.gaps[0]

    @property
    def tail(self) -> Whitespace:
        """What is behind the last item, where that has no comma."""
        return self.gaps[-1] if self.items and not self._trailing else _NOTHING

    @property
    def written(self) -> list[WithComma]:
        """The items with their commas."""
        return [self._with_comma(index, item) for index, item in enumerate(self.items)]

    def _with_comma(self, index: int, item: WithComma) -> WithComma:
        if index == len(self.items) - 1 and not self._trailing:
            return item.with_changes(comma=cst.MaybeSentinel.DEFAULT)
        comma = item.comma if isinstance(item.comma, cst.Comma) else cst.Comma()
        return item.with_changes(comma=comma.with_changes(whitespace_after=self.gaps[index + 1]))


def _bare(gap: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    """The line break of a gap, without comments."""
    return gap.with_changes(first_line=_LINE_END, empty_lines=())
