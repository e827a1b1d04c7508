"""What a file is to the project it lies in: a program, or a part of one. Asked here, and nowhere else.

A file is judged by its syntax tree. Only where a module of a package does something at its top level, which may be no
more than to register its classes, is it asked where these calls lead, through the files that it imports.
"""

from __future__ import annotations

import ast
import builtins
import gc
import os
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.lint.discovery.commands import commands_in, is_command
from gpudoctor.lint.discovery.prefilter import is_irrelevant
from gpudoctor.lint.discovery.reach import at_top, leads_to_training, name_parts
from gpudoctor.lint.source.file import SourceFile, Unreadable, read_source
from gpudoctor.lint.source.file_queries import real_path
from gpudoctor.lint.source.file_traits import FileTraits, Role
from gpudoctor.lint.source.layout import is_package
from gpudoctor.lint.source.project import Project
from gpudoctor.manifest.compiled import prefixes
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.lint.source.project import ModuleFile, Sources

_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_ACTING = (ast.Expr, ast.Raise, ast.For, ast.While, ast.AsyncFor)


@dataclass(frozen=True)
class Classified:
    """The role of a file and why it has it: `because` completes the sentence "the file …".

    `commands` are the functions that start the program where it is one by a name of its project alone.
    """

    role: Role
    because: str
    line: int = 1
    commands: tuple[str, ...] = ()


# --- the one answer ---------------------------------------------------------------------------------------------------


def classify(module: ModuleFile, project: Project) -> Classified:
    """What this file is."""
    alone = classify_alone(module.source)
    if alone.role is Role.MAIN:
        return alone
    commands = commands_in(module, project)
    if commands:
        return Classified(Role.MAIN, f"is where the project's commands start: {', '.join(commands)}", 1, commands)
    if alone.role is Role.PART or not is_part_of_package(module.source):
        return alone
    if leads_to_training(deeds_of(module.source.tree), module, project):
        return Classified(Role.SCRIPT, "calls at its top level what trains", alone.line)
    return Classified(Role.PART, "registers or prepares something when it is imported, and trains nothing", alone.line)


def classify_alone(source: SourceFile) -> Classified:
    """What the file is as far as it says itself; the `SCRIPT` of a package may be a `PART` by what it leads to."""
    # Nobody imports a notebook: what it does is what it is for.
    if source.cells is not None:
        return Classified(Role.MAIN, "is a notebook")
    name = os.path.basename(source.path)
    if name == "__main__.py":
        return Classified(Role.MAIN, "is what `python -m` starts of its package")
    guard = next((each for each in at_top(source.tree.body) if _is_main_guard(each)), None)
    if guard is not None:
        return Classified(Role.MAIN, "has a main guard", guard.lineno)
    started = _started_by_decorator(source.tree)
    if started is not None:
        return Classified(Role.MAIN, "is started by the decorator of a function", started.lineno)
    if name == "__init__.py":
        return Classified(Role.PART, "makes a package of its folder")
    deed = next(deeds_of(source.tree), None)
    if deed is not None:
        return Classified(Role.SCRIPT, "does something at its top level", deed.lineno)
    if _computes(source.tree) and not is_part_of_package(source) and not is_irrelevant(source):
        return Classified(Role.SCRIPT, "computes something and defines nothing")
    return Classified(Role.PART, "only defines things")


def is_part_of_package(source: SourceFile) -> bool:
    """It lies in a package, so that others import it where it does not say that it is a program."""
    return is_package(os.path.dirname(source.path))


def deeds_of(tree: ast.Module) -> Iterator[ast.stmt]:
    """The statements that do something when the file is imported: calls and loops, but for mere preparation."""
    statements = list(at_top(tree.body))
    acting = [each for each in statements if isinstance(each, _ACTING)]
    # Most modules only define things: nobody asks what their names stand for.
    if acting:
        defined = {each.name for each in statements if isinstance(each, _DEFINITIONS)}
        imported = dict(_imported_in(statements))
        yield from (each for each in acting if _acts(each, imported, defined))


def _imported_in(statements: Iterable[ast.stmt]) -> Iterator[tuple[str, str]]:
    """Names that imports bind, with the library that they are from."""
    for each in statements:
        if isinstance(each, ast.Import):
            yield from ((alias.asname or alias.name.partition(".")[0], alias.name) for alias in each.names)
        elif isinstance(each, ast.ImportFrom) and not each.level:
            yield from ((alias.asname or alias.name, each.module or "") for alias in each.names)


def _acts(statement: ast.stmt, imported: dict[str, str], defined: set[str]) -> bool:
    if isinstance(statement, ast.Expr):
        value = statement.value
        return isinstance(value, (ast.Call, ast.Await)) and not _prepares(value, imported, defined)
    if isinstance(statement, ast.Raise):
        # `raise SystemExit(main())`
        error = statement.exc
        return isinstance(error, ast.Call) and name_parts(error) == ["SystemExit"] and bool(error.args)
    return True


_PREPARING = sys.stdlib_module_names | {"matplotlib", "numpy"}
_BUILTINS = frozenset(vars(builtins))


def _prepares(value: ast.expr, imported: dict[str, str], defined: set[str]) -> bool:
    """`warnings.filterwarnings("ignore")`, `sys.path.append(str(here))`: no work, and none of the file's own code."""
    called = [name_parts(each)[0] for each in ast.walk(value) if isinstance(each, ast.Call)]
    if called and not _is_of_preparation(called[0], imported):
        return False
    if not all(name in _BUILTINS or _is_of_preparation(name, imported) for name in called[1:]):
        return False
    return not any(isinstance(each, ast.Name) and each.id in defined for each in ast.walk(value))


def _is_of_preparation(name: str, imported: dict[str, str]) -> bool:
    return imported.get(name, "").partition(".")[0] in _PREPARING


def _is_main_guard(statement: ast.stmt) -> bool:
    """`if __name__ == "__main__":`, also as a part of a longer test."""
    if not isinstance(statement, ast.If):
        return False
    parts = list(ast.walk(statement.test))
    return any(isinstance(each, ast.Name) and each.id == "__name__" for each in parts) and any(
        isinstance(each, ast.Constant) and each.value == "__main__" for each in parts
    )


def _started_by_decorator(tree: ast.Module) -> ast.stmt | None:
    """The function that `@call_parse` calls when the file is the program."""
    imported: dict[str, str] | None = None
    for each in tree.body:
        for decorator in each.decorator_list if isinstance(each, _DEFINITIONS) else ():
            first, *_ = parts = name_parts(decorator)
            if parts[-1] in _STARTING:
                imported = dict(_imported_in(tree.body)) if imported is None else imported
                if imported.get(first, "").partition(".")[0] in _STARTING[parts[-1]]:
                    return each
    return None


_STARTING: dict[str, set[str]] = {}
"""What decorators are called that start their function, and the libraries that have such a one."""
for _name in prefixes("starts"):
    _STARTING.setdefault(_name.rpartition(".")[2], set()).add(_name.partition(".")[0])


def _computes(tree: ast.Module) -> bool:
    """A script of assignments only, such as a tutorial's, has nothing that another file could import."""
    if any(isinstance(each, _DEFINITIONS) for each in tree.body):
        return False
    return any(isinstance(each, ast.Assign) and isinstance(each.value, ast.Call) for each in tree.body)


def is_test(source: SourceFile) -> bool:
    """pytest or unittest collects what the file defines: by their rules, not by a guess at its name."""
    name, classes = os.path.basename(source.path), [each for each in source.tree.body if isinstance(each, ast.ClassDef)]
    if any(name_parts(base)[-1].endswith("TestCase") for each in classes for base in each.bases):
        return True
    if name == "conftest.py":
        return True
    functions = [each for each in source.tree.body if isinstance(each, (ast.FunctionDef, ast.AsyncFunctionDef))]
    collected = name.startswith("test_") or name.endswith("_test.py")
    return collected and (
        any(each.name.startswith("test") for each in functions) or any(each.name.startswith("Test") for each in classes)
    )


# --- many files -------------------------------------------------------------------------------------------------------


_NOQA = r"noqa[^\n]*gpu"


_ACTS = rb"(?m)^(?:[A-Za-z_][\w.]*\(|(?:if|for|while|with)\b|raise SystemExit)"


def may_start(path: str, raw: bytes) -> bool:
    """The file may be a program. A look at its bytes, so that what cannot be one costs no parse."""
    name = os.path.basename(path)
    known = b"__main__" in raw or any(each.encode() in raw for each in _STARTING)
    return name == "__main__.py" or known or bool(re.search(_ACTS, raw)) or is_command(real_path(path))


def glance(source: SourceFile) -> FileTraits:
    """Look at a file that was read, without asking where it leads."""
    role = classify_alone(source).role
    may_be_part = role is Role.PART or (role is Role.SCRIPT and is_part_of_package(source))
    # That a cell cannot be read is said by whoever examines the notebook.
    quiet = may_be_part and not source.flaws and is_irrelevant(source)
    return FileTraits(source.path, source.shown, role, quiet, _is_commented(source.text.lower()), is_test(source))


def _is_commented(text: str) -> bool:
    # Looking for words in small letters is ten times as fast as a pattern that takes all letters.
    return "gpudoctor" in text or ("noqa" in text and re.search(_NOQA, text) is not None)


def glance_at_all(paths: Sequence[str]) -> list[FileTraits | Unreadable]:
    """Look at many files, one after the other: no more than one tree is kept at a time."""
    was_enabled = gc.isenabled()
    # Trees hold no cycles: the collector would look at them again and again for nothing.
    gc.disable()
    try:
        return [_glance_at(path) for path in paths]
    finally:
        if was_enabled:
            gc.enable()


def _glance_at(path: str) -> FileTraits | Unreadable:
    # A link that leads nowhere is known by its own name.
    source = read_source(os.path.realpath(path) if os.path.exists(path) else path)
    return glance(source) if isinstance(source, SourceFile) else source


def settled(looks: Iterable[FileTraits], sources: Sources) -> Iterator[FileTraits]:
    """What the project says of the role of a file: whether a command starts it, and where its calls lead."""
    for look in looks:
        if look.role is not Role.MAIN and (is_command(look.path) or _may_be_part(look)):
            project = Project(look.path, sources)
            module = project.module_of(look.path)
            look = look if module is None else look._replace(role=classify(module, project).role)
        yield look


def _may_be_part(look: FileTraits) -> bool:
    return look.role is Role.SCRIPT and is_package(os.path.dirname(look.path))
