"""What each step of a repair does to the text of a file."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpudoctor.lint.fix.arguments import remove_argument, set_argument
from gpudoctor.lint.fix.syntax import NoFix
from gpudoctor.lint.fix.writing import part_of
from gpudoctor.lint.values.repair import (
    After,
    Assign,
    Before,
    Code,
    Delete,
    First,
    Last,
    RemoveArgument,
    Replace,
    SetArgument,
    Step,
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
        case SetArgument() | RemoveArgument():
            return step.call
        case First() | Last():
            return step.block
    return step.at


def anchor(step: Step, syntax: Syntax) -> ast.stmt:
    """The statement whose surroundings a step is written in."""
    match step:
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
    return set_argument(syntax, syntax.call(step.call), step.name, step.position, text)


def _remove_argument(step: RemoveArgument, writer: Writer) -> list[Change]:
    return remove_argument(writer.syntax, writer.syntax.call(step.call), step.name, step.position)


def _before(step: Before, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement = syntax.statement(step.at)
    indent = syntax.indent(statement)
    at = syntax.line_start(syntax.start(statement))
    if syntax.text[syntax.start(statement) :].startswith("elif"):
        raise NoFix("before an `elif`")
    # A comment above belongs to the statement.
    while at and _is_comment(syntax.text[syntax.line_start(at - 1) : at], indent):
        at = syntax.line_start(at - 1)
    return [(at, at, _lines(step.lines, statement, indent, writer))]


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
        text = writer.write(line, at, after=after).replace("\t", writer.syntax.unit)
        found.append(f"{indent}{text}\n" if text else "\n")
    return "".join(found)


def _is_comment(line: str, indent: str | None) -> bool:
    """The line is a comment with this indentation; with any, or blank, where none is given."""
    if indent is None:
        return not line.strip() or line.lstrip().startswith("#")
    return line.startswith(f"{indent}#")


def _replace(step: Replace, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    node = part_of(syntax.call(step.at), step.part) if step.part else syntax.expression(step.at)
    return [(*syntax.span(node), writer.write(step.to, syntax.statement_of(node)))]


def _assign(step: Assign, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement = syntax.statement(step.at)
    if not isinstance(statement, ast.Expr):
        raise NoFix("its value is used already")
    start = syntax.span(statement)[0]
    return [(start, start, f"{writer.write(step.to, statement)} = ")]


def _delete(step: Delete, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement = syntax.statement(step.at)
    indent, end = syntax.indent(statement), syntax.end_of_lines(statement)
    start = syntax.line_start(syntax.start(statement))
    if len(syntax.siblings(statement)) == 1:
        return [(start + len(indent), syntax.span(statement)[1], "pass")]
    end = min(end + 1, len(syntax.text))
    # Of two blank lines around it one is enough.
    blank = syntax.text[:start].endswith("\n\n") and syntax.text[end : end + 1] == "\n"
    return [(start, end + blank, "")]


def _under(step: Under, writer: Writer) -> list[Change]:
    syntax = writer.syntax
    statement = syntax.statement(step.at)
    indent, end = syntax.indent(statement), syntax.end_of_lines(statement)
    at = syntax.line_start(syntax.start(statement))
    changes: list[Change] = [(at, at, f"{indent}{writer.write(step.header, statement)}\n{syntax.unit}")]
    while (at := syntax.line_end(at) + 1) <= end:
        # The lines of a long string are its content.
        if syntax.location(at, at).line not in syntax.strings and syntax.text[at : syntax.line_end(at)].strip():
            changes.append((at, at, syntax.unit))
    return changes


_MAKERS: dict[type[Any], Callable[[Any, Writer], list[Change]]] = {
    SetArgument: _set_argument,
    RemoveArgument: _remove_argument,
    Before: _before,
    After: _after,
    First: _first,
    Last: _last,
    Replace: _replace,
    Assign: _assign,
    Delete: _delete,
    Under: _under,
}
