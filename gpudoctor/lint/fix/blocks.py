"""Blocks of statements, as libcst has them: lines put between, taken away, moved, and put under a header.

Several statements on one line, and those behind the colon of `if x:`, get lines of their own where one of them changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import libcst as cst

from gpudoctor.lint.fix import changes as ch

EmptyLines = tuple[cst.EmptyLine, ...]
Statement = cst.SimpleStatementLine | cst.BaseCompoundStatement
Parse = Callable[[str], tuple[list[Statement], EmptyLines]]
"""From text to statements, and the empty lines behind them."""
ToDo = Mapping[cst.CSTNode, Sequence[ch.TreeChange]]
"""The changes of a statement, by the node that it was."""


class _LineOfStatements(NamedTuple):
    """A statement with a line of its own, or several that share one and stay as they are, and its changes."""

    statement: Statement
    changes: Sequence[ch.TreeChange] = ()


def changed_block(
    body: Iterable[tuple[cst.CSTNode, cst.CSTNode]], todo: ToDo, parse: Parse
) -> tuple[list[Statement], EmptyLines]:
    """The statements of a block, given as they were and as they are, after their changes, and the empty lines left at
    its end."""
    lines = [line for was, now in body for line in _lines_of(was, now, todo)]
    block = _BlockBuilder(lines, parse)
    for line in lines:
        if line.changes or block.left:
            block.add(line)
        else:
            block.done.append(line.statement)
    return block.done, block.left


class _BlockBuilder:
    """A block that is put together, statement by statement."""

    def __init__(self, lines: Sequence[_LineOfStatements], parse: Parse) -> None:
        self.done: list[Statement] = []
        self.left: EmptyLines = ()
        """Empty lines and comments that stand above what comes next."""
        self._below_removed = False
        self._alone = len(lines) == 1
        self._parse = parse
        # Of the two that a move is about the lower one moves.
        self._moving = {each: line.statement for line in lines for each in line.changes if isinstance(each, ch.Moved)}

    def add(self, line: _LineOfStatements) -> None:
        """Put a statement at the end, with what stands beside it."""
        statement, changes = line
        leading = self._leading(statement)
        if any(isinstance(each, ch.Removed) for each in changes):
            if not self._alone:
                self.left, self._below_removed = leading, True
                return
            statement = statement.with_changes(body=[cst.Pass()])
        for change in changes:
            if isinstance(change, ch.Moved):
                moving = self._moving[change]
                above, comments = parted(leading)
                if moving is statement:
                    self.left = above
                    return
                self._put([moving], (*above, *parted(moving.leading_lines)[1]))
                leading = comments
            elif isinstance(change, ch.NewHeader):
                *first, around = self._parse(f"{change.header}\n\tpass")[0]
                inside = cst.IndentedBlock([statement.with_changes(leading_lines=())])
                statement = around.with_changes(body=inside)
                if first:
                    self._put(first, leading)
                    leading = ()
            elif isinstance(change, ch.NewLines) and change.where is not ch.Where.AFTER:
                above, comments = parted(leading) if change.where is ch.Where.BEFORE else ((), leading)
                leading = (*self._put_new(change, above), *comments)
        self._put([statement], leading)
        for change in changes:
            if isinstance(change, ch.NewLines) and change.where is ch.Where.AFTER:
                self.left = self._put_new(change, self.left)

    def _leading(self, statement: Statement) -> EmptyLines:
        """The lines above a statement, with those that were left."""
        own = statement.leading_lines
        # Of two blank lines around what goes one is enough.
        spare = self._below_removed and _is_blank(self.left[-1:]) and _is_blank(own[:1])
        left, self.left, self._below_removed = self.left, (), False
        return (*left, *own[int(spare) :])

    def _put_new(self, change: ch.NewLines, leading: EmptyLines) -> EmptyLines:
        statements, behind = self._parse("\n".join(change.lines))
        self._put(statements, (*leading, *statements[0].leading_lines))
        return behind

    def _put(self, statements: Sequence[Statement], leading: EmptyLines) -> None:
        self.done += [statements[0].with_changes(leading_lines=leading), *statements[1:]]


def _lines_of(was: cst.CSTNode, now: cst.CSTNode, todo: ToDo) -> Iterator[_LineOfStatements]:
    """The statements of a line, each with its own where one of them has changes."""
    if not isinstance(was, (cst.SimpleStatementLine, cst.SimpleStatementSuite)):
        assert isinstance(now, cst.BaseCompoundStatement)
        yield _LineOfStatements(now, todo.get(was, ()))
        return
    assert isinstance(now, (cst.SimpleStatementLine, cst.SimpleStatementSuite))
    if isinstance(now, cst.SimpleStatementLine) and todo.keys().isdisjoint(was.body):
        yield _LineOfStatements(now)
        return
    leading = now.leading_lines if isinstance(now, cst.SimpleStatementLine) else ()
    for before, small in zip(was.body, now.body, strict=True):
        last = before is was.body[-1]
        end = now.trailing_whitespace if last else cst.TrailingWhitespace()
        bare = small.with_changes(semicolon=cst.MaybeSentinel.DEFAULT)
        yield _LineOfStatements(cst.SimpleStatementLine([bare], leading, end), todo.get(before, ()))
        leading = ()


def parted(leading: Sequence[cst.EmptyLine]) -> tuple[EmptyLines, EmptyLines]:
    """The lines above a statement, and of these the comments that belong to it."""
    own = len(leading)
    while own and leading[own - 1].comment is not None and leading[own - 1].indent:
        own -= 1
    return tuple(leading[:own]), tuple(leading[own:])


def _is_blank(lines: Sequence[cst.EmptyLine]) -> bool:
    return bool(lines) and lines[0].comment is None
