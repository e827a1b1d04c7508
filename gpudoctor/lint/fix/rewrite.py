"""Changes applied to the concrete syntax tree of a file with libcst, which keeps all that nobody asked to change.

Loaded only where an edit is written: that takes as long as the lint of a script.
"""

from __future__ import annotations

import ast
import itertools
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from functools import lru_cache
from threading import get_ident
from typing import TypeVar

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from gpudoctor.diagnostic import Location
from gpudoctor.lint.fix import changes as ch
from gpudoctor.lint.fix.blocks import EmptyLines, Statement, changed_block, parted
from gpudoctor.lint.fix.commas import replaced, with_arguments, with_name
from gpudoctor.lint.fix.edits import TextSpan, differences
from gpudoctor.lint.source.process_state import no_warnings

Node = TypeVar("Node", bound=cst.CSTNode)
LineColumn = tuple[int, int]
"""Line and column, from 1."""
_LONG, _LONGEST = 100, 120
"""A line that grows beyond the first is broken, or beyond the second where the file has such lines anyway."""


def rewrite_of(text: str) -> FileRewrite | None:
    """A file's rewrite, kept for the other programs that share it; none where libcst does not read it as Python does:
    where it is newer, nested too deeply, or written as its checks do not expect: `[(x if a else b)for x in y]`."""
    # What is asked of it adds to what it knows, so that two threads do not share one.
    return _rewrite_in_thread(text, get_ident())


@lru_cache(maxsize=2)
def _rewrite_in_thread(text: str, _: int) -> FileRewrite | None:
    try:
        rewrite = FileRewrite(text)
    except (cst.ParserSyntaxError, cst.CSTValidationError, RecursionError):
        return None
    return rewrite if "".join(rewrite.pieces) == text else None


class FileRewrite:
    """One file, parsed once for all of its fixes. A fix takes as long as the statements at the top that it changes are:
    the others stay the same objects, of which the text is known."""

    def __init__(self, text: str) -> None:
        self._module = cst.parse_module(text)
        self.placed: dict[cst.CSTNode, tuple[LineColumn, LineColumn]] = {}
        """Where the nodes begin and end, of those statements at the top that were asked about."""
        self._beginning: dict[LineColumn, list[cst.CSTNode]] = {}
        self._codes: dict[cst.CSTNode, str] = {}
        self._codes = {each: self._code(each) for each in self._module.body}
        self.pieces = self._texts_of(self._module)
        counts = (each.count("\n") for each in self.pieces)
        self._first_lines = [*itertools.accumulate(counts, initial=1)][1:-2]
        self.lines = text.split("\n")
        longest = min(max(_LONG, *map(len, self.lines)), _LONGEST)
        self.room = [longest - len(line.partition("#")[0].rstrip()) for line in self.lines]
        """How many characters more each line may have."""

    def size(self, changes: Iterable[ch.TreeChange]) -> int:
        """How many characters there are to read and to write for some changes."""
        return sum(len(self.pieces[index + 1]) for index in self._touched(changes))

    def spans(self, changes: Sequence[ch.TreeChange]) -> list[TextSpan]:
        """The stretches of the text that differ once all changes are made, with what stands there instead."""
        _refuse_overlaps(changes)
        try:
            after = self._texts_of(self._changed(changes))
            known = set(self.pieces)
            # Whole statements with their lines: each can be read alone.
            with no_warnings():
                ast.parse("".join(each for each in after if each not in known))
        except (cst.ParserSyntaxError, cst.CSTValidationError, SyntaxError, ValueError, RecursionError) as error:
            raise ch.NoFix("it would not parse, or is nested too deeply") from error
        return differences(self.pieces, after)

    def _changed(self, changes: Sequence[ch.TreeChange]) -> cst.Module:
        visitor = _Changes(self, changes)
        touched = self._touched(changes)
        header, comments = _parted_header(self._module) if 0 in touched else (self._module.header, ())
        body: list[tuple[cst.CSTNode, cst.CSTNode]] = []
        for index, was in enumerate(self._module.body):
            now = was.visit(visitor) if index in touched else was
            assert isinstance(now, (cst.SimpleStatementLine, cst.BaseCompoundStatement))
            body.append((was, now.with_changes(leading_lines=comments) if comments and not index else now))
        statements, left = changed_block(body, visitor.of_lines, self.parsed)
        return self._module.with_changes(header=header, body=statements, footer=(*left, *self._module.footer))

    def _touched(self, changes: Iterable[ch.TreeChange]) -> set[int]:
        return {self._top(each.at.line) for each in changes}

    def _top(self, line: int) -> int:
        """The statement at the top around a line, by its number."""
        return max(bisect_right(self._first_lines, line) - 1, 0)

    def _texts_of(self, module: cst.Module) -> list[str]:
        """The text: what is above all statements, each of them, and what is below."""
        above, below = ("".join(map(self._code, lines)) for lines in (module.header, module.footer))
        pieces = [above, *map(self._code, module.body), below]
        if not module.has_trailing_newline:
            last = max((index for index, each in enumerate(pieces) if each), default=0)
            pieces[last] = pieces[last].removesuffix("\n")
        return pieces

    def _code(self, node: cst.CSTNode) -> str:
        return self._codes.get(node) or self._module.code_for_node(node)

    def _at(self, line: int, column: int) -> Sequence[cst.CSTNode]:
        """The nodes that begin at a point."""
        top = self._module.body[self._top(line)]
        if top not in self.placed:
            alone = self._module.with_changes(header=(), body=[top], footer=())
            above = self._first_lines[self._top(line)] - 1
            for node, each in MetadataWrapper(alone, unsafe_skip_copy=True).resolve(PositionProvider).items():
                start = each.start.line + above, each.start.column + 1
                self.placed[node] = start, (each.end.line + above, each.end.column + 1)
                self._beginning.setdefault(start, []).append(node)
        return self._beginning.get((line, column), ())

    def parsed(self, text: str) -> tuple[list[Statement], EmptyLines]:
        """New statements, and the empty lines behind them. A tab is one step of indentation."""
        module = cst.parse_module(text.replace("\t", self._module.default_indent), self._module.config_for_parsing)
        body = [_as_written(each, text) for each in module.body]
        body[0] = body[0].with_changes(leading_lines=(*module.header, *body[0].leading_lines))
        return body, tuple(cst.EmptyLine() for _ in range(len(text) - len(text.rstrip("\n"))))

    def expression(self, text: str) -> cst.BaseExpression:
        """A new expression."""
        return _as_written(cst.parse_expression(text, self._module.config_for_parsing), text)

    def statement_at(self, at: Location) -> cst.CSTNode:
        """The statement that begins at a place: a compound one, or a simple one without its line."""
        for node in self._at(at.line, at.column):
            if isinstance(node, (cst.BaseCompoundStatement, cst.BaseSmallStatement)):
                return node
        raise ch.NoFix(f"libcst sees no statement at {at}")

    def expression_at(self, at: Location) -> cst.CSTNode:
        """The expression that stands at a place."""
        # The brackets of a generator are a part of it, and none where libcst counts.
        for inside in (0, 1):
            for node in self._at(at.line, at.column + inside):
                end = (at.end_line, at.end_column - inside)
                if isinstance(node, cst.BaseExpression) and self.placed[node][1] == end:
                    return node
        raise ch.NoFix(f"libcst sees no expression at {at}")


class _Changes(cst.CSTTransformer):
    """Makes the changes of single nodes where these end, and those of statements where their block does."""

    def __init__(self, file: FileRewrite, changes: Sequence[ch.TreeChange]) -> None:
        super().__init__()
        self._file = file
        self._starts = {(each.at.line, each.at.column) for each in changes}
        self._of_nodes: dict[cst.CSTNode, list[ch.TreeChange]] = {}
        self.of_lines: dict[cst.CSTNode, list[ch.TreeChange]] = {}
        for change in changes:
            match change:
                case ch.NewExpression() | ch.NewArguments():
                    self._of_nodes.setdefault(file.expression_at(change.at), []).append(change)
                case ch.NewStatement() | ch.NewName() | ch.NewDecorator():
                    self._of_nodes.setdefault(file.statement_at(change.at), []).append(change)
                case _:
                    self.of_lines.setdefault(file.statement_at(change.at), []).append(change)
            if isinstance(change, ch.Moved):
                self.of_lines.setdefault(file.statement_at(change.before), []).append(change)

    def on_visit(self, node: cst.CSTNode) -> bool:
        # A block begins behind the decorators of its first statement.
        if isinstance(node, (cst.BaseCompoundStatement, cst.BaseSuite)):
            return True
        where = self._file.placed.get(node)
        return where is None or any(where[0] <= start < where[1] for start in self._starts)

    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        now = updated_node
        for change in self._of_nodes.get(original_node, ()):
            now = self._changed(change, original_node, now)
        if not self.of_lines:
            return now
        if isinstance(original_node, cst.IndentedBlock) and isinstance(now, cst.IndentedBlock):
            pairs = zip(original_node.body, now.body, strict=True)
            body, left = changed_block(pairs, self.of_lines, self._file.parsed)
            return now.with_changes(body=body, footer=(*left, *now.footer))
        if isinstance(original_node, cst.SimpleStatementSuite) and any(
            each in self.of_lines for each in original_node.body
        ):
            body, left = changed_block([(original_node, now)], self.of_lines, self._file.parsed)
            return cst.IndentedBlock(body, footer=left)
        return now

    def _changed(self, change: ch.TreeChange, was: cst.CSTNode, now: cst.CSTNode) -> cst.CSTNode:
        match change, now:
            case ch.NewExpression(), cst.BaseExpression():
                return replaced(now, self._file.expression(change.text))
            case ch.NewStatement(), cst.BaseSmallStatement():
                (line,), _ = self._file.parsed(change.text)
                assert isinstance(line, cst.SimpleStatementLine)
                return line.body[0].with_changes(semicolon=now.semicolon)
            case ch.NewDecorator(), cst.FunctionDef():
                decorator = cst.Decorator(self._file.expression(change.text))
                return now.with_changes(decorators=(*now.decorators, decorator))
            case ch.NewName(), cst.ImportFrom():
                return with_name(now, change.name)
            case ch.NewArguments(), cst.Call():
                assert isinstance(was, cst.Call)
                return with_arguments(change, was, now, self._file)
        raise ch.NoFix("libcst sees something else there")


def _parted_header(module: cst.Module) -> tuple[EmptyLines, EmptyLines]:
    """The lines above all statements, and those of them that belong to the first one."""
    above, comments = parted(module.header)
    # What stands at the very top speaks of the file, to the shell and to Python, too.
    return (above, comments) if above else (tuple(module.header), ())


def _refuse_overlaps(changes: Sequence[ch.TreeChange]) -> None:
    """Nothing is changed in what goes."""
    gone = [each.at for each in changes if isinstance(each, (ch.NewExpression, ch.NewStatement))]
    for each in changes:
        if isinstance(each, ch.NewArguments):
            gone += [*(place for place, _ in each.values), *each.removed]
    inner = [each.at for each in changes if isinstance(each, (ch.NewExpression, ch.NewArguments))]
    for outer in gone:
        if sum(ch.is_within(each, outer) for each in inner) > (outer in inner):
            raise ch.NoFix("its steps are in each other's way")


def _as_written(node: Node, text: str) -> Node:
    """New code of which lines inside of brackets keep the indentation that they had where they come from."""
    found = node.visit(_KeepIndentation()) if "\n" in text else node
    assert isinstance(found, type(node))
    return found


class _KeepIndentation(cst.CSTTransformer):
    def on_leave(self, original_node: cst.CSTNode, updated_node: cst.CSTNode) -> cst.CSTNode:  # type: ignore[override]
        if not isinstance(updated_node, cst.ParenthesizedWhitespace):
            return updated_node
        lines = [each.with_changes(indent=False) for each in updated_node.empty_lines]
        return updated_node.with_changes(indent=False, empty_lines=lines)
