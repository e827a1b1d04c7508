"""What each step of a repair does to the text of a file."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpudoctor.lint.domain.value import Const, Value
from gpudoctor.lint.fix.arguments import find, remove_arguments, set_argument, set_arguments
from gpudoctor.lint.fix.classes import super_first
from gpudoctor.lint.fix.syntax import NoFix
from gpudoctor.lint.fix.writing import part_of
from gpudoctor.lint.repair.repair import (
    After,
    Assign,
    AtEnd,
    Before,
    Code,
    Decorate,
    Delete,
    First,
    Last,
    MakeTuple,
    MoveUp,
    RemoveArgument,
    Replace,
    Rewrite,
    SetArgument,
    SetArguments,
    Step,
    Substitute,
    SuperFirst,
    Unassign,
    Under,
)

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Location
    from gpudoctor.lint.fix.imports import Change
    from gpudoctor.lint.fix.syntax import Syntax
    from gpudoctor.lint.fix.writing import Writer


def place_of(step: Step) -> Location:
    """Where a step is made; one is made in one file."""
    match step:
        case SetArgument() | SetArguments() | RemoveArgument():
            return step.call
        case First() | Last():
            return step.block
    return step.at


def anchor(step: Step, syntax: Syntax) -> ast.stmt:
    """The statement whose surroundings a step is written in."""
    match step:
        case Before(at=at, outside=True):
            return _outside(at, syntax)
        case AtEnd(at=at):
            return _last_around(at, syntax)
        case First(block=at):
            return syntax.block(at).body[0]
        case Last(block=at):
            return syntax.block(at).body[-1]
    return syntax.statement(place_of(step))


def changes_of(step: Step, writer: Writer) -> list[Change]:
    """The changes to the text that a step is."""
    return _MAKERS[type(step)](step, writer)


def _set_argument(step: SetArgument, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    text = writer.write(step.to, syntax.statement(step.call))
    _refuse_settings(syntax.call(step.call), step)
    return set_argument(syntax, syntax.call(step.call), step.name, step.position, text)


def _set_arguments(step: SetArguments, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement = syntax.statement(step.call)
    given = [(each.name, each.position, writer.write(each.to, statement)) for each in step.arguments]
    for each in step.arguments:
        _refuse_settings(syntax.call(step.call), each)
    return set_arguments(syntax, syntax.call(step.call), given)


def _refuse_settings(call: ast.Call, step: SetArgument) -> None:
    given = find(call, step.name, step.position) if step.over_plain else None
    value = given.value if isinstance(given, ast.keyword) else given
    if value is not None and not isinstance(value, ast.Constant):
        raise NoFix("it is chosen elsewhere")


def _remove_argument(step: RemoveArgument, writer: Writer) -> list[Change]:
    if step.if_given and find(writer.syntax.call(step.call), step.name, step.position) is None:
        return []
    names = ((step.name, step.position), *step.also)
    return remove_arguments(writer.syntax, writer.syntax.call(step.call), names)


def _before(step: Before, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement = _outside(step.at, syntax) if step.outside else syntax.statement(step.at)
    indent = syntax.indent(statement)
    at = syntax.line_start(syntax.start(statement))
    if syntax.text[syntax.start(statement) :].startswith("elif"):
        raise NoFix("before an `elif`")
    # A comment above belongs to the statement.
    while at and _is_comment(syntax.text[syntax.line_start(at - 1) : at], indent):
        at = syntax.line_start(at - 1)
    return [(at, at, _lines(step.lines, statement, indent, writer))]


def _outside(at: Location, syntax: Syntax) -> ast.stmt:
    """The outermost test around a place in its function."""
    statement = syntax.statement(at)
    function = syntax.function_of(statement)
    around = [each for each in syntax.enclosing(statement, ast.If) if syntax.function_of(each) is function]
    tests = [each for each in around if isinstance(each, ast.If) and not syntax.is_main_guard(each)]
    if not tests:
        raise NoFix("no test around it here")
    return tests[-1]


def _after(step: After, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement = syntax.statement(step.at)
    return _at_end(statement, step.lines, statement, writer)


def _first(step: First, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    block = syntax.block(step.block)
    body = block.body
    statement = body[0]
    indent = syntax.indent(statement)
    page = isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)
    if page and isinstance(block, (ast.FunctionDef, ast.ClassDef)):
        return _at_end(statement, step.lines, body[min(1, len(body) - 1)], writer)
    at = syntax.line_start(syntax.start(statement))
    # Right below the header: comments there speak of what follows.
    while _is_comment(syntax.text[syntax.line_start(at - 1) : at], None):
        at = syntax.line_start(at - 1)
    return [(at, at, _lines(step.lines, statement, indent, writer))]


def _last(step: Last, writer: Writer) -> list[Change]:
    statement = writer.syntax.block(step.block).body[-1]
    return _at_end(statement, step.lines, statement, writer)


def _at_end(statement: ast.stmt, lines: tuple[Code, ...], seen_from: ast.stmt, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    indent, at = syntax.indent(statement), syntax.end_of_lines(statement)
    text = _lines(lines, seen_from, indent, writer, after=seen_from is statement)
    return [(at, at, "\n" + text.removesuffix("\n"))]


def _lines(lines: tuple[Code, ...], at: ast.stmt, indent: str, writer: Writer, *, after: bool = False) -> str:
    found = []
    for line in lines:
        text = writer.write(line, at, after=after).replace("\t", writer.syntax.unit).replace("\n", f"\n{indent}")
        found.append(f"{indent}{text}\n" if text else "\n")
    return "".join(found)


def _is_comment(line: str, indent: str | None) -> bool:
    """The line is a comment with this indentation; with any, or blank, where none is given."""
    if indent is None:
        return not line.strip() or line.lstrip().startswith("#")
    return line.startswith(f"{indent}#")


def _replace(step: Replace, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    node = part_of(syntax, step.at, step.part) if step.part else syntax.expression(step.at)
    if step.constant and not isinstance(node, ast.Constant):
        raise NoFix("it is not written out there")
    return [(*syntax.span(node), writer.write(step.to, syntax.statement_of(node)))]


def _substitute(step: Substitute, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    whole = syntax.expression(step.at)
    statement = syntax.statement_of(whole)
    changes: list[Change] = []
    todo: list[ast.AST] = [whole]
    while todo:
        node = todo.pop()
        if _means(node, step.value, writer, statement):
            changes.append((*syntax.span(node), writer.write(step.to, statement)))
        else:
            todo += ast.iter_child_nodes(node)
    return changes


def _means(node: ast.AST, value: Value, writer: Writer, at: ast.stmt) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(value, Const) and type(node.value) is type(value.value) and node.value == value.value
    if not isinstance(node, (ast.Name, ast.Attribute)) or isinstance(value, Const):
        return False
    return writer.holds(writer.syntax.written(node), value, at)


def _assign(step: Assign, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement = syntax.statement(step.at)
    if not isinstance(statement, ast.Expr):
        raise NoFix("its value is used already")
    start, target = syntax.span(statement)[0], writer.write(step.to, statement)
    if not _is_used_later(target, statement, syntax):
        raise NoFix("nobody would see the new value")
    return [(start, start, f"{target} = ")]


def _is_used_later(target: str, statement: ast.stmt, syntax: Syntax) -> bool:
    """The target can be assigned to, and a plain name is read afterwards: that of a `for` is given anew each time."""
    if not target.isidentifier():
        return isinstance(ast.parse(target, mode="eval").body, (ast.Attribute, ast.Subscript))
    loops = (each for each in syntax.enclosing(statement, ast.For, ast.AsyncFor))
    around = next((each for each in loops if target in _bound_by(each)), syntax.function_of(statement))
    reads = (each for each in ast.walk(around) if isinstance(each, ast.Name) and each.id == target)
    return any(each.lineno > statement.lineno and isinstance(each.ctx, ast.Load) for each in reads)


def _bound_by(loop: ast.AST) -> set[str]:
    target = loop.target if isinstance(loop, (ast.For, ast.AsyncFor)) else loop
    return {each.id for each in ast.walk(target) if isinstance(each, ast.Name)}


def _rewrite(step: Rewrite, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement = syntax.statement(step.at)
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
        raise NoFix("no plain assignment")
    return [(*syntax.span(statement), writer.write(step.to, statement))]


def _unassign(step: Unassign, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    call = syntax.call(step.at)
    statement = syntax.statement_of(call)
    if not isinstance(statement, ast.Assign) or statement.value is not call or len(statement.targets) > 1:
        raise NoFix("its value is used in another way")
    dropped: Change = (syntax.span(statement)[0], syntax.span(call)[0], "")
    target, given = syntax.written(statement.targets[0]), find(call, "tensor", 0)
    given = given.value if isinstance(given, ast.keyword) else given
    if given is None or syntax.written(given) == target:
        return [dropped]
    end = syntax.end_of_lines(statement)
    return [dropped, (end, end, f"\n{syntax.indent(statement)}{target} = {syntax.written(given)}")]


def _make_tuple(step: MakeTuple, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    node = part_of(syntax, step.at, step.part)
    start, end = syntax.span(node)
    own = syntax.text[:start].rstrip().endswith("(") and syntax.text[end:].lstrip().startswith(")")
    # `f((x))`: brackets of its own, and not those of the call.
    if own and syntax.text[:start].rstrip()[:-1].rstrip().endswith(("=", ",")):
        return [(end, end, ",")]
    return [(start, end, f"({syntax.text[start:end]},)")]


def _super_first(step: SuperFirst, writer: Writer) -> list[Change]:
    return super_first(writer.syntax, step.at)


def _decorate(step: Decorate, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    function = next(syntax.enclosing(syntax.statement(step.at), ast.FunctionDef), None)
    if not isinstance(function, ast.FunctionDef) or any(_is_within(function, each, syntax) for each in step.without):
        raise NoFix("no function around that does nothing else")
    start = syntax.span(function)[0]
    at = syntax.line_start(start)
    return [(at, at, f"{syntax.text[at:start]}@{writer.write(step.decorator, function)}\n")]


def _is_within(function: ast.FunctionDef, at: Location, syntax: Syntax) -> bool:
    place = syntax.place(function)
    return place.path == at.path and place.line <= at.line <= place.end_line


def _at_end_of(step: AtEnd, writer: Writer) -> list[Change]:
    statement = _last_around(step.at, writer.syntax)
    if isinstance(statement, (ast.Return, ast.Raise)):
        return _before(Before(writer.syntax.place(statement), step.lines), writer)
    return _at_end(statement, step.lines, statement, writer)


def _last_around(at: Location, syntax: Syntax) -> ast.stmt:
    """The last statement of the function around a place, or of what is done as the main program."""
    statement = syntax.statement(at)
    function = syntax.function_of(statement)
    if isinstance(function, ast.FunctionDef):
        return function.body[-1]
    guard = next((each for each in syntax.enclosing(statement, ast.If) if syntax.is_main_guard(each)), None)
    return guard.body[-1] if isinstance(guard, ast.If) else syntax.tree.body[-1]


def _delete(step: Delete, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement = syntax.statement(step.at)
    if not isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)):
        raise NoFix("more than one line of a block would go with it")
    indent, end = syntax.indent(statement), syntax.end_of_lines(statement)
    start = syntax.line_start(syntax.start(statement))
    if len(syntax.siblings(statement)) == 1:
        return [(start + len(indent), syntax.span(statement)[1], "pass")]
    end = min(end + 1, len(syntax.text))
    # Of two blank lines around it one is enough.
    blank = syntax.text[:start].endswith("\n\n") and syntax.text[end : end + 1] == "\n"
    return [(start, end + blank, "")]


def _move_up(step: MoveUp, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement, target = syntax.statement(step.at), syntax.statement(step.before)
    block = syntax.siblings(statement)
    if target not in block or not isinstance(statement, (ast.Assign, ast.Expr)):
        raise NoFix("they stand in different blocks")
    between = block[block.index(target) : block.index(statement)]
    if not between or not all(_may_follow(each, statement) for each in between):
        raise NoFix("it needs what is made between")
    start, end = syntax.line_start(syntax.start(statement)), syntax.end_of_lines(statement) + 1
    at = syntax.line_start(syntax.start(target))
    return [(at, at, syntax.text[start:end]), (start, end, "")]


def _may_follow(passed: ast.stmt, moved: ast.stmt) -> bool:
    """The moved statement finds the names before this one as well as behind it: those it gives are only given anew."""
    names = {each.id for each in ast.walk(moved) if isinstance(each, ast.Name) and isinstance(each.ctx, ast.Load)}
    own = [each for each in ast.walk(passed) if isinstance(each, ast.Name)]
    read = {each.id for each in own if isinstance(each.ctx, ast.Load)}
    return all(each.id in read for each in own if isinstance(each.ctx, ast.Store) and each.id in names)


def _under(step: Under, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement = _with_its_file(syntax.statement(step.at), syntax)
    indent, end = syntax.indent(statement), syntax.end_of_lines(statement)
    at = syntax.line_start(syntax.start(statement))
    header = writer.write(step.header, statement).replace("\n", f"\n{indent}")
    changes: list[Change] = [(at, at, f"{indent}{header}\n{syntax.unit}")]
    while (at := syntax.line_end(at) + 1) <= end:
        # The lines of a long string are its content.
        if syntax.location(at, at).line not in syntax.strings and syntax.text[at : syntax.line_end(at)].strip():
            changes.append((at, at, syntax.unit))
    return changes


def _with_its_file(statement: ast.stmt, syntax: Syntax) -> ast.stmt:
    """`with open(path, "wb") as file:` belongs to what is written into the file."""
    around = syntax.parents.get(statement)
    if isinstance(around, ast.With) and isinstance(statement, ast.Expr):
        opened = [each.context_expr for each in around.items]
        if any(isinstance(each, ast.Call) and syntax.written(each.func).endswith("open") for each in opened):
            return around
    return statement


_MAKERS: dict[type[Any], Callable[[Any, Writer], list[Change]]] = {
    SetArgument: _set_argument,
    SetArguments: _set_arguments,
    MoveUp: _move_up,
    RemoveArgument: _remove_argument,
    Before: _before,
    After: _after,
    AtEnd: _at_end_of,
    First: _first,
    Last: _last,
    Replace: _replace,
    Assign: _assign,
    Substitute: _substitute,
    Rewrite: _rewrite,
    Unassign: _unassign,
    MakeTuple: _make_tuple,
    SuperFirst: _super_first,
    Decorate: _decorate,
    Delete: _delete,
    Under: _under,
}
