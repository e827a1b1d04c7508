"""Decorators that give functions and classes back as they are: they put them into a table.

A zoo of models registers thousands, and what is put into the table after the first ones tells nothing new: it is not
executed, and the table is left open. `MODELS[name]` may be one that was not seen.
"""

from __future__ import annotations

import ast

from gpudoctor.lint.domain.arguments import Arguments
from gpudoctor.lint.events.event_context import Loop
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.function_traits import Registrar
from gpudoctor.lint.interp.limits import MAX_DECORATED
from gpudoctor.lint.interp.position import OpenLoop


def leave_registries_open(m: Evaluator, node: ast.AST) -> None:
    """What else will be decorated is not looked at."""
    for registrar in [*m.decorated.values()]:
        if 0 < registrar.kept < MAX_DECORATED:
            register_another(m, registrar, node)


def register_another(m: Evaluator, registrar: Registrar, node: ast.AST) -> None:
    """Put things that are not known into the table, under names that are not known either: nobody knows how many."""
    place = m.place(node)
    with m.in_round(OpenLoop(Loop(m.allocation_site(place), place), m.store.depth, frame_depth=len(m.frames))):
        _register(m, registrar, node)


def _register(m: Evaluator, registrar: Registrar, node: ast.AST) -> None:
    decorator = registrar.made_by
    if registrar.arguments is not None:
        given = tuple([m.unknown(node, "what one more is registered with") for _ in range(registrar.arguments)])
        named = {name: m.unknown(node, "what one more is registered with") for name in registrar.keywords}
        decorator = m.call(decorator, Arguments(given, named), node)
    m.call(decorator, Arguments((m.unknown(node, "one more that is registered"),)), node)
