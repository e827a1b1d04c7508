"""The tree of a file as it was executed: which node stands at a place, and what is around it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from gpudoctor.diagnostic import Location
from gpudoctor.lint.fix.changes import NoFix
from gpudoctor.lint.repair import repair
from gpudoctor.lint.source.file import SourceFile
from gpudoctor.lint.source.syntax_walk import nodes_of, parts_of, walk

Block = ast.For | ast.AsyncFor | ast.While | ast.If | ast.With | ast.AsyncWith | ast.FunctionDef | ast.ClassDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


class FileNodes:
    """The nodes of one file."""

    def __init__(self, source: SourceFile) -> None:
        self.source = source
        self.tree = source.tree
        self.parents: dict[ast.AST, ast.AST] = {}
        self._nodes: dict[tuple[int, int], list[ast.stmt | ast.expr]] = {}
        self._all: list[ast.AST] = [self.tree]
        """All nodes, those around others before these: to walk the tree takes longer than all else."""
        for node in self._all:
            children = parts_of(node)
            if children:
                self._all += children
                self.parents.update(dict.fromkeys(children, node))
            if isinstance(node, (ast.stmt, ast.expr)):
                self._nodes.setdefault(source.beginning(node), []).append(node)

    # --- by place ----------------------------------------------------------------------------------------------

    def expression(self, at: Location) -> ast.expr:
        """The expression that stands exactly here."""
        for node in self._beginning(at):
            if isinstance(node, ast.expr) and self.place(node) == at:
                return node
        raise NoFix(f"no expression at {at}")

    def call(self, at: Location) -> ast.Call:
        """The call that stands here; of a statement that is one, or keeps its result, that one."""
        for node in self._beginning(at):
            value = node.value if isinstance(node, (ast.Expr, ast.Assign, ast.Await)) else node
            if isinstance(value, ast.Call) and self.place(node) == at:
                return value
        raise NoFix(f"no call at {at}")

    def statement(self, at: Location) -> ast.stmt:
        """The innermost statement around a place, or the one whose header is there."""
        nodes = self._beginning(at)
        return next((each for each in nodes if isinstance(each, ast.stmt)), None) or self.statement_of(nodes[0])

    def node(self, at: Location) -> ast.AST:
        """What stands exactly here, or begins here."""
        nodes = self._beginning(at)
        return next((node for node in nodes if self.place(node) == at), nodes[0])

    def block(self, at: Location) -> Block:
        """The compound statement whose header begins here."""
        found = self.statement(at)
        if not isinstance(found, Block):
            raise NoFix(f"no block begins at {at}")
        return found

    def part(self, at: Location, part: str) -> ast.expr:
        """A part of what stands at a place, as `Source` names them."""
        if part in ("target", "owner", "value", "added"):
            return self._part_of_statement(at, part)
        if part in ("receiver", "named"):
            node = self.expression(at)
            node = node.func if isinstance(node, ast.Call) else node
            if not isinstance(node, (ast.Attribute, ast.Subscript)):
                raise NoFix("a function, not a method")
            if part == "named" and not _is_named(node.value):
                raise NoFix("no name: to ask for it again may give another one")
            return node.value
        if part == "left":
            return self._left(at)
        call = self.call(at)
        found = call.func if part == "function" else argument_of(call, part)
        if found is None:
            raise NoFix(f"no argument {part}")
        return found

    def _left(self, at: Location) -> ast.expr:
        node = self.expression(at)
        if not isinstance(node, ast.BinOp) or self.recomputes(self.statement_of(node)):
            raise NoFix("no operation that stands in another expression")
        return node.left

    def recomputes(self, statement: ast.stmt) -> bool:
        """It computes a name anew from what that held: `loss = loss / 4`, `loss /= 4`."""
        match statement:
            case ast.AugAssign():
                return True
            case ast.Assign([target], ast.BinOp(left)):
                return self.written(left) == self.written(target)
        return False

    def _part_of_statement(self, at: Location, part: str) -> ast.expr:
        found: ast.expr | None = None
        match part, self.statement(at):
            case "added", ast.Expr(ast.Call(args=[*_, last])):
                found = last
            case "added", ast.Assign([target], value):
                found = self._added(target, value)
            case "owner", ast.Assign([target]):
                found = target.value if isinstance(target, ast.Attribute) else None
            case "target", ast.AugAssign(target) | ast.Assign([target]):
                found = target
            case _, ast.AugAssign(value=value) | ast.Assign([_], value):
                found = value
        if found is None or (part == "added" and isinstance(found, (ast.Tuple, ast.List, ast.Dict))):
            raise NoFix(f"no {part} here")
        return found

    def _added(self, target: ast.expr, value: ast.expr) -> ast.expr | None:
        """`total = total + loss`: the operand that is not the target."""
        match value:
            case ast.BinOp(left, ast.Add(), right):
                others = [each for each in (left, right) if self.written(each) != self.written(target)]
                return others[0] if len(others) == 1 else None
        return None

    def _beginning(self, at: Location) -> Sequence[ast.stmt | ast.expr]:
        found = self._nodes.get((at.line, at.column), ())
        if not found:
            raise NoFix(f"nothing stands at {at}")
        return found

    # --- around a node -----------------------------------------------------------------------------------------

    def statement_of(self, node: ast.AST) -> ast.stmt:
        """The statement that a node is part of."""
        while not isinstance(node, ast.stmt):
            node = self.parents[node]
        return node

    def enclosing(self, node: ast.AST, *kinds: type[ast.AST]) -> Iterator[ast.AST]:
        """The nodes of these kinds around a node, innermost first."""
        while node in self.parents:
            node = self.parents[node]
            if isinstance(node, kinds):
                yield node

    def function_of(self, node: ast.AST) -> ast.AST:
        """The function around a node, or the module."""
        return next(self.enclosing(node, *_FUNCTIONS), self.tree)

    def outermost_test(self, at: Location) -> ast.stmt:
        """The outermost test around a place in its function."""
        tests = self._tests_around(self.statement(at))
        if not tests:
            raise NoFix("no test around it here")
        return tests[-1]

    def behind_tests(self, at: Location, until: Sequence[Location]) -> ast.stmt:
        """The outermost test around a place that ends before these places, or the statement itself."""
        statement = self.statement(at)
        lines = [each.line for each in until if each.path == at.path]
        tests = self._tests_around(statement)
        ended = (each for each in tests if not any(each.lineno <= line <= (each.end_lineno or 0) for line in lines))
        return [statement, *ended][-1]

    def _tests_around(self, statement: ast.stmt) -> list[ast.If]:
        function = self.function_of(statement)
        around = [each for each in self.enclosing(statement, ast.If) if self.function_of(each) is function]
        return [each for each in around if isinstance(each, ast.If) and not self.is_main_guard(each)]

    def last_around(self, at: Location) -> ast.stmt:
        """The last statement of the function around a place, or of what is done as the main program."""
        statement = self.statement(at)
        function = self.function_of(statement)
        if isinstance(function, ast.FunctionDef):
            return function.body[-1]
        guard = next((each for each in self.enclosing(statement, ast.If) if self.is_main_guard(each)), None)
        return guard.body[-1] if isinstance(guard, ast.If) else self.tree.body[-1]

    def anchor(self, step: repair.RepairStep) -> ast.stmt:
        """The statement whose surroundings a step is written in."""
        match step:
            case repair.Before(at=at, outside=True):
                return self.outermost_test(at)
            case repair.After(at=at, until=until) if until:
                return self.behind_tests(at, until)
            case repair.AtEnd(at=at):
                return self.last_around(at)
            case repair.First(at=at):
                return self.block(at).body[0]
            case repair.Last(at=at):
                return self.block(at).body[-1]
        return self.statement(step.at)

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
        for name in ("body", "orelse", "finalbody"):
            block = getattr(parent, name, ())
            if isinstance(block, list) and statement in block:
                return block
        raise NoFix("a statement in a block of its own kind")

    def is_elif(self, node: ast.AST) -> bool:
        """The statement is an `elif`: it cannot be parted from the `if` above."""
        if not isinstance(node, ast.If):
            return False
        at = self.place(node)
        return self.source.lines[at.line - 1].startswith("elif", at.column - 1)

    def is_main_guard(self, node: ast.AST) -> bool:
        """`if __name__ == "__main__":`."""
        return isinstance(node, ast.If) and any(each.id == "__name__" for each in nodes_of(ast.Name, node.test))

    # --- names and text ----------------------------------------------------------------------------------------

    @cached_property
    def guarded(self) -> frozenset[str]:
        """The names that are bound under the main guard, and so only in the main program."""
        bodies = (each.body for each in self.tree.body if isinstance(each, ast.If) and self.is_main_guard(each))
        return frozenset(name for body in bodies for statement in body for name in stored_in(statement))

    @cached_property
    def names(self) -> frozenset[str]:
        """All names that stand anywhere in the file."""
        found: set[str] = set()
        for node in self._all:
            match node:
                case ast.Name(name) | ast.arg(name):
                    found.add(name)
                case ast.FunctionDef(name) | ast.AsyncFunctionDef(name) | ast.ClassDef(name):
                    found.add(name)
                case ast.alias(name, asname):
                    found.add((asname or name).partition(".")[0])
        return frozenset(found)

    def quote_near(self, statement: ast.stmt) -> str:
        """The quotes that texts stand in: those of the statement itself, else those of most of the file."""
        return self._quotes_in(walk(statement)) or self._quote

    @cached_property
    def _quote(self) -> str:
        return self._quotes_in(self._all) or '"'

    def _quotes_in(self, nodes: Iterable[ast.AST]) -> str:
        """The more frequent quotes, or none where there are no texts."""
        texts = (each for each in nodes if isinstance(each, ast.Constant) and isinstance(each.value, str))
        found = [self.written(each)[:1] for each in texts]
        single, double = found.count("'"), found.count('"')
        return "" if single == double else "'" if single > double else '"'

    def place(self, node: ast.stmt | ast.expr) -> Location:
        """Where a node stands, decorators left out, its own brackets too where it is no tuple."""
        return self.source.location(node)

    def written(self, node: ast.stmt | ast.expr) -> str:
        """The text of a node as it stands there."""
        at = self.place(node)
        lines = self.source.lines[at.line - 1 : at.end_line]
        lines[-1] = lines[-1][: at.end_column - 1]
        lines[0] = lines[0][at.column - 1 :]
        return "\n".join(lines)


def argument_of(call: ast.Call, part: str) -> ast.expr | None:
    """The value of the argument with this name, or at this position: none where others are passed on before it."""
    if not part.isdigit():
        return next((each.value for each in call.keywords if each.arg == part), None)
    plain = call.args[: int(part) + 1]
    known = len(plain) > int(part) and not any(isinstance(each, ast.Starred) for each in plain)
    return plain[-1] if known else None


def _is_named(node: ast.expr) -> bool:
    """A name, or an attribute of one: what it is does not change by looking."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def stored_in(around: ast.AST) -> Iterator[str]:
    """The names that are assigned to anywhere in a node."""
    for node in walk(around):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
