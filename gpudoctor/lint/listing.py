"""Which files a request is about, and which of them are worth reading."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from gpudoctor.config import matches
from gpudoctor.diagnostic import Problem
from gpudoctor.errors import nearest
from gpudoctor.lint.dismiss import says_nothing
from gpudoctor.lint.entries import Start, start_of
from gpudoctor.lint.source.discover import collect, concerns_training
from gpudoctor.lint.source.file import SourceFile, Unreadable, parse_text, read_source, shown_path
from gpudoctor.lint.source.layout import project_root
from gpudoctor.lint.source.limits import MAX_FILE_BYTES
from gpudoctor.lint.source.project import ModuleFile, Package, Project, Sources
from gpudoctor.lint.source.scripts import started_in
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.lint.task import Request

STDIN = "-"
NOTEBOOK = "this is a notebook, which is not read: `jupyter nbconvert --to script` makes a program of it"
_MOST_TREES = 200
"""Of more files the syntax trees are not all kept at once."""
_MOST_HELPERS = 40
"""Files that are read to learn whether a script without a word about training starts it after all."""


@dataclass(frozen=True)
class Listed:
    """The files of a request.

    `starts` are those to execute, with how surely each is the start of a program; `quiet` the shown paths of those
    without an entry that are about nothing that a built-in rule is about; `judged` those whose comments are looked at;
    `count` also counts those that have nothing to do with training.
    """

    starts: tuple[tuple[SourceFile, Start], ...]
    quiet: frozenset[str]
    judged: tuple[str, ...]
    unreadable: tuple[Unreadable, ...]
    problems: tuple[Problem, ...]
    count: int


def list_files(request: Request, sources: Sources) -> Listed:
    """Find the files of a request, and read those that could say something about training."""
    named = [path for path in request.paths if path != STDIN]
    # The text of a notebook is often valid Python, in which nothing would be found.
    notebooks = [path for path in named if path.endswith(".ipynb") and os.path.isfile(path)]
    there = [Path(path) for path in named if os.path.lexists(path) and path not in notebooks]
    paths, messages = collect(there, request.exclude)
    paths = [path for path in paths if not is_excluded(str(path), request)]
    problems = [_missing(path) for path in named if not os.path.lexists(path)]
    problems += [Problem(path, NOTEBOOK) for path in notebooks]
    problems += [Problem("", message) for message in messages]
    plain = [path for path in paths if _concerns_training(path)]
    thin = [path for path in paths if path not in set(plain) and _could_start(path, named, bool(plain))]
    read = _reading(request, sources, plain, thin)
    looks = [_look(source, keep_tree=len(plain) <= _MOST_TREES) for source in read]
    found = [look for look in looks if isinstance(look, _Look)]
    return Listed(
        starts=tuple((look.file, look.start) for look in found),
        quiet=frozenset(look.file.shown for look in found if look.quiet),
        judged=tuple(look.file.shown for look in found),
        unreadable=tuple(look for look in looks if isinstance(look, Unreadable)),
        problems=tuple(problems),
        count=len(paths) + (STDIN in request.paths),
    )


class _Look(NamedTuple):
    """What was seen of a file."""

    file: SourceFile
    start: Start
    quiet: bool


def _reading(
    request: Request, sources: Sources, plain: Sequence[Path], thin: Sequence[Path]
) -> Iterator[SourceFile | Unreadable]:
    for path in plain:
        yield _read(path, sources)
    if STDIN in request.paths:
        yield _stdin(request, sources)
    for path in thin:
        source = _starting_through_helpers(path, sources)
        if source is not None:
            yield source


def _look(source: SourceFile | Unreadable, keep_tree: bool) -> _Look | Unreadable:
    if isinstance(source, Unreadable):
        return source
    start = _start_of(source)
    look = _Look(source, start, start is Start.NEVER and says_nothing(source))
    # Of many files most are not executed, and the others later.
    if not keep_tree:
        source.forget_tree()
    return look


def _start_of(file: SourceFile) -> Start:
    found = start_of(file.tree, file.path.name)
    root, marked = project_root(os.path.dirname(file.path)) if found is Start.NEVER else ("", False)
    # `[project.scripts]` starts a function by its name, so the file itself does nothing.
    return Start.MAIN if marked and started_in(str(file.path), root) else found


def is_excluded(path: str, request: Request) -> bool:
    """A file that is left out, also where it is named or imported."""
    return any(matches(pattern, path, "") for pattern in request.exclude)


def _read(path: Path, sources: Sources) -> SourceFile | Unreadable:
    # A link that leads nowhere is known by its own name.
    return sources.read(os.path.realpath(path)) if os.path.exists(path) else read_source(path)


def _missing(path: str) -> Problem:
    folder, name = os.path.split(path)
    try:
        hint = nearest(name, os.listdir(folder or "."))
    except OSError:
        hint = ""
    return Problem(path, f"there is no such file or folder{hint}")


def _concerns_training(path: Path) -> bool:
    """What cannot be opened is read all the same: reading says why it cannot."""
    raw = _raw(path)
    # Our own directives are judged wherever they stand.
    return raw is None or concerns_training(raw) or b"gpudoctor:" in raw


def _could_start(path: Path, named: Sequence[str], among_others: bool) -> bool:
    """A file without a word about training that may yet start it through helpers of its own.

    In a folder of files that have nothing to do with training, none is looked at.
    """
    if str(path) in named:
        return True
    return among_others and (path.name == "__main__.py" or b"__main__" in (_raw(path) or b""))


def _raw(path: Path) -> bytes | None:
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return file.read(MAX_FILE_BYTES)
    except OSError:
        return None


def _stdin(request: Request, sources: Sources) -> SourceFile | Unreadable:
    path = Path(os.path.realpath(request.stdin_name))
    source = parse_text(request.stdin, path, shown_path(path))
    sources.put(source)
    return source


def _starting_through_helpers(path: Path, sources: Sources) -> SourceFile | None:
    """The file, where it starts something and what it imports has to do with training."""
    project = Project(path, sources)
    module = project.module_of(path)
    if module is None or start_of(module.source.tree, path.name) is Start.NEVER:
        return None
    return module.source if _reaches_training(module, project) else None


def _reaches_training(start: ModuleFile, project: Project) -> bool:
    pending, seen = [start], {start}
    # A large project has hundreds of helpers; most trainings are found in the first few.
    while pending and len(seen) < _MOST_HELPERS:
        module = pending.pop()
        if concerns_training(module.source.text.encode("utf-8", "replace")):
            return True
        new = set(_imported(module, project)) - seen
        seen |= new
        pending += new
    return False


def _imported(module: ModuleFile, project: Project) -> Iterator[ModuleFile]:
    for node in ast.walk(module.source.tree):
        found: list[ModuleFile | Package | None] = []
        if isinstance(node, ast.Import):
            found = [project.find(module, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            package = project.find(module, node.module or "", node.level)
            found = [package]
            if package is not None:
                found += [project.submodule(package, alias.name) for alias in node.names]
        yield from (each for each in found if isinstance(each, ModuleFile))
