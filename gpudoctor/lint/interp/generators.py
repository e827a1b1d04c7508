"""Loops over generators: the body of the loop runs where the generator yields, inside the generator's own loops."""

from __future__ import annotations

import ast
from collections.abc import Callable, Hashable

from gpudoctor.diagnostic import Location
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS
from gpudoctor.lint.domain.container import Enumerated, TupleOf
from gpudoctor.lint.domain.function import Generator, Instance, function_of
from gpudoctor.lint.domain.value import Values, singleton
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.interface.contents import find_method
from gpudoctor.lint.interp.assignment import assign
from gpudoctor.lint.interp.calls import run_body
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.items import counter
from gpudoctor.lint.interp.limits import LONG_DRAW
from gpudoctor.lint.interp.position import OpenLoop, PathExit

ValuesChange = Callable[["Values"], "Values"]


def generator_of(m: Evaluator, iterable: Values, node: ast.AST) -> tuple[Generator, ValuesChange] | None:
    """The generator that a loop goes over, through `enumerate` and progress bars, and what they make of its items."""
    only = iterable.single
    if isinstance(only, Generator):
        return only, lambda values: values
    # `for batch in prefetcher`, an object of the project whose `__iter__` yields.
    if isinstance(only, Instance):
        own = find_method(m, only, "__iter__")
        method = function_of(own.single) if own is not None else None
        if own is None or method is None or not m.traits_of(method).yields:
            return None
        return generator_of(m, m.call(own, NO_ARGUMENTS, node), node)
    # `zip` would need two generators in step, which is not followed.
    if isinstance(only, Enumerated) and only.kind in ("enumerate", "tqdm") and only.items:
        inner = generator_of(m, only.items[0], node)
        if inner is None or only.kind == "tqdm":
            return inner
        generator, change = inner
        return generator, lambda values: singleton(TupleOf((counter(m, node, "a counter"), change(values))))
    return None


def run_over_generator(
    m: Evaluator, node: ast.For | ast.AsyncFor, generator: Generator, change: ValuesChange, place: Location
) -> None:
    """Follow the generator; each time it yields, the body of the loop runs in the frame that wrote the loop."""
    frames, calls, base = m.frames, m.calls, m.path
    own = Loop(m.allocation_site(place), place, entered=len(m.log))
    outer_loops = len(m.open_loops)
    breaks: list[PathExit] = []
    # How often the body was followed for what comes from one `yield`, of one loader, and with how many statements.
    followed: dict[Hashable, tuple[int, int]] = {}

    def on_yield(values: Values) -> None:
        inside = m.open_loops[outer_loops:]
        origin = m.frame.yields_at, tuple([each.event.over for each in inside])
        rounds, cost = followed.get(origin, (0, 0))
        if rounds > 1 and cost > LONG_DRAW:
            return
        begun = m.statements
        loop = OpenLoop(
            inside[-1].event if inside else own, m.store.depth, frame_depth=len(frames), inside_generator=bool(inside)
        )
        here = m.path
        with m.in_round(loop), m.in_caller(frames, calls), m.store.delta() as layer:
            assign(m, node.target, change(values))
            m.execute(node.body)
            live = [] if m.unreachable else [PathExit(layer, m.path)]
        before = m.store.changes_since(start) if loop.breaks else {}
        breaks.extend(PathExit({**before, **gone.writes}, gone.path) for gone in loop.breaks)
        followed[origin] = rounds + 1, m.statements - begun
        m.unreachable = False
        m.join(here, live + loop.continues)
        # What one batch taught does not hold for the next.
        m.path = here

    start = m.store.depth
    with m.store.delta() as outer:
        run_body(m, generator, on_yield, node)
        if not m.unreachable:
            m.path = base
            m.execute(node.orelse)
        ends = breaks if m.unreachable else [*breaks, PathExit(outer, base)]
    m.join(base, ends)
    if not m.unreachable:
        m.path = base
