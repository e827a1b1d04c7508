"""The code of a repair as text: the program's names for values, imports, and what the user wrote elsewhere."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import Const, Unknown, Value, Values
from gpudoctor.lint.fix.changes import NewExpression, NoFix, TreeChange
from gpudoctor.lint.fix.import_lines import bound_around, called
from gpudoctor.lint.fix.nodes import FileNodes, stored_in
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.repair.repair import Always, CallAgain, Code, Counter, Either, Fresh, Holds, Imported, Part, Source
from gpudoctor.lint.source.syntax_walk import nodes_of
from gpudoctor.record import dataclass, field

Visits = Sequence[dict[str, Values]]
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.List, ast.Dict, ast.Tuple)
_TESTS = (ast.If, ast.IfExp, ast.BoolOp, ast.Try, ast.ExceptHandler, ast.Match)
_USUAL_COUNTER = "epoch"


@dataclass(frozen=True)
class Sight:
    """What names hold before and after statements, by the places of these."""

    before: Mapping[Location, Visits] = field(default_factory=dict)
    after: Mapping[Location, Visits] = field(default_factory=dict)


class Renderer:
    """Renders code in the words of one file, as they are in sight of a statement."""

    def __init__(self, nodes: FileNodes, sight: Sight, file_of: Callable[[str], FileNodes]) -> None:
        self.nodes = nodes
        self.sight = sight
        self._file_of = file_of
        self.changes: list[TreeChange] = []
        """What the code needs elsewhere in the file: imports, and a name for a counter that has none."""

    def text(self, code: Code, at: ast.stmt, *, after: bool = False) -> str:
        """The code in the words of the file, as they stand before or after a statement."""
        texts = [self._part(part, at, after) for part in code]
        for index, part in enumerate(code[:-1]):
            if isinstance(part, Source) and texts[index + 1].startswith((".", "[")) and self._is_loose(part):
                texts[index] = f"({texts[index]})"
            # `nn.ModuleList([])` says no more than `nn.ModuleList()`.
            if texts[index] in ("[]", "{}") and texts[index + 1] == ")" and texts[index - 1] == "(":
                texts[index] = ""
        return "".join(texts)

    def holds(self, name: str, value: Value, at: ast.stmt) -> bool:
        """The name surely holds the value before a statement, at some time."""
        visits = self.sight.before.get(self.nodes.place(at), ())
        return any(name in visit and visit[name].single == value for visit in visits)

    def _part(self, part: Part, at: ast.stmt, after: bool) -> str:
        match part:
            case str():
                return part.replace('"', self.nodes.quote_near(at))
            case Always():
                return self._always(part)
            case Fresh():
                return self._fresh(part, at)
            case Holds():
                return self._name_of(part, at, after)
            case Imported():
                text, changes = called(part.name, at, self.nodes)
                self.changes += changes
                return text
            case Counter():
                return self._counter(part.loop)
            case Source():
                return self.nodes.written(self.node(part))
            case CallAgain():
                return self._call_again(part, at, after)
            case Either():
                return self._first(part, at, after)

    def _name_of(self, part: Holds, at: ast.stmt, after: bool) -> str:
        book = self.sight.after if after else self.sight.before
        names = _names_of(part.value, book.get(self.nodes.place(at), ()))
        names = [name for name in names if not self._only_in_main(name, at) and name in (part.within or name)]
        return (self._given_by(at, names) if after else "") or _nearest(names, part.value)

    def _call_again(self, part: CallAgain, at: ast.stmt, after: bool) -> str:
        call = self.nodes.call(part.at)
        first = self.text(part.first, at, after=after)
        # What is given by position behind the first has no name here.
        if len(call.args) > 1 or any(isinstance(each, ast.Starred) for each in call.args):
            raise NoFix("arguments are passed on")
        more = [each for each in call.keywords if each.arg is None or each.arg in part.keeps]
        changing = set(stored_in(at))
        if any(node.id in changing for each in more for node in nodes_of(ast.Name, each)):
            raise NoFix("it is given what changes with each iteration")
        written = [(f"{each.arg}=" if each.arg else "**") + self.nodes.written(each.value) for each in more]
        return f"{self.nodes.written(call.func)}({', '.join([first, *written])})"

    def _only_in_main(self, name: str, at: ast.stmt) -> bool:
        """The name is bound under the main guard: a function has it only as long as nobody imports the file."""
        root = name.partition(".")[0].partition("[")[0]
        return (
            root in self.nodes.guarded
            and root not in bound_around(at, self.nodes)
            and (self.nodes.function_of(at) is not self.nodes.tree)
        )

    def _given_by(self, statement: ast.stmt, names: list[str]) -> str:
        """The name that a statement gives to the value, of those that it has afterwards: the one that is used later."""
        targets = statement.targets if isinstance(statement, ast.Assign) else []
        return next((text for each in targets if (text := self.nodes.written(each)) in names), "")

    def _always(self, part: Always) -> str:
        nodes = self._file_of(part.at.path)
        found = nodes.node(part.at)
        function = nodes.function_of(found)
        # Who returns before never comes there.
        if nodes.first_returns.get(function, part.at.line) < part.at.line:
            raise NoFix("only on some paths")
        for each in nodes.enclosing(found, ast.AST):
            if each is function:
                break
            if isinstance(each, _TESTS) and not nodes.is_main_guard(each):
                raise NoFix("only on some paths")
        return ""

    def _fresh(self, part: Fresh, at: ast.stmt) -> str:
        here, there = self.nodes.function_of(at), self.nodes.function_of(self.nodes.statement(part.bound))
        known = here is there or there is self.nodes.tree
        if part.name in self.nodes.names or not known or part.bound.path != self.nodes.source.shown:
            raise NoFix(f"`{part.name}` means something else, or is not known here")
        return part.name

    def _first(self, part: Either, at: ast.stmt, after: bool) -> str:
        for choice in part.choices:
            before = len(self.changes)
            try:
                return self.text(choice, at, after=after)
            except NoFix:
                del self.changes[before:]
        raise NoFix("none of the ways to say it is open here")

    def node(self, source: Source) -> ast.expr:
        """The expression that a `Source` means."""
        found = self.nodes.part(source.at, source.part) if source.part else self.nodes.expression(source.at)
        if source.named and not isinstance(found, (ast.Name, ast.Attribute)):
            raise NoFix("it has no name")
        return found

    def _is_loose(self, part: Source) -> bool:
        return not isinstance(self.node(part), _ATOMS)

    def _counter(self, loop: Location) -> str:
        block = self.nodes.block(loop)
        visits = self.sight.before.get(self.nodes.place(block.body[0]), ())
        names = _targets(block)
        found = [name for name in names if visits and all(_counts(visit.get(name)) for visit in visits)]
        if not found:
            raise NoFix("nothing counts the iterations")
        if found[0].startswith("_"):
            return self._named(block)
        return found[0]

    def _named(self, block: ast.stmt) -> str:
        """`for _ in range(epochs)`: the number that nobody has used so far gets a name."""
        target = getattr(block, "target", None)
        used = {node.id for node in nodes_of(ast.Name, block) if isinstance(node.ctx, ast.Load)}
        if not isinstance(target, ast.Name) or target.id in used or _USUAL_COUNTER in self.nodes.names:
            raise NoFix("the counter has no name")
        self.changes.append(NewExpression(self.nodes.place(target), _USUAL_COUNTER))
        return _USUAL_COUNTER


def _names_of(value: Value, visits: Visits) -> list[str]:
    """The names that surely hold a value, whenever the program comes by with it."""
    with_it = [found for visit in visits if (found := [name for name, held in visit.items() if held.single == value])]
    # A function may be called for other things, too; what is written must fit those as well.
    return [
        name
        for name in (with_it[0] if with_it else ())
        if all(name in found for found in with_it) and all(_is_of_kind(visit.get(name), value) for visit in visits)
    ]


def _nearest(names: list[str], value: Value) -> str:
    """The one of several names that a reader would take."""
    if not names:
        raise NoFix(f"nothing holds {value!r} here")
    if value.label in names:
        return value.label
    # The shortest way, and of those the nearest.
    return min(reversed(names), key=lambda name: name.count(".") + name.count("[") + name.startswith("_"))


def _is_of_kind(held: Values | None, value: Value) -> bool:
    return held is not None and held.all(lambda each: type(each) is type(value))


def _targets(block: ast.stmt) -> list[str]:
    """The names that may count a loop's rounds."""
    if isinstance(block, (ast.For, ast.AsyncFor)):
        return [node.id for node in nodes_of(ast.Name, block.target)]
    counted = (node.target for node in nodes_of(ast.AugAssign, block))
    return [target.id for target in counted if isinstance(target, ast.Name)]


def _counts(held: Values | None) -> bool:
    return held is not None and bool(held.bindings) and held.all(_is_number)


def _is_number(value: Value) -> bool:
    if isinstance(value, Const):
        return isinstance(value.value, int) and not isinstance(value.value, bool)
    return isinstance(value, Unknown) and bool(value.divergence & Divergence.BATCH_INDEX)
