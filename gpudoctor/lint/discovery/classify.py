"""What a file is to the project it lies in: a program, or a part of one. Asked here, and nowhere else.

A file is judged by its syntax tree. Only where a module of a package does something at its top level, which may be no
more than to register its classes, is it asked where these calls lead, through the files that it imports.
"""

from __future__ import annotations

import ast
import gc
import os
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import wraps
from typing import TypeVar, cast

from gpudoctor.lint.discovery.top_level import (
    calls_imported,
    computes,
    deeds_of,
    main_guard,
    name_parts,
    started_by_decorator,
)
from gpudoctor.lint.source.file import SourceFile, Sources, Unreadable, read_source
from gpudoctor.lint.source.file_traits import FileTraits, Role
from gpudoctor.lint.source.layout import in_package, started_in
from gpudoctor.lint.source.project import ModuleFile, Project, project_of
from gpudoctor.record import dataclass, replace

A = TypeVar("A")


@dataclass(frozen=True)
class Classified:
    """The role of a file and why it has it: `because` completes the sentence "the file …".

    `commands` are the functions that start the program where it is one by a name of its project alone, `deeds` what
    makes a script of it, which is asked where it leads where it `hands_on` all work to what it imports.
    """

    role: Role
    because: str
    line: int = 1
    commands: tuple[str, ...] = ()
    hands_on: bool = False
    deeds: tuple[ast.stmt, ...] = ()


def once_a_file(look: Callable[[SourceFile], A]) -> Callable[[SourceFile], A]:
    """Let a function of one file look at it once, however often it is asked."""

    @wraps(look)
    def ask(source: SourceFile) -> A:
        seen = source.seen
        if look not in seen:
            seen[look] = look(source)
        return cast("A", seen[look])

    return ask


# --- the one answer ---------------------------------------------------------------------------------------------------


def classify(module: ModuleFile, project: Project) -> Classified:
    """What this file is."""
    alone = classify_alone(module.source)
    if alone.role is Role.MAIN:
        return alone
    commands = started_in(module.source.path)
    if commands:
        return Classified(Role.MAIN, f"is where the project's commands start: {', '.join(commands)}", 1, commands)
    if alone.role is Role.PART or not (in_package(module.source.path) or alone.hands_on):
        return alone
    # Imported late: most files say themselves what they are.
    from gpudoctor.lint.discovery.call_search import leads_to_training

    if leads_to_training(alone.deeds, module, project):
        return replace(alone, because="calls at its top level what trains")
    because = "registers or prepares something when it is imported, and trains nothing"
    return replace(alone, role=Role.PART, because=because)


@once_a_file
def classify_alone(source: SourceFile) -> Classified:
    """What the file is as far as it says itself; the `SCRIPT` of a package may be a `PART` by what it leads to."""
    # Nobody imports a notebook: what it does is what it is for.
    if source.cells is not None:
        return Classified(Role.MAIN, "is a notebook")
    name = os.path.basename(source.path)
    if name == "__main__.py" and not _only_defines(source.tree):
        return Classified(Role.MAIN, "is what `python -m` starts of its package")
    guard = main_guard(source.tree)
    if guard is not None:
        return Classified(Role.MAIN, "has a main guard", guard.lineno)
    started = started_by_decorator(source.tree)
    if started is not None:
        return Classified(Role.MAIN, "is started by the decorator of a function", started.lineno)
    if name == "__init__.py":
        return Classified(Role.PART, "makes a package of its folder")
    deeds = deeds_of(source.tree)
    if deeds:
        return Classified(Role.SCRIPT, "does something at its top level", deeds[0].lineno, deeds=deeds)
    if computes(source.tree) and not in_package(source.path):
        if not _is_irrelevant(source):
            return Classified(Role.SCRIPT, "computes something and defines nothing")
        # `result = run()`, of a function that another file defines.
        if imported := calls_imported(source.tree):
            return Classified(Role.SCRIPT, "calls what it imports", hands_on=True, deeds=imported)
    return Classified(Role.PART, "only defines things")


def _only_defines(tree: ast.Module) -> bool:
    """It holds the functions of a command, as `setup.py` names them, and calls none of them itself."""
    defines = any(isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef)) for each in tree.body)
    return defines and main_guard(tree) is None and started_by_decorator(tree) is None and not deeds_of(tree)


@once_a_file
def is_test(source: SourceFile) -> bool:
    """pytest or unittest collects what the file defines: by their rules, not by a guess at its name."""
    name, classes = os.path.basename(source.path), [each for each in source.tree.body if isinstance(each, ast.ClassDef)]
    if any(name_parts(base)[-1].endswith("TestCase") for each in classes for base in each.bases):
        return True
    if name == "conftest.py":
        return True
    if not (name.startswith("test_") or name.endswith("_test.py")):
        return False
    functions = [each.name for each in source.tree.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if any(each.startswith("test") for each in functions) or any(each.name.startswith("Test") for each in classes):
        return True
    # It may not be seen that `unittest` is behind the base of a class. A trainer has a method `test`.
    methods = (each for made in classes if made.bases for each in made.body if isinstance(each, ast.FunctionDef))
    return any(each.name.startswith("test_") for each in methods)


# --- many files -------------------------------------------------------------------------------------------------------


_NOQA = r"noqa[^\n]*gpu"


def glance(source: SourceFile | Unreadable) -> FileTraits | Unreadable:
    """Look at a file that was read, without asking where it leads."""
    if isinstance(source, Unreadable):
        return source
    tests, alone = is_test(source), classify_alone(source)
    role = alone.role
    may_be_part = role is Role.PART or (role is Role.SCRIPT and (alone.hands_on or in_package(source.path)))
    # That a cell cannot be read is said by whoever examines the notebook.
    quiet = may_be_part and not source.flaws and _is_irrelevant(source)
    return FileTraits(source.path, source.shown, role, quiet, _is_commented(source.text.lower()), tests)


def _is_irrelevant(source: SourceFile) -> bool:
    # Imported late: what surely is a program is not asked.
    from gpudoctor.lint.discovery.prefilter import is_irrelevant

    return is_irrelevant(source)


def _is_commented(text: str) -> bool:
    # Looking for words in small letters is ten times as fast as a pattern that takes all letters.
    return "gpudoctor" in text or ("noqa" in text and re.search(_NOQA, text) is not None)


def glance_at_all(paths: Sequence[str]) -> list[FileTraits | Unreadable]:
    """Look at many files, one after the other: no more than one tree is kept at a time."""
    was_enabled = gc.isenabled()
    # Trees hold no cycles: the collector would look at them again and again for nothing.
    gc.disable()
    try:
        return [glance(read_source(path)) for path in paths]
    finally:
        if was_enabled:
            gc.enable()


def settled(looks: Iterable[FileTraits], sources: Sources) -> Iterator[FileTraits]:
    """What the project says of the role of a file: whether a command starts it, and where its calls lead."""
    for look in looks:
        if look.role is not Role.MAIN and started_in(look.path):
            look = replace(look, role=Role.MAIN)
        elif look.role is Role.SCRIPT and (look.quiet or in_package(look.path)):
            project, module = project_of(look.path, sources)
            if module is not None and classify(module, project).role is Role.PART:
                look = replace(look, role=Role.PART)
        yield look
