"""Statements: assignments, branches, loops, blocks that open something, and ways to leave."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.container import TupleOf
from gpudoctor.lint.domain.function import library_name_of
from gpudoctor.lint.domain.symbols import AnyOf, Raised
from gpudoctor.lint.domain.value import (
    UNBOUND,
    Const,
    Unknown,
    Value,
    Values,
    single_of,
    singleton,
    text_of,
)
from gpudoctor.lint.events.collective import Discard, LeaveLoop
from gpudoctor.lint.events.process import SettingDefault
from gpudoctor.lint.flow.condition import Atom, Divergence, Literal
from gpudoctor.lint.interface.hooks import Handled
from gpudoctor.lint.interp import expressions, truthiness, with_statements
from gpudoctor.lint.interp.annotations import as_annotated
from gpudoctor.lint.interp.assignment import assign, hint, hint_as, unbind
from gpudoctor.lint.interp.budget import OutOfBudget
from gpudoctor.lint.interp.definitions import define_class, define_function
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.exception_handlers import cannot_happen, error_named, errors_taken, reached
from gpudoctor.lint.interp.imports import import_from, import_names
from gpudoctor.lint.interp.limits import A_FEW
from gpudoctor.lint.interp.loops import run_for, run_while
from gpudoctor.lint.interp.operators import asks_text
from gpudoctor.lint.interp.position import NONE_SET, EarlyExits, PathExit
from gpudoctor.lint.library.register import HOOKS
from gpudoctor.lint.source.syntax_walk import imported_names, nodes_of

LIMITS = (OutOfBudget, RecursionError, MemoryError)


def run_block(m: Evaluator, body: Sequence[ast.stmt]) -> None:
    """Follow statements until the path ends."""
    for statement in body:
        if m.unreachable:
            return
        try:
            m.tick()
            # Statements of newer Pythons that are not known do nothing here.
            runner = RUNNERS.get(type(statement))
            if runner is not None and m.on_statement is None:
                runner(m, statement)
            elif runner is not None and m.on_statement is not None:
                m.on_statement(m, statement, False)
                runner(m, statement)
                if not m.unreachable:
                    m.on_statement(m, statement, True)
        except LIMITS:
            # The innermost statement is where the user looks.
            if m.stopped_at is None:
                m.stopped_at = (m.frame.file, statement)
                m.stopped_in = m.event_context(m.place(statement))
            raise


def _expression(m: Evaluator, node: ast.Expr) -> None:
    values = m.evaluate(node.value)
    if isinstance(node.value, ast.Call) and not m.unreachable:
        for told in HOOKS.dropped:
            told(m, node.value, values, partial(_receivers, m, node.value), _is_shown(m, node))


def _is_shown(m: Evaluator, node: ast.Expr) -> bool:
    """A notebook shows what the last statement of a cell comes to."""
    cells = m.frames[-1].file.source.cells
    if cells is None:
        return False
    body = m.frame.file.source.tree.body
    at = next((index for index, statement in enumerate(body) if statement is node), None)
    after = body[at + 1 : at + 2] if at is not None else [node]
    return all(cells.offset(each.lineno) != cells.offset(node.lineno) for each in after)


def _assign(m: Evaluator, node: ast.Assign) -> None:
    hint(m, node.targets[0], node.value)
    values = _as_set(m, node, m.evaluate(node.value))
    for target in node.targets:
        # Before the target is bound anew, while its old value is known.
        if isinstance(node.value, ast.BinOp) and _is_operand(m, target, node.value):
            for told in HOOKS.accumulated:
                told(m, target, values, node)
        assign(m, target, values)


def _as_set(m: Evaluator, node: ast.stmt, written: Values) -> Values:
    """What a name gets that its author may set otherwise."""
    switch = m.written_switches.get(node)
    if switch is None:
        return written
    only = written.single
    assert only is not None
    m.emit(SettingDefault, at=m.place(node), value=switch, text=switch.label, left_out=only)
    return singleton(switch)


def _is_operand(m: Evaluator, target: ast.expr, operation: ast.BinOp) -> bool:
    """`total = total + loss` adds to its target as `total += loss` does."""
    written = m.text(target)
    return any(
        _is_got_from(m, target, each) or (type(each) is type(target) and m.text(each) == written)
        for each in (operation.left, operation.right)
    )


def _is_got_from(m: Evaluator, target: ast.expr, read: ast.expr) -> bool:
    """`sums.get(key, 0)` is what `sums[key]` was."""
    match target, read:
        case ast.Subscript(owner, key), ast.Call(ast.Attribute(of, "get" | "setdefault"), [asked, *_]):
            return m.text(owner) == m.text(of) and m.text(key) == m.text(asked)
    return False


def _annotated(m: Evaluator, node: ast.AnnAssign) -> None:
    if node.value is not None:
        hint(m, node.target, node.value)
        values = _as_set(m, node, m.evaluate(node.value))
        assign(m, node.target, as_annotated(m, node.annotation, values, node, m.frame.scopes[-1]))


def _augmented(m: Evaluator, node: ast.AugAssign) -> None:
    old = m.evaluate(m.as_read(node.target))
    by = m.evaluate(node.value)
    new = expressions.binary(m, old, node.op, by, node)
    for told in HOOKS.augmented:
        told(m, old, by, node)
    for noted in HOOKS.accumulated:
        noted(m, node.target, new, node)
    m.frame.augments = True
    assign(m, node.target, new)
    m.frame.augments = False


def _if(m: Evaluator, node: ast.If) -> None:
    test = truthiness.ask(m, node.test)
    # spawn imports the main module again: only the guard keeps it from spawning anew.
    if test is True and any(each.id == "__name__" for each in nodes_of(ast.Name, node.test)):
        with m.at_main_guard():
            run_block(m, node.body)
        return
    if isinstance(test, Literal) and _is_choice_of_many(m, node, test):
        m.defaults_matter = True
        # As with functions: to follow all of them was too much, and one stands for the others.
        if m.at_defaults:
            m.record_imprecision("one of many branches is taken, of which one was read", m.place(node.test))
            run_block(m, node.body)
            return
    # Where processes are started, the execution begins anew on that side: to follow the other one first is in vain.
    starts_there = isinstance(test, Literal) and _starts_ranks(m, node.orelse) and m.world_unasked.several_processes
    if isinstance(test, Literal) and (starts_there or (m.at_defaults and _trains_on_other_side(m, node))):
        m.branch(test.negated(), lambda: run_block(m, node.orelse), lambda: run_block(m, node.body))
        return
    m.branch(test, lambda: run_block(m, node.body), lambda: run_block(m, node.orelse), bool(node.orelse), node.orelse)
    if isinstance(test, Literal) and test.negated() in m.settled.literals:
        _hold_to(m, node.test, ast.NotEq)


_MOST_FRAMES = 3


def _trains_on_other_side(m: Evaluator, node: ast.If) -> bool:
    """`if args.evaluate: trainer.test() else: trainer.fit()`: where all was too much, what trains comes first."""
    file = m.frame.file
    # Where a program decides what it does, it is not deep in calls.
    return (
        bool(node.orelse)
        and len(m.frames) <= _MOST_FRAMES
        and m.trains_beside(node.orelse, file)
        and not m.trains_beside(node.body, file)
    )


def _starts_ranks(m: Evaluator, body: list[ast.stmt]) -> bool:
    """A statement of it is a call of `mp.spawn` or its like."""
    calls = [each.value.func for each in body if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call)]
    if not calls:
        return False
    known = dict(imported_names(body))
    for each in body:
        # `start = torch.multiprocessing.start_processes`
        if isinstance(each, ast.Assign) and isinstance(target := each.targets[0], ast.Name):
            known[target.id] = _library_name(m, each.value, known)
    names = (_library_name(m, each, known) for each in calls)
    return any(answer(name) for name in names if name for answer in HOOKS.starts_ranks)


def _library_name(m: Evaluator, node: ast.expr, imported: Mapping[str, str]) -> str:
    """The dotted name of what is called, where that is a library's; nothing is followed for it."""
    if isinstance(node, ast.Attribute):
        owner = _library_name(m, node.value, imported)
        return owner and f"{owner}.{node.attr}"
    if isinstance(node, ast.Name) and node.id in imported:
        return imported[node.id]
    keys = [(scope, node.id) for scope in m.frame.scopes] if isinstance(node, ast.Name) else []
    held = next((found for key in keys if (found := m.held(key)) is not None), None)
    return library_name_of(single_of(held))


def _is_choice_of_many(m: Evaluator, node: ast.If, test: Literal) -> bool:
    """A text that the user chooses is asked for in many tests in a row: `if name == "unet": ... elif name == ...`."""
    key = test.atom.key
    parts = [each.atom.key for each in key.literals] if isinstance(key, AnyOf) else [key]
    if not node.orelse or test.atom.divergence & (Divergence.RANK | Divergence.LOCAL) or not all(map(asks_text, parts)):
        return False
    subject, tests = _subject(m, node), 1
    while len(node.orelse) == 1 and isinstance(below := node.orelse[0], ast.If) and _subject(m, below) == subject:
        node, tests = below, tests + 1
    return tests > A_FEW


def _subject(m: Evaluator, node: ast.If) -> str:
    """What a test asks about, as it is written."""
    return m.text(node.test.left) if isinstance(node.test, ast.Compare) else m.text(node.test)


def _return(m: Evaluator, node: ast.Return) -> None:
    # The object that a factory returns is known by the caller's name for it.
    # What an earlier call returned may have had a name, and this has none.
    if node.value is not None and (m.frame.hint or id(node.value) in m.hints):
        hint_as(m, m.frame.hint, node.value)
    values = m.evaluate(node.value) if node.value is not None else NONE_SET
    _note_leaving(m, "return", node)
    if not m.unreachable:
        m.frame.exits.append(m.exit_path(m.frame.base_depth, values))


def _note_leaving(m: Evaluator, how: str, node: ast.stmt) -> None:
    innermost = m.open_loops[-1] if m.open_loops else None
    # `return` in a helper leaves the helper's loops, not those of its caller.
    if innermost is not None and how == "return" and innermost.frame_depth != len(m.frames):
        innermost = None
    loop = innermost.event if innermost is not None else None
    if loop is not None and how != "continue" and m.listener is not None:
        m.listener.leaves_loop()
    # All others leave on all ranks at once, so nobody is left waiting; a count of batches ends the training.
    counted = Divergence.BATCH_INDEX if loop is not None and loop.over is not None else Divergence.NONE
    apart = Divergence.LOCAL | Divergence.RANK
    # Who has skipped the rest of this round leaves the loop in another one.
    skipped = innermost.continues if innermost is not None and how == "break" else ()
    if m.path.divergence & (apart | counted) or any(each.path.divergence & apart for each in skipped):
        m.emit(LeaveLoop, at=m.place(node), how=how, loop=loop)


def _leave_round(m: Evaluator, node: ast.Break | ast.Continue) -> None:
    ends = isinstance(node, ast.Break)
    _note_leaving(m, "break" if ends else "continue", node)
    if m.open_loops:
        loop = m.open_loops[-1]
        (loop.breaks if ends else loop.continues).append(m.exit_path(loop.base_depth))
    m.unreachable = True


def _raise(m: Evaluator, node: ast.Raise) -> None:
    if node.exc is not None:
        m.evaluate(node.exc)
    _note_leaving(m, "raise", node)
    # torchrun ends all ranks when one fails, so nobody is left waiting.
    m.abort(m.text(node), m.place(node), error_named(m, node.exc))


def _try(m: Evaluator, node: ast.Try) -> None:
    if not node.finalbody:
        m.join(m.path, _protected(m, node))
        return
    base, leaving = m.path, EarlyExits(m)
    sides = _protected(m, node)
    # `return` inside goes through `finally` too.
    early = leaving.found()
    with m.store.delta():
        # After a `raise` too, of which only the path is known.
        m.join(base, sides + early)
        m.unreachable = False
        with m.store.delta() as writes:
            run_block(m, node.finalbody)
        stays = not m.unreachable
    leaving.pass_through(early, writes, stays)
    if sides:
        m.join(base, [PathExit({**side.writes, **writes}, side.path) for side in sides])
    else:
        m.store.apply(writes)
    m.unreachable = not (sides and stays)


def _protected(m: Evaluator, node: ast.Try) -> list[PathExit]:
    """The body and its handlers: where they come out."""
    base = m.path
    handlers = [handler for handler in node.handlers if not cannot_happen(handler)]
    attribute_asked = any(map(_takes_attribute_error, handlers))
    if handlers and _is_there(m, node.body):
        handlers = []
    sides: list[PathExit] = []
    since = len(m.log)
    with m.store.delta() as layer:
        leaving, errors = EarlyExits(m), len(m.raised)
        with m.trying(attributes=attribute_asked and bool(handlers)):
            run_block(m, node.body)
        # A body that ends with `return` or `break` has not failed.
        raised = m.unreachable and not leaving.found()
        until = len(m.log)
        if m.unreachable and _has_found(m, leaving.found()) and not _does_more(m, node.body, since):
            handlers = [handler for handler in handlers if not _goes_on(handler)]
        if not m.unreachable:
            run_block(m, node.orelse)
        body = None if m.unreachable else PathExit(layer, m.path)
        sides += [body] if body is not None else []
        if raised and not sides:
            handlers = reached(m, node.handlers, m.raised[errors:])
    if raised and body is None:
        # Nothing but the error led on, so what came before it has been done.
        m.store.apply(layer)
    for index, handler in enumerate(handlers):
        atom = Atom(Raised(m.place(handler), index), text="an exception is caught")
        m.path, m.unreachable = base, False
        # The body always ends: then the only handler surely runs.
        test: bool | Literal = True if raised and not sides and len(handlers) == 1 else Literal(atom, True)
        start, leaving = len(m.log), EarlyExits(m)
        side = _handler_side(m, base, test, handler)
        if side is not None:
            # What the body has written holds where nothing was caught.
            if body is not None and isinstance(test, Literal):
                body.path = body.path.conjoined_with(test.negated())
            sides.append(side)
        with m.fork(base):
            writes = len(side.writes) if side is not None else 0
            returned = tuple([each.value for each in leaving.found()])
            handled = Handled(
                handler, m.log[start:], since, until, side is not None, writes, returned,
                errors_taken(m, handler), _place_of(m, node.body),
            )  # fmt: skip
            for told in HOOKS.handled:
                told(m, handled, m.place(handler))
    return sides


def _has_found(m: Evaluator, gone: list[PathExit]) -> bool:
    """`for name in names: try: return import_module(name) except: pass`: the first of them that is known to be there
    is the one that is sought."""
    in_loop = bool(m.open_loops) and m.open_loops[-1].frame_depth == len(m.frames)
    return in_loop and bool(gone) and all(each.value != NONE_SET and not _is_open(each.value) for each in gone)


def _is_open(values: Values) -> bool:
    parts = [item for each in values if isinstance(each, TupleOf) for item in each.items]
    return any(each.has(Unknown) for each in (values, *parts))


def _does_more(m: Evaluator, body: list[ast.stmt], since: int) -> bool:
    """Something is done there that rules ask about, other than by a module that is imported."""
    here = _place_of(m, body)
    done = (each.location for each in m.log[since:] if not isinstance(each, Discard))
    return any(each.path == here.path and here.line <= each.line <= here.end_line for each in done)


def _goes_on(handler: ast.ExceptHandler) -> bool:
    return all(isinstance(each, (ast.Pass, ast.Continue)) for each in handler.body)


def _place_of(m: Evaluator, body: list[ast.stmt]) -> Location:
    first, last = m.place(body[0]), m.place(body[-1])
    return Location(first.path, first.line, first.column, last.end_line, last.end_column)


def _handler_side(m: Evaluator, base: object, test: bool | Literal, handler: ast.ExceptHandler) -> PathExit | None:
    def body() -> None:
        if handler.name:
            m.bind(handler.name, m.unknown(handler, "an exception"))
        run_block(m, handler.body)

    if isinstance(test, Literal):
        return m.run_branch(m.path, test, body).end
    with m.fork(m.path) as side:
        body()
    return side.end


def _is_there(m: Evaluator, body: list[ast.stmt]) -> bool:
    """`return self._model`, `return getattr(self, name)`, `n = model.module.n` and no more, of what surely was set
    before."""
    only = body[0].value if len(body) == 1 and isinstance(body[0], (ast.Return, ast.Assign, ast.Expr)) else None
    match only:
        case ast.Attribute(ast.Name() | ast.Attribute(ast.Name()) as owner, name):
            pass
        case ast.Call(ast.Name("getattr"), [ast.Name() as owner, named]):
            name = text_of(m.evaluate(named).single) or ""
        case _:
            return False
    with m.events_suppressed():
        found = [m.read((of, name)) for of in m.evaluate(owner).restrict(m.path)]
    return bool(found) and all(stored and stored.all(lambda value: value is not UNBOUND) for stored in found)


def _takes_attribute_error(handler: ast.ExceptHandler) -> bool:
    kinds = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(kind, ast.Name) and kind.id == "AttributeError" for kind in kinds)


def _with(m: Evaluator, node: ast.With | ast.AsyncWith) -> None:
    _enter(m, list(node.items), node.body)


def _enter(m: Evaluator, items: list[ast.withitem], body: list[ast.stmt]) -> None:
    if not items:
        run_block(m, body)
        return
    item, rest = items[0], items[1:]
    if item.optional_vars is not None:
        hint(m, item.optional_vars, item.context_expr)
    manager = m.evaluate(item.context_expr)

    def inside(entered: Values) -> None:
        if item.optional_vars is not None:
            assign(m, item.optional_vars, entered)
        _enter(m, rest, body)

    with_statements.enter(m, manager, inside, item.context_expr)


def _delete(m: Evaluator, node: ast.Delete) -> None:
    for target in node.targets:
        unbind(m, target)


def _global(m: Evaluator, node: ast.Global) -> None:
    m.frame.global_names.update(node.names)


def _nonlocal(m: Evaluator, node: ast.Nonlocal) -> None:
    m.frame.outer_names.update(node.names)


def _assert(m: Evaluator, node: ast.Assert) -> None:
    def abort() -> None:
        m.abort(m.text(node), m.place(node), "AssertionError")

    test = truthiness.ask(m, node.test)
    if test is False:
        abort()
    # `assert world_size > 1` leaves no rank behind: a failing one ends the job.
    elif isinstance(test, Literal):
        m.branch(test, lambda: None, abort)
        _hold_to(m, node.test)


def _hold_to(m: Evaluator, test: ast.expr, operator: type[ast.cmpop] = ast.Eq) -> None:
    """`assert args.steps == 1`, or `if args.steps != 1: raise ...`: whatever else the user may choose ends here."""
    match test:
        case ast.BoolOp(op, parts) if isinstance(op, ast.And) is (operator is ast.Eq):
            for part in parts:
                _hold_to(m, part, operator)
        case ast.Compare(ast.Name() | ast.Attribute() as asked, [same], [ast.Constant(number)]) if (
            type(same) is operator
        ):
            with m.events_suppressed():
                held = m.evaluate(asked).restrict(m.path).single
            if isinstance(held, Unknown) and held.config and not held.divergence:
                assign(m, asked, singleton(Const(number)))


def _match(m: Evaluator, node: ast.Match) -> None:
    _match_from(m, m.evaluate(node.subject), node.cases)


def _match_from(m: Evaluator, subject: Values, cases: list[ast.match_case]) -> None:
    if not cases:
        return
    case, rest = cases[0], cases[1:]

    def chosen() -> None:
        guard = truthiness.ask(m, case.guard) if case.guard is not None else True
        m.branch(guard, lambda: run_block(m, case.body), lambda: _match_from(m, subject, rest))

    # Imported late: few programs have one.
    from gpudoctor.lint.interp.patterns import fits

    m.branch(fits(m, subject, case.pattern), chosen, lambda: _match_from(m, subject, rest))


def _receivers(m: Evaluator, node: ast.Call) -> list[Value]:
    """What the method of a call was called on, evaluated without a trace."""
    # Evaluating a call twice would make its objects twice.
    if not isinstance(node.func, ast.Attribute) or not isinstance(
        node.func.value, (ast.Name, ast.Attribute, ast.Subscript)
    ):
        return []
    with m.events_suppressed():
        return list(m.evaluate(node.func.value).restrict(m.path))


def _class(m: Evaluator, node: ast.ClassDef) -> None:
    m.bind(node.name, define_class(m, node))


def _function(m: Evaluator, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
    m.bind(node.name, define_function(m, node))


def _pass(m: Evaluator, node: ast.Pass) -> None:
    return


RUNNERS: dict[type[ast.stmt], Callable[[Evaluator, Any], None]] = {
    ast.Expr: _expression,
    ast.Assign: _assign,
    ast.AnnAssign: _annotated,
    ast.AugAssign: _augmented,
    ast.If: _if,
    ast.For: run_for,
    ast.AsyncFor: run_for,
    ast.While: run_while,
    ast.Return: _return,
    ast.Break: _leave_round,
    ast.Continue: _leave_round,
    ast.Raise: _raise,
    ast.Try: _try,
    ast.With: _with,
    ast.AsyncWith: _with,
    ast.Delete: _delete,
    ast.Global: _global,
    ast.Nonlocal: _nonlocal,
    ast.Assert: _assert,
    ast.Match: _match,
    ast.ClassDef: _class,
    ast.FunctionDef: _function,
    ast.AsyncFunctionDef: _function,
    ast.Import: import_names,
    ast.ImportFrom: import_from,
    ast.Pass: _pass,
}
if hasattr(ast, "TryStar"):
    RUNNERS[ast.TryStar] = _try
