"""A file as text and tree together: which node stands at a place, what is around it, and how it is laid out."""

from __future__ import annotations

import ast
import io
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Location

if TYPE_CHECKING:
    from gpudoctor.lint.source.file import SourceFile

Block = ast.For | ast.AsyncFor | ast.While | ast.If | ast.With | ast.AsyncWith | ast.FunctionDef | ast.ClassDef
_WITH_PLACE = (ast.stmt, ast.expr)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class NoFix(Exception):
    """The repair cannot be written well in this program."""


class Syntax:
    """One file, for those who change it. Offsets count characters of its text from 0."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.text = source.text
        self.tree = source.tree
        self._starts = [0]
        for line in source.lines:
            self._starts.append(self._starts[-1] + len(line) + 1)
        self.parents: dict[ast.AST, ast.AST] = {}
        self._nodes: dict[tuple[int, int], list[ast.AST]] = {}
        self._all: list[ast.AST] = [self.tree]
        """All nodes, those around others before these: to walk the tree takes longer than all else."""
        for node in self._all:
            children = [*ast.iter_child_nodes(node)]
            self._all += children
            self.parents.update(dict.fromkeys(children, node))
            if isinstance(node, _WITH_PLACE):
                at = source.location(node)
                self._nodes.setdefault((at.line, at.column), []).append(node)

    # --- nodes -------------------------------------------------------------------------------------------------

    def expression(self, at: Location) -> ast.expr:
        """The expression that stands exactly here."""
        found = [node for node in self._nodes.get((at.line, at.column), ()) if isinstance(node, ast.expr)]
        exact = [node for node in found if self.place(node) == at]
        if not exact:
            raise NoFix(f"no expression at {at}")
        return exact[0]

    def call(self, at: Location) -> ast.Call:
        """The call that stands here; of a statement that is one, or keeps its result, that one."""
        found = [node for node in self._nodes.get((at.line, at.column), ()) if self.place(node) == at]
        for node in found:
            value = getattr(node, "value", node) if isinstance(node, (ast.Expr, ast.Assign, ast.Await)) else node
            if isinstance(value, ast.Call):
                return value
        raise NoFix(f"no call at {at}")

    def statement(self, at: Location) -> ast.stmt:
        """The innermost statement around a place, or the one whose header is there."""
        candidates = [node for node in self._nodes.get((at.line, at.column), ()) if isinstance(node, ast.stmt)]
        if candidates:
            return candidates[0]
        nodes = self._nodes.get((at.line, at.column), ())
        if not nodes:
            raise NoFix(f"nothing stands at {at}")
        return self.statement_of(nodes[0])

    def node(self, at: Location) -> ast.AST:
        """What stands exactly here, or begins here."""
        nodes = self._nodes.get((at.line, at.column), ())
        exact = [node for node in nodes if self.place(node) == at]
        if not nodes:
            raise NoFix(f"nothing stands at {at}")
        return (exact or nodes)[0]

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The statement that a node is part of."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def block(self, at: Location) -> Block:
        """The compound statement whose header begins here."""
        found = self.statement(at)
        if not isinstance(found, Block):
            raise NoFix(f"no block begins at {at}")
        return found

    def enclosing(self, node: ast.AST, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """The nodes of these kinds around a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, kinds):
                yield node

    def function_of(self, node: ast.AST) -> ast.AST:
        """The function around a node, or the module."""
        return next(self.enclosing(node, *_FUNCTIONS), self.tree)

    @cached_property
    def first_returns(self) -> dict[ast.AST, int]:
        """The line of the first `return` of each function that has one."""
        lines: dict[ast.AST, int] = {}
        for node in self._all:
            if isinstance(node, ast.Return):
                function = self.function_of(node)
                lines[function] = min(node.lineno, lines.get(function, node.lineno))
        return lines

    def siblings(self, statement: ast.stmt) -> Sequence[ast.stmt]:
        """The block in which a statement stands, in order."""
        parent = self.parents[statement]
        for name in ("body", "orelse", "finalbody", "handlers"):
            block = getattr(parent, name, ())
            if isinstance(block, list) and statement in block:
                return block
        raise NoFix("a statement in a block of its own kind")

    def is_main_guard(self, node: ast.AST) -> bool:
        """`if __name__ == "__main__":`."""
        return isinstance(node, ast.If) and any(
            isinstance(each, ast.Name) and each.id == "__name__" for each in ast.walk(node.test)
        )

    @cached_property
    def guarded(self) -> frozenset[str]:
        """The names that are bound under the main guard, and so only in the main program."""
        bodies = (each.body for each in self.tree.body if isinstance(each, ast.If) and self.is_main_guard(each))
        nodes = (node for body in bodies for statement in body for node in ast.walk(statement))
        return frozenset(node.id for node in nodes if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store))

    def quote_near(self, statement: ast.stmt) -> str:
        """The quotes that texts stand in: those of the statement itself, else those of most of the file."""
        return self._quotes_in(ast.walk(statement)) or self._quote

    @cached_property
    def _quote(self) -> str:
        return self._quotes_in(self._all) or '"'

    def _quotes_in(self, nodes: Iterable[ast.AST]) -> str:
        """The more frequent quotes, or none where there are no texts."""
        texts = (each for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str))
        found = [self.text[self.span(each)[0]] for each in texts]
        single, double = found.count("'"), found.count('"')
        return "" if single == double else "'" if single > double else '"'

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that stand anywhere in the file."""
        found: set[str] = set()
        for node in self._all:
            if isinstance(node, ast.Name):
                found.add(node.id)
            elif isinstance(node, ast.arg):
                found.add(node.arg)
            elif isinstance(node, ast.alias):
                found.add((node.asname or node.name).partition(".")[0])
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                found.add(node.name)
        return frozenset(found)

    # --- text --------------------------------------------------------------------------------------------------

    def place(self, node: ast.AST) -> Location:
        return self.source.location(node)  # type: ignore[arg-type]

    def offset(self, line: int, column: int) -> int:
        """The offset of a place, line and column from 1."""
        return self._starts[line - 1] + column - 1

    def span(self, node: ast.AST) -> tuple[int, int]:
        """From where to where a node stands, decorators left out, its own brackets too where it is no tuple."""
        at = self.place(node)
        return self.offset(at.line, at.column), self.offset(at.end_line, at.end_column)

    def written(self, node: ast.AST) -> str:
        """The text of a node as it stands there."""
        start, end = self.span(node)
        return self.text[start:end]

    def location(self, start: int, end: int) -> Location:
        """The place of a stretch of text."""
        return Location(self.source.shown, *self._point(start), *self._point(end))

    def _point(self, offset: int) -> tuple[int, int]:
        line = self.text.count("\n", 0, offset) + 1
        return line, offset - self._starts[line - 1] + 1

    def line_start(self, offset: int) -> int:
        return self.text.rfind("\n", 0, offset) + 1

    def line_end(self, offset: int) -> int:
        """Where the line of this offset ends, before its line break."""
        end = self.text.find("\n", offset)
        return len(self.text) if end < 0 else end

    def indent(self, statement: ast.stmt) -> str:
        """What stands before a statement on its line; the line must be all its own."""
        start = self.start(statement)
        before = self.text[self.line_start(start) : start]
        if before.strip():
            raise NoFix("several statements on one line")
        return before

    def start(self, statement: ast.stmt) -> int:
        """Where a statement begins, with its decorators."""
        start = self.span(statement)[0]
        decorators = getattr(statement, "decorator_list", None)
        return self.text.rfind("@", 0, self.span(decorators[0])[0]) if decorators else start

    def end_of_lines(self, statement: ast.stmt) -> int:
        """The end of the last line of a statement, with the comment that ends it."""
        end = self.span(statement)[1]
        rest = self.text[end : self.line_end(end)].strip()
        if rest and not rest.startswith("#"):
            raise NoFix("several statements on one line")
        return self.line_end(end)

    @cached_property
    def strings(self) -> frozenset[int]:
        """The lines that begin inside of a string: their indentation is content."""
        # Imported late: most fixes ask nothing of the kind.
        import tokenize

        lines: set[int] = set()
        starts: list[int] = []
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            kind = tokenize.tok_name[token.type]
            if kind == "STRING":
                lines.update(range(token.start[0] + 1, token.end[0] + 1))
            elif kind.endswith("STRING_START"):
                starts.append(token.start[0])
            elif kind.endswith("STRING_END"):
                lines.update(range(starts.pop() + 1, token.end[0] + 1))
        return frozenset(lines)

    @cached_property
    def unit(self) -> str:
        """One step of indentation, as most of the file has it."""
        for node in self._all:
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body and body[0].lineno > node.lineno:
                outer, inner = self.source.lines[node.lineno - 1], self.source.lines[body[0].lineno - 1]
                deep, flat = (line[: len(line) - len(line.lstrip())] for line in (inner, outer))
                if deep.startswith(flat) and deep != flat:
                    return deep[len(flat) :]
        return "    "
