"""What a file is, seen from its syntax tree: a program or a part of one, and whether it can say anything."""

from __future__ import annotations

import ast
import enum
import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from gpudoctor.lint.discovery.prefilter import is_irrelevant
from gpudoctor.lint.source.file import SourceFile, Unreadable, read_source
from gpudoctor.lint.source.layout import is_package


class Start(enum.IntEnum):
    """How surely a file is the start of a program."""

    NEVER = 0
    """It only defines things."""
    WHEN_RUN = 1
    """Its top level does things, as that of a script does, but also that of a module with side effects."""
    MAIN = 2
    """It says what to do when it is the main program."""


def start_of(tree: ast.Module, file_name: str) -> Start:
    """How surely the file with this tree is the start of a program."""
    if file_name == "__main__.py" or any(_is_main_guard(statement) for statement in tree.body):
        return Start.MAIN
    if file_name == "__init__.py" or not any(_acts(statement) for statement in _at_top(tree.body)):
        return Start.NEVER
    return Start.WHEN_RUN


def starts_something(tree: ast.Module, is_own: Callable[[ast.Import | ast.ImportFrom], bool]) -> bool:
    """Its top level calls what the file defines or takes from the project (`is_own`), or an object made of that.

    `setup(…)`, `print(…)` and `sys.path.append(…)` start no code of the project's.
    """
    own: set[str] = set()
    for statement in tree.body:
        if isinstance(statement, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            own.add(statement.name)
        elif isinstance(statement, (ast.Import, ast.ImportFrom)) and is_own(statement):
            own.update((alias.asname or alias.name).partition(".")[0] for alias in statement.names)
        elif isinstance(statement, ast.Assign) and _root(statement.value) in own:
            own.update(target.id for target in statement.targets if isinstance(target, ast.Name))
    acts = (each for each in _at_top(tree.body) if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call))
    return any(_root(each.value) in own for each in acts)


def _root(node: ast.expr) -> str:
    """The name with which `runner(cfg).go()` begins."""
    while isinstance(node, (ast.Call, ast.Attribute)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""


def _is_main_guard(statement: ast.stmt) -> bool:
    if not isinstance(statement, ast.If):
        return False
    names = [node.id for node in ast.walk(statement.test) if isinstance(node, ast.Name)]
    return "__name__" in names


def _at_top(body: Iterable[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements that an import executes, without those of functions and classes."""
    # Without recursion: a chain of `elif` is as deep as it is long.
    todo = list(body)
    while todo:
        statement = todo.pop()
        yield statement
        if isinstance(statement, ast.If):
            todo += (*statement.body, *statement.orelse)
        elif isinstance(statement, ast.Try):
            todo += (*statement.body, *statement.orelse, *statement.finalbody)


def _acts(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Call)
    return isinstance(statement, (ast.For, ast.While, ast.With))


class Glance(NamedTuple):
    """What was seen of a file: `path` without links, and `shown` to users.

    `quiet` says that it has no entry and is about nothing that a built-in rule is about, `commented` that comments in
    it speak to us.
    """

    path: str
    shown: str
    start: Start
    quiet: bool
    commented: bool


_NOQA = r"noqa[^\n]*gpu"


def glance(source: SourceFile) -> Glance:
    """Look at a file that was read."""
    start = start_of(source.tree, os.path.basename(source.path))
    # Nobody imports a notebook: what it does is what it is for.
    if source.cells is not None and start is Start.WHEN_RUN:
        start = Start.MAIN
    if start is Start.WHEN_RUN and is_package(os.path.dirname(source.path)) and only_registers(source.tree):
        start = Start.NEVER
    # That a cell cannot be read is said by whoever examines the notebook.
    quiet = start is Start.NEVER and not source.flaws and is_irrelevant(source)
    return Glance(source.path, source.shown, start, quiet, _is_commented(source.text.lower()))


def _is_commented(text: str) -> bool:
    # Looking for words in small letters is ten times as fast as a pattern that takes all letters.
    return "gpudoctor" in text or ("noqa" in text and re.search(_NOQA, text) is not None)


def glance_at_all(paths: Sequence[str]) -> list[Glance | Unreadable]:
    """Look at many files, one after the other: no more than one tree is kept at a time."""
    was_enabled = gc.isenabled()
    # Trees hold no cycles: the collector would look at them again and again for nothing.
    gc.disable()
    try:
        return [_glance_at(path) for path in paths]
    finally:
        if was_enabled:
            gc.enable()


def _glance_at(path: str) -> Glance | Unreadable:
    # A link that leads nowhere is known by its own name.
    source = read_source(os.path.realpath(path) if os.path.exists(path) else path)
    return glance(source) if isinstance(source, SourceFile) else source


def is_entry(tree: ast.Module) -> bool:
    """The file does something when it is started: a main guard, a loop, a call at its top level."""
    if any(_works(statement) for statement in tree.body):
        return True
    # A script of assignments only, such as a tutorial's, has nothing that another file could import.
    defines = any(isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) for each in tree.body)
    return not defines and any(isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) for each in tree.body)


def _works(statement: ast.stmt) -> bool:
    # Without recursion: a chain of `elif` is as deep as it is long.
    todo = [statement]
    while todo:
        each = todo.pop()
        if isinstance(each, (ast.For, ast.While)):
            return True
        # A docstring at the top is an expression too.
        if isinstance(each, ast.Expr) and isinstance(each.value, ast.Call) and not _is_setup(each.value):
            return True
        # `if torch.cuda.is_available(): device = …` at the top of a helper only sets names.
        if isinstance(each, ast.If):
            if _compares_name(each.test):
                return True
            todo += (*each.body, *each.orelse)
        elif isinstance(each, (ast.Try, ast.With)):
            todo += each.body
    return False


def _compares_name(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


def _is_setup(call: ast.Call) -> bool:
    """`warnings.filterwarnings(…)`, `sys.path.append(…)`: preparation, not work."""
    return _first_name(call.func) in (
        "warnings",
        "sys",
        "logging",
        "os",
        "matplotlib",
        "plt",
        "random",
        "np",
    )


def _first_name(node: ast.expr) -> str:
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


# `main()`, `trainer.fit(model)`, `run_training()`: what a program without a main guard ends with.
# Not `append` and `constraint`.
_STARTS = r"(?i)main|run|(?<!s)train|fit|launch|start|cli|app(?!end)|eval|test|infer|demo|work|go$|step|backward|call"


def only_registers(tree: ast.Module) -> bool:
    """All that the top level does are calls such as `register(...)` or `table.update(...)`, and none starts anything.

    Asked of modules inside packages: in a script of its own, `dist.barrier()` at the top is what it does. What imports
    from its neighbours is no script, so that it may loop, too: over the operators that it registers, say.
    """
    todo: list[ast.stmt] = list(tree.body)
    found, is_part = False, any(isinstance(each, ast.ImportFrom) and each.level for each in tree.body)
    # Without recursion: a chain of `elif` is as deep as it is long.
    while todo:
        statement = todo.pop()
        if isinstance(statement, (ast.For, ast.While, ast.With, ast.AsyncFor, ast.AsyncWith)):
            if not is_part:
                return False
            found = True
            todo += statement.body
        if isinstance(statement, ast.If):
            if any(isinstance(node, ast.Name) and node.id == "__name__" for node in ast.walk(statement.test)):
                return False
            todo += (*statement.body, *statement.orelse)
        elif isinstance(statement, ast.Try):
            todo += (*statement.body, *statement.orelse, *statement.finalbody)
        elif isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
            found = True
            if re.search(_STARTS, _called(statement.value.func)):
                return False
    return found


def _called(function: ast.expr) -> str:
    """The last name of what is called."""
    if isinstance(function, ast.Name):
        return function.id
    return function.attr if isinstance(function, ast.Attribute) else ""
