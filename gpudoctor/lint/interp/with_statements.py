"""`with` blocks and generators: the body runs where the manager yields."""

from __future__ import annotations

import ast
from collections.abc import Callable

from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.function import ContextManager, Function, Generator, Library
from gpudoctor.lint.domain.symbols import OpenFile
from gpudoctor.lint.domain.value import Anonymous, Unknown, Value, Values, singleton
from gpudoctor.lint.events.event_context import perhaps_open
from gpudoctor.lint.flow.condition import Condition
from gpudoctor.lint.flow.store import Delta
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interface.contents import find_method
from gpudoctor.lint.interp.calls import run_body
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.position import NONE_SET, EarlyExits, PathExit
from gpudoctor.lint.library.library_names import shows
from gpudoctor.lint.library.register import HOOKS

Body = Callable[[Values], None]

EXPECTS_AN_ERROR = "pytest.raises"
SWALLOWS_ERRORS = "contextlib.suppress"


def enter(m: Evaluator, manager: Values, inside: Body, node: ast.AST) -> None:
    """Open a manager, run the block with what it yields, close it."""
    if m.unreachable:
        return
    here = manager.restrict(m.path)
    only = here.single
    if only is None:
        # Which manager it is does not change what the block does, only what is open meanwhile.
        entered = here.map(lambda each: each.owner or each if isinstance(each, ContextManager) else each)
        around = next((HOOKS.contexts[type(each)] for each in here if type(each) in HOOKS.contexts), None)

        def run() -> None:
            names = [HOOKS.context_name[0](each.name) for each in here if isinstance(each, ContextManager)]
            with m.in_contexts(*perhaps_open(names)):
                inside(entered if here.bindings else NONE_SET)

        run() if around is None else around(m, here, run)
        return
    if isinstance(only, Generator) and _is_manager(only):
        _enter_generator(m, only, inside, node)
    elif isinstance(only, ContextManager) and only.name == EXPECTS_AN_ERROR:
        _enter_a_trial(m, inside)
    elif isinstance(only, ContextManager):
        name = HOOKS.context_name[0](only.name)
        base, leaving = m.path, EarlyExits(m)
        _inside(m, name, inside, singleton(only.owner) if only.owner is not None else NONE_SET)
        if m.unreachable and only.name == SWALLOWS_ERRORS and not leaving.found():
            m.path, m.unreachable = base, False
        for told in HOOKS.context_closed:
            told(m, name, m.place(node))
    elif (around := HOOKS.contexts.get(type(only))) is not None:
        around(m, here, lambda: inside(here))
    else:
        _enter_object(m, only, inside, node)


def open_in_stack(m: Evaluator, manager: Values, node: ast.AST) -> Values:
    """`stack.enter_context(manager)`: it stays open until the block of the stack ends."""
    only = manager.restrict(m.path).single
    if isinstance(only, Generator) and _is_manager(only):
        # What stands behind its `yield` comes too early, which is better than not at all.
        return run_generator(m, only, node)
    if isinstance(only, ContextManager):
        name = HOOKS.context_name[0](only.name)
        m.contexts += (name,) if name else ()
        return singleton(only.owner) if only.owner is not None else NONE_SET
    opening = find_method(m, only, "__enter__") if only is not None else None
    return m.call(opening, NO_ARGUMENTS, node) if opening is not None else manager


def _inside(m: Evaluator, name: str, inside: Body, entered: Values) -> None:
    # With those that a stack has opened meanwhile.
    with m.in_contexts(*([name] if name else ())):
        inside(entered)


def _enter_a_trial(m: Evaluator, inside: Body) -> None:
    """A test shows that its block ends with an error: nothing in it is a mistake, or gets done."""
    with m.fork(m.path), m.events_suppressed():
        inside(singleton(Unknown(Anonymous("expected error", m.path), "an error that is expected")))


def _is_manager(generator: Generator) -> bool:
    function = generator.function
    return isinstance(function, Function) and any(name.endswith("contextmanager") for name in function.decorators)


def _enter_generator(m: Evaluator, generator: Generator, inside: Body, node: ast.AST) -> None:
    # The block belongs to the frame that wrote the `with`, not to the generator that yields to it.
    frames, calls = m.frames, m.calls
    base, leaving = m.path, EarlyExits(m)
    ran: list[Condition] = []
    ends: list[PathExit] = []
    done: Delta[Value] = {}
    visits = m.occurrences()

    def on_yield(values: Values) -> None:
        if ran and all(earlier.excludes(m.path) for earlier in ran):
            # Some ranks run the block here and the others there: what it makes is the same thing on all of them.
            m.restore_occurrences(visits)
        here = m.path
        ran.append(here)
        with m.in_caller(frames, calls):
            left = EarlyExits(m)
            with m.store.delta() as layer:
                inside(values)
            early = left.found()
        if m.unreachable and not early:
            # The error is raised where the generator waits.
            m.store.apply(layer)
            return
        side = [] if m.unreachable else [PathExit(layer, m.path)]
        ends.extend(side)
        # Behind its `yield` the generator goes on for those too that leave the block early.
        m.join(here, side + early)
        if early:
            done.update(m.store.changes_since(depth))

    depth = m.store.depth
    with m.store.delta() as whole:
        run_body(m, generator, on_yield, node)
    m.store.apply(whole)
    early = leaving.found()
    if early:
        writes = {key: values for key, values in whole.items() if done.get(key) is not values}
        leaving.pass_through(early, writes, not m.unreachable)
        m.unreachable = m.unreachable or not ends
        m.path = ends[0].path if len(ends) == 1 else base
    # A manager that could not be followed still runs its block.
    if not ran and not m.unreachable:
        inside(m.unknown(node, "a context manager that was not seen to yield"))


def _enter_object(m: Evaluator, value: Value, inside: Body, node: ast.AST) -> None:
    opening = find_method(m, value, "__enter__")
    if opening is None:
        # Code that was not read may let one rank in after the other; a file or a progress bar lets everybody in.
        open_to_all = isinstance(value.term, OpenFile) or shows(value.escaped_from)
        unread = isinstance(value, Unknown) and not open_to_all
        _inside(m, "unread" if unread else "", inside, singleton(value))
        return
    entered = m.call(opening, NO_ARGUMENTS, node)
    closing = find_method(m, value, "__exit__")
    if closing is None:
        inside(entered)
        return
    base, leaving = m.path, EarlyExits(m)
    with m.store.delta() as layer:
        inside(entered)
    early, failed = leaving.found(), m.unreachable
    if not early:
        m.store.apply(layer)
        if failed:
            m.path, m.unreachable = base, False
        error = m.unknown(node, "an exception") if failed else NONE_SET
        kind = singleton(Library("builtins.Exception")) if failed else NONE_SET
        swallowed = m.call(closing, Arguments((kind, error, error)), node)
        m.unreachable = m.unreachable or (failed and m.truth(swallowed, node) is not True)
        return
    side = [] if failed else [PathExit(layer, m.path)]
    with m.store.delta():
        m.join(base, side + early)
        with m.store.delta() as writes:
            m.call(closing, Arguments((NONE_SET, NONE_SET, NONE_SET)), node)
        stays = not m.unreachable
    leaving.pass_through(early, writes, stays)
    m.join(base, [PathExit({**each.writes, **writes}, each.path) for each in side] if stays else [])


def run_generator(
    m: Evaluator, generator: Generator, node: ast.AST, on_yield: Callable[[Values], None] | None = None
) -> Values:
    """All that a generator yields, its body run once; each is handed to `on_yield` where that is given."""
    if on_yield is not None:
        return run_body(m, generator, on_yield, node)
    collected: list[Values] = []
    here = m.path
    run_body(m, generator, collected.append, node)
    # It waits behind a `yield`: the error that ends it, should it ever come to that, has not been raised yet.
    if collected and m.unreachable:
        m.unreachable = False
        m.path = here
    return (
        union(collected)
        if collected
        else singleton(Unknown(Anonymous("empty", generator), "a generator that yields nothing"))
    )
