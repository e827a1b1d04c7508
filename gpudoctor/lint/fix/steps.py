"""What each step of a repair changes; refused where the program is not as the step needs it."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.value import Const, Value
from gpudoctor.lint.fix import changes as ch
from gpudoctor.lint.fix.changes import NoFix, Where
from gpudoctor.lint.fix.nodes import FileNodes, argument_of, stored_in
from gpudoctor.lint.fix.render import Renderer
from gpudoctor.lint.repair import repair
from gpudoctor.lint.source.syntax_walk import nodes_of


def changes_of(step: repair.RepairStep, around: ast.stmt, render: Renderer) -> Sequence[ch.TreeChange]:
    """The changes that a step is, which is written around a statement."""
    nodes = render.nodes
    match step:
        case repair.SetArgument():
            return _set_arguments(step.at, [step], render)
        case repair.SetArguments():
            return _set_arguments(step.at, step.arguments, render)
        case repair.RemoveArgument():
            return _remove_argument(step, nodes)
        case repair.Before():
            return [_lines(step.lines, around, Where.BEFORE, render)]
        case repair.AtEnd() if isinstance(around, (ast.Return, ast.Raise)):
            return [_lines(step.lines, around, Where.BEFORE, render)]
        case repair.After() | repair.AtEnd() | repair.Last():
            return [_lines(step.lines, around, Where.AFTER, render)]
        case repair.First():
            return [_first(step, render)]
        case repair.Replace():
            return [_replace(step, render)]
        case repair.Substitute():
            return _substitute(step, around, render)
        case repair.Assign():
            return [_assign(step, around, render)]
        case repair.Rewrite():
            return [_rewrite(step, around, render)]
        case repair.Unassign():
            return _unassign(step, nodes)
        case repair.SuperFirst():
            return [_super_first(around, nodes)]
        case repair.Decorate():
            return [_decorate(step, around, render)]
        case repair.MoveUp():
            return [_move_up(step, around, nodes)]
        case repair.Delete():
            return [_delete(step, around, nodes)]
        case repair.Under():
            return [_under(step, around, render)]
    raise AssertionError(step)


# --- arguments -------------------------------------------------------------------------------------------------


def _set_arguments(at: Location, arguments: Sequence[repair.SetArgument], render: Renderer) -> list[ch.TreeChange]:
    nodes = render.nodes
    call, statement = nodes.call(at), nodes.statement(at)
    values: list[tuple[Location, str]] = []
    added: list[str] = []
    for each in arguments:
        given, text = _given(call, each.name, each.position), render.text(each.to, statement)
        if given is None and not each.lacking:
            _refuse_passed_on(call)
        if given is None:
            added.append(f"{each.name}={text}")
        elif each.over_plain and not isinstance(given, ast.Constant):
            raise NoFix("it is chosen elsewhere")
        else:
            values.append((nodes.place(given), text))
    # `f(x for x in y)` is no place for a second argument.
    if added and isinstance(call.args[0] if call.args else None, ast.GeneratorExp):
        raise NoFix("a generator without brackets of its own")
    return [ch.NewArguments(nodes.place(call), tuple(values), tuple(added))]


def _remove_argument(step: repair.RemoveArgument, nodes: FileNodes) -> list[ch.TreeChange]:
    call = nodes.call(step.at)
    names = ((step.name, step.position), *step.also)
    given = [value for name, position in names if (value := _given(call, name, position)) is not None]
    if step.if_given and _given(call, step.name, step.position) is None:
        _refuse_passed_on(call)
        return []
    stays = [each not in given for each in call.args]
    if not given or sorted(stays, reverse=True) != stays:
        raise NoFix("it is not there, or others would move to its position")
    return [ch.NewArguments(nodes.place(call), removed=tuple(nodes.place(each) for each in given))]


def _refuse_passed_on(call: ast.Call) -> None:
    if any(each.arg is None for each in call.keywords):
        raise NoFix("it may be among the arguments that are passed on")


def _given(call: ast.Call, name: str, position: int) -> ast.expr | None:
    """The value of an argument, by its name or its position."""
    found = argument_of(call, name)
    if found is not None or position < 0 or len(call.args) <= position:
        return found
    if any(isinstance(each, ast.Starred) for each in call.args[: position + 1]):
        raise NoFix("arguments are passed on")
    return call.args[position]


# --- statements ------------------------------------------------------------------------------------------------


def _lines(
    lines: tuple[repair.Code, ...], at: ast.stmt, where: Where, render: Renderer, seen_from: ast.stmt | None = None
) -> ch.NewLines:
    """New lines beside a statement, written with the names that are known there, or at another one."""
    _parted(at, render.nodes)
    after = where is Where.AFTER and seen_from is None
    texts = tuple(render.text(line, seen_from or at, after=after) for line in lines)
    return ch.NewLines(render.nodes.place(at), texts, where)


def _first(step: repair.First, render: Renderer) -> ch.NewLines:
    block = render.nodes.block(step.at)
    first = block.body[0]
    if isinstance(block, (ast.FunctionDef, ast.ClassDef)) and _is_docstring(first):
        return _lines(step.lines, first, Where.AFTER, render, seen_from=next(iter(block.body[1:]), None))
    return _lines(step.lines, first, Where.FIRST, render)


def _parted(statement: ast.stmt, nodes: FileNodes) -> ast.stmt:
    if nodes.is_elif(statement):
        raise NoFix("beside an `elif`")
    return statement


def _is_docstring(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant)


def _delete(step: repair.Delete, statement: ast.stmt, nodes: FileNodes) -> ch.Removed:
    if step.recomputed and not nodes.recomputes(statement):
        raise NoFix("it computes nothing anew")
    if not isinstance(statement, (ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign)):
        raise NoFix("more than one line of a block would go with it")
    return ch.Removed(nodes.place(statement))


def _under(step: repair.Under, statement: ast.stmt, render: Renderer) -> ch.NewHeader:
    statement = _with_its_file(_parted(statement, render.nodes), render.nodes)
    if step.skips:
        _check_skipped(statement, render.nodes)
    return ch.NewHeader(render.nodes.place(statement), render.text(step.header, statement))


def _check_skipped(statement: ast.stmt, nodes: FileNodes) -> None:
    """Nothing is lost where the statement is passed over but the file that it writes."""
    inside = statement.body if isinstance(statement, ast.With) else [statement]
    if isinstance(statement, ast.With) and not all(isinstance(each, (ast.Expr, ast.Assign)) for each in inside):
        raise NoFix("more is done there than to write a file")
    if {name for each in inside for name in stored_in(each)} & _read_beside(statement, nodes):
        raise NoFix("what it makes is needed elsewhere")


def _read_beside(statement: ast.stmt, nodes: FileNodes) -> set[str]:
    """The names that are read around a statement, in its function or file."""
    within = set(nodes_of(ast.Name, statement))
    *_, scope = nodes.enclosing(statement, ast.AST)
    scope = next(nodes.enclosing(statement, ast.FunctionDef, ast.AsyncFunctionDef), scope)
    return {each.id for each in nodes_of(ast.Name, scope) if isinstance(each.ctx, ast.Load) and each not in within}


def _with_its_file(statement: ast.stmt, nodes: FileNodes) -> ast.stmt:
    """`with open(path, "wb") as file:` belongs to what is written into the file."""
    around = nodes.parents.get(statement)
    if isinstance(around, ast.With) and isinstance(statement, ast.Expr):
        opened = [each.context_expr for each in around.items]
        if any(isinstance(each, ast.Call) and nodes.written(each.func).endswith("open") for each in opened):
            return around
    return statement


def _move_up(step: repair.MoveUp, statement: ast.stmt, nodes: FileNodes) -> ch.Moved:
    block, target = nodes.siblings(statement), nodes.statement(step.before)
    if target not in block or not isinstance(statement, (ast.Assign, ast.Expr)):
        raise NoFix("they stand in different blocks")
    between = block[block.index(target) : block.index(statement)]
    if not between or not all(_may_follow(each, statement) for each in between):
        raise NoFix("it needs what is made between")
    return ch.Moved(nodes.place(statement), nodes.place(target))


def _may_follow(passed: ast.stmt, moved: ast.stmt) -> bool:
    """The moved statement finds the names before this one as well as behind it: those it gives are only given anew."""
    return not (_read_in(moved) & set(stored_in(passed)) - _read_in(passed))


def _read_in(around: ast.AST) -> set[str]:
    return {each.id for each in nodes_of(ast.Name, around) if isinstance(each.ctx, ast.Load)}


def _super_first(statement: ast.stmt, nodes: FileNodes) -> ch.TreeChange:
    """The call of the constructor above comes first in the constructor around a statement, or in that of a class."""
    if isinstance(statement, ast.ClassDef):
        around: Iterable[ast.AST] = [each for each in statement.body if _is_constructor(each)]
    else:
        around = nodes.enclosing(statement, ast.FunctionDef)
    function = next(iter(around), None)
    if not isinstance(function, ast.FunctionDef) or not _is_constructor(function):
        raise NoFix("no constructor around")
    first = function.body[0]
    if _is_docstring(first) and len(function.body) > 1:
        first = function.body[1]
    calls = [each for each in function.body if _calls_above(each, nodes)]
    if len(calls) > 1 or nodes_of(ast.Return, function):
        raise NoFix("a constructor with ways of its own")
    if not calls:
        return ch.NewLines(nodes.place(first), ("super().__init__()",), Where.BEFORE)
    if {each.id for each in nodes_of(ast.Name, calls[0])} & set(stored_in(function)):
        raise NoFix("what it is given is made before")
    return ch.Moved(nodes.place(calls[0]), nodes.place(first))


def _is_constructor(node: ast.AST) -> bool:
    return isinstance(node, ast.FunctionDef) and node.name == "__init__"


def _calls_above(statement: ast.stmt, nodes: FileNodes) -> bool:
    call = statement.value if isinstance(statement, ast.Expr) else None
    return isinstance(call, ast.Call) and nodes.written(call.func).endswith(".__init__")


def _decorate(step: repair.Decorate, statement: ast.stmt, render: Renderer) -> ch.NewDecorator:
    nodes = render.nodes
    function = next(nodes.enclosing(statement, ast.FunctionDef), None)
    if not isinstance(function, ast.FunctionDef):
        raise NoFix("no function around")
    if any(ch.is_within(at, nodes.place(function)) for at in step.without):
        raise NoFix("the function does something else, too")
    return ch.NewDecorator(nodes.place(function), render.text(step.decorator, function))


# --- expressions and assignments -------------------------------------------------------------------------------


def _replace(step: repair.Replace, render: Renderer) -> ch.NewExpression:
    nodes = render.nodes
    node = nodes.part(step.at, step.part) if step.part else nodes.expression(step.at)
    if step.constant and not isinstance(node, ast.Constant):
        raise NoFix("it is not written out there")
    return ch.NewExpression(nodes.place(node), render.text(step.to, nodes.statement_of(node)))


def _substitute(step: repair.Substitute, statement: ast.stmt, render: Renderer) -> list[ch.TreeChange]:
    changes = _within(render.nodes.expression(step.at), step, statement, render)
    return changes or (_within(render.nodes.tree, step, statement, render) if step.in_file else [])


def _within(node: ast.AST, step: repair.Substitute, statement: ast.stmt, render: Renderer) -> list[ch.TreeChange]:
    changes: list[ch.TreeChange] = []
    todo: list[ast.AST] = [node]
    while todo:
        node = todo.pop()
        if isinstance(node, ast.expr) and _means(node, step.value, render, statement):
            changes.append(ch.NewExpression(render.nodes.place(node), render.text(step.to, statement)))
        else:
            todo += ast.iter_child_nodes(node)
    return changes


def _means(node: ast.expr, value: Value, render: Renderer, at: ast.stmt) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(value, Const) and type(node.value) is type(value.value) and node.value == value.value
    if not isinstance(node, (ast.Name, ast.Attribute)) or value.is_constant:
        return False
    return render.holds(render.nodes.written(node), value, at)


def _assign(step: repair.Assign, statement: ast.stmt, render: Renderer) -> ch.NewStatement:
    nodes = render.nodes
    if not isinstance(statement, ast.Expr):
        raise NoFix("its value is used already")
    target = render.text(step.to, statement)
    if not _is_used_later(target, statement, nodes):
        raise NoFix("nobody would see the new value")
    return ch.NewStatement(nodes.place(statement), f"{target} = {nodes.written(statement)}")


def _is_used_later(target: str, statement: ast.stmt, nodes: FileNodes) -> bool:
    """The target can be assigned to, and a plain name is read afterwards: that of a `for` is given anew each time."""
    if not target.isidentifier():
        return isinstance(ast.parse(target, mode="eval").body, (ast.Attribute, ast.Subscript))
    loops = (each for each in nodes.enclosing(statement, ast.For, ast.AsyncFor))
    bound = (each for each in loops if isinstance(each, (ast.For, ast.AsyncFor)) and target in stored_in(each.target))
    around = next(bound, nodes.function_of(statement))
    reads = (each for each in nodes_of(ast.Name, around) if each.id == target)
    return any(each.lineno > statement.lineno and isinstance(each.ctx, ast.Load) for each in reads)


def _rewrite(step: repair.Rewrite, statement: ast.stmt, render: Renderer) -> ch.NewStatement:
    if not isinstance(statement, ast.Assign) or len(statement.targets) > 1:
        raise NoFix("no plain assignment")
    return ch.NewStatement(render.nodes.place(statement), render.text(step.to, statement))


def _unassign(step: repair.Unassign, nodes: FileNodes) -> list[ch.TreeChange]:
    call = nodes.call(step.at)
    statement = nodes.statement_of(call)
    if not isinstance(statement, ast.Assign) or statement.value is not call or len(statement.targets) > 1:
        raise NoFix("its value is used in another way")
    at, target = nodes.place(statement), nodes.written(statement.targets[0])
    bare, given = ch.NewStatement(at, nodes.written(call)), _given(call, "tensor", 0)
    if given is None or nodes.written(given) == target:
        return [bare]
    return [bare, ch.NewLines(at, (f"{target} = {nodes.written(given)}",), Where.AFTER)]
