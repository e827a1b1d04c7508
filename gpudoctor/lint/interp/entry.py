"""Where a program begins, and how to read a file that has no beginning."""

from __future__ import annotations

import ast
from collections.abc import Hashable

from gpudoctor.lint.discovery.call_search import leads_to_training
from gpudoctor.lint.discovery.top_level import root_name
from gpudoctor.lint.domain.arguments import NO_ARGUMENTS, Arguments
from gpudoctor.lint.domain.choosing import one_by
from gpudoctor.lint.domain.function import BoundMethod, Class, Function, Library, Partial
from gpudoctor.lint.domain.value import Anonymous, Const, Unknown, Value, Values, single_of, singleton
from gpudoctor.lint.flow.condition import ALWAYS
from gpudoctor.lint.flow.valueset import union
from gpudoctor.lint.interface.contents import find_in_class
from gpudoctor.lint.interface.hooks import HOOKS
from gpudoctor.lint.interp.calls import call_function, instantiate
from gpudoctor.lint.interp.evaluator import Evaluator
from gpudoctor.lint.interp.imports import module_frame
from gpudoctor.lint.source.project import ModuleFile
from gpudoctor.lint.source.syntax_walk import walk

MOST_HANDED_OVER = 4
"""So many functions are tried: they are made after one pattern."""


def run_as_library(m: Evaluator, scope: Hashable, file: ModuleFile) -> None:
    """Read a file without an entry: each function and method that nobody called, with unknown arguments."""
    mentioned = _mentioned(file.source.tree)
    followed = m.project.followed(file.source)
    with m.in_frame(module_frame(scope, file)) as frame, m.at_main_guard():
        frame.base_depth = m.store.depth
        for name in m.store.names(scope):
            if followed is not None and name not in followed:
                continue
            only = single_of(m.read((scope, name)))
            # Imported functions are read where they stand.
            if isinstance(only, Function) and only.file is file and only.owner is None:
                if name not in mentioned:
                    _call(m, only)
            elif isinstance(only, Class) and only.node in file.source.tree.body:
                _call_methods(m, only, mentioned)


def run_commands(m: Evaluator, scope: Hashable, file: ModuleFile, names: tuple[str, ...]) -> None:
    """Start what the project offers as commands, each as a program of its own."""
    with m.in_frame(module_frame(scope, file)) as frame, m.at_main_guard():
        frame.base_depth = m.store.depth
        found = [values for name in names if (values := m.read((scope, name))) is not None]
        # What is defined elsewhere is started where it stands.
        offered = [values.bindings[0].value for values in found if not values.has(Unknown, Library)]
        # Nothing that one of them does happens where another is started.
        for each in one_by(("command", scope), offered).bindings if offered else ():
            with m.fork(each.condition):
                m.call(singleton(each.value), NO_ARGUMENTS, getattr(each.value, "node", file.source.tree.body[-1]))


def run_handed_over(m: Evaluator, scope: Hashable, file: ModuleFile) -> None:
    """Call the functions that train, as far as they say themselves, and that the program leaves to code that was not
    read: `@experiment.automain`, `pool.submit(train)`."""
    found = [each for each in m.handed_over if _is_to_follow(m, each)]
    # `@experiment.capture` on a helper that `main` calls: it is read through `main`.
    mentioned = _mentioned(file.source.tree)
    found = [each for each in found if not isinstance(each, Function) or each.label not in mentioned] or found
    with m.in_frame(module_frame(scope, file)) as frame, m.at_main_guard():
        frame.base_depth = m.store.depth
        for each in found[:MOST_HANDED_OVER]:
            if isinstance(each, Function):
                _call(m, each)
            else:
                with m.fork(ALWAYS):
                    m.call(singleton(each), NO_ARGUMENTS, file.source.tree.body[-1])


def _is_to_follow(m: Evaluator, value: Value) -> bool:
    """It trains, and no call has led into it: of a group of commands `@add_options(OPTIONS)` was given each, too."""
    function = value.function if isinstance(value, (BoundMethod, Partial)) else value
    if not isinstance(function, Function) or not isinstance(function.file, ModuleFile):
        return False
    body, path = _body(function), function.file.source.shown
    # A lambda may stand in the line that hands it over.
    lines = range(body[0].lineno, (body[-1].end_lineno or 0) + 1) if body is function.node.body else ()
    led = (place for each in m.log for place in (each.location, *each.context.calls))
    followed = any(place.line in lines and place.path == path for place in led)
    return not followed and leads_to_training(body, function.file, m.project)


def _body(function: Function) -> list[ast.stmt]:
    body = function.node.body
    return body if isinstance(body, list) else [ast.Expr(body)]


def _call(m: Evaluator, function: Function) -> None:
    # Each on its own: the order in which others call them is not known.
    with m.fork(ALWAYS):
        call_function(m, function, Arguments((), _numbers(function)), function.node)


def _numbers(function: Function) -> dict[str, Values]:
    """The numbers that a function takes unless its caller gives others: how many steps, batches, epochs."""
    named = [each.arg for each in (*function.node.args.posonlyargs, *function.node.args.args)]
    defaults = [*zip(reversed(named), reversed(function.defaults), strict=False), *function.keyword_defaults]
    found = {}
    for name, values in defaults:
        only = values.single
        # Switches and names stay: what they stand for by default is what the file is read for.
        if isinstance(only, Const) and type(only.value) in (int, float):
            chosen = Unknown(Anonymous("parameter", (function.place, name)), "a parameter", name, config=True)
            found[name] = union([values, singleton(chosen)])
    return found


def _mentioned(tree: ast.Module) -> frozenset[str]:
    """The names of functions and methods that the file itself calls: these are read through their callers."""
    modules: set[str] = set()
    functions: list[ast.expr] = []
    for node in walk(tree):
        if isinstance(node, ast.Call):
            functions.append(node.func)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            modules.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
    return frozenset(
        each.attr if isinstance(each, ast.Attribute) else each.id
        for each in functions
        # `torch.save` does not call a method `save` of this file.
        if isinstance(each, ast.Name)
        or (isinstance(each, ast.Attribute) and root_name(each) not in modules and not _of_a_module(each))
    )


def _of_a_module(function: ast.Attribute) -> bool:
    """`self.model.train()`: every module has that method, so it is not the `train` of the class around it."""
    return function.attr in ("train", "eval") and isinstance(function.value, ast.Attribute)


def _call_methods(m: Evaluator, cls: Class, mentioned: frozenset[str]) -> None:
    with m.fork(ALWAYS):
        first = single_of(find_in_class(m, cls, "__init__"))
        given = _numbers(first) if isinstance(first, Function) else {}
        made = instantiate(m, cls, Arguments((), given), cls.node).single
        # It needs what other code prepares, as options that are global: none of its users has such an object.
        if m.unreachable:
            return
        if made is not None:
            for told in HOOKS.made_alone:
                told(m, made)
        for statement in cls.node.body:
            if not isinstance(statement, ast.FunctionDef) or statement.name in ("__init__", *mentioned):
                continue
            only = single_of(m.read((cls.scope, statement.name)))
            if isinstance(only, Function) and made is not None:
                receiver = (singleton(made),) if only.kind in ("function", "property", "cached") else ()
                with m.fork(ALWAYS):
                    call_function(m, only, Arguments(receiver, _numbers(only)), only.node)
