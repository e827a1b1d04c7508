"""Which files a request is about, and which of them are worth reading."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Problem
from gpudoctor.errors import nearest
from gpudoctor.lint.discovery.classify import (
    classify,
    glance,
    glance_at_all,
    may_start,
    settled,
)
from gpudoctor.lint.discovery.top_level import calls_own_code, may_train_unread, reaches_training
from gpudoctor.lint.discovery.walk import collect, concerns_training, is_excluded, speaks_of_training
from gpudoctor.lint.runtime.workers import in_processes, processes_for
from gpudoctor.lint.size_limits import most_bytes
from gpudoctor.lint.source.encoding import plain_bytes
from gpudoctor.lint.source.file import NOTEBOOK, SourceFile, Unreadable, read_source
from gpudoctor.lint.source.file_queries import digest_of, real_path
from gpudoctor.lint.source.file_traits import FileTraits, Role
from gpudoctor.lint.source.layout import in_package
from gpudoctor.lint.source.project import Sources, project_of
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    # Nobody reads what a field is, and most projects have no notebooks.
    from gpudoctor.lint.discovery.written_files import Origin  # noqa: TC004
    from gpudoctor.lint.request import Request
    from gpudoctor.lint.runtime.cache import Cache

STDIN = "-"
_MOST_TREES = 200
"""Of more files the syntax trees are not all kept at once, but made again where a file is executed."""
_PART = 25
"""Of those, so many are looked at in one go, and by one process where there are several."""
_WORTH_A_PROCESS = 100
_WORTH_KEEPING = 20
"""Of fewer files what was seen is not kept: parsing them takes no time, and hooks name other files each time."""


@dataclass(frozen=True)
class Listed:
    """The files of a request.

    `seen` are those that could say something; `count` also counts those that have nothing to do with training. By how
    it is shown, `origins` tell of each that a notebook writes.
    """

    seen: tuple[FileTraits, ...]
    unreadable: tuple[Unreadable, ...]
    problems: tuple[Problem, ...]
    count: int
    origins: Mapping[str, Origin]


def list_files(request: Request, sources: Sources, cache: Cache) -> Listed:
    """Find the files of a request, and look at those that could say something about training; `sources` know from now
    what stands for one on standard input."""
    stdin = os.path.realpath(request.stdin_name)
    if STDIN in request.paths:
        sources.edited = {**sources.edited, stdin: request.stdin}
    named = sorted(path for path in request.paths if path != STDIN)
    there = [path for path in named if os.path.lexists(path)]
    paths, messages = collect(there, request.exclude, respect_gitignore=request.respect_gitignore)
    # What is found must not hang on the order in which somebody names files: which of two programs comes first decides
    # through which one a helper is read.
    paths = sorted((path for path in paths if not is_excluded(path, request.exclude)), key=_as_walked)
    problems = [_missing(path) for path in named if not os.path.lexists(path)]
    problems += [Problem("", message) for message in messages]
    plain, thin = _sorted_out(paths, frozenset(named), cache, request.edited)
    looks = _glances_at(plain, request, sources, cache)
    if STDIN in request.paths:
        looks.append(_look(sources.read(stdin)))
    helped = ((path, _starting_through_helpers(path, sources)) for path in thin)
    # Who names a file is told that it cannot be read, whatever it is about.
    looks += [_look(found) for path, found in helped if isinstance(found, SourceFile) or (found and path in named)]
    seen = list(settled([look for look in looks if isinstance(look, FileTraits)], sources))
    written = _written_by([look for look in seen if look.shown.endswith(NOTEBOOK)], sources)
    looks += [look for _, look in written]
    return Listed(
        seen=(*seen, *(look for _, look in written if isinstance(look, FileTraits))),
        unreadable=tuple(look for look in looks if isinstance(look, Unreadable)),
        problems=tuple(problems),
        count=len(paths) + (STDIN in request.paths),
        origins={look.shown: origin for origin, look in written},
    )


def _written_by(notebooks: Sequence[FileTraits], sources: Sources) -> list[tuple[Origin, FileTraits | Unreadable]]:
    if not notebooks:
        return []
    # Imported late: most projects have no notebooks.
    from gpudoctor.lint.discovery.written_files import written_files

    return [(origin, _look(source)) for origin, source in written_files(notebooks, sources)]


def _as_walked(path: str) -> tuple[list[str], str]:
    """Where a walk over all folders comes by a file: a folder's own files come first."""
    folder, name = os.path.split(real_path(path))
    return folder.split(os.sep), name


def _sorted_out(
    paths: Sequence[str], named: frozenset[str], cache: Cache, edited: Mapping[str, bytes]
) -> tuple[list[str], list[str]]:
    """The files that name training, and those that do not and may yet start it through helpers of their own."""
    plain: list[str] = []
    others: list[tuple[str, bool]] = []
    for path in paths:
        raw = edited.get(real_path(path)) if edited else None
        raw = _raw(path) if raw is None else raw
        # What cannot be opened is read all the same: reading says why it cannot. Our own directives are judged wherever
        # they stand.
        if raw is None or concerns_training(plain_bytes(raw)) or b"gpudoctor:" in raw:
            plain.append(path)
            if raw is not None and len(raw) <= most_bytes(path):
                cache.note_content(real_path(path), digest_of(raw))
        elif path in named or may_start(path, raw):
            others.append((path, speaks_of_training(raw)))
    # In a folder of files that have nothing to do with training, none is looked at but those that were named, and those
    # that may have a library run it.
    return plain, [path for path, trains in others if plain or path in named or trains]


def _glances_at(
    paths: Sequence[str], request: Request, sources: Sources, cache: Cache
) -> list[FileTraits | Unreadable]:
    if len(paths) < _WORTH_KEEPING:
        return [_look(_read(path, sources)) for path in paths]
    known = {path: old for path in paths if (old := cache.find_glance(real_path(path))) is not None}
    new = [path for path in paths if path not in known]
    # What is executed next is kept: parsing it twice would take longer than all the rest of a small project.
    if len(new) <= _MOST_TREES or request.edited:
        fresh = {path: _look(_read(path, sources)) for path in new}
    else:
        parts = [new[start : start + _PART] for start in range(0, len(new), _PART)]
        jobs = processes_for(request.jobs, len(new), _WORTH_A_PROCESS)
        found = (look for part in in_processes(glance_at_all, parts, jobs) for look in part)
        fresh = dict(zip(new, found, strict=True))
    looks = [known.get(path) or fresh[path] for path in paths]
    cache.keep_glances([look for look in looks if isinstance(look, FileTraits)], changed=bool(new))
    return looks


def _look(source: SourceFile | Unreadable) -> FileTraits | Unreadable:
    return glance(source) if isinstance(source, SourceFile) else source


def _read(path: str, sources: Sources) -> SourceFile | Unreadable:
    # A link that leads nowhere is known by its own name.
    return sources.read(real_path(path)) if os.path.exists(path) else read_source(path)


def _missing(path: str) -> Problem:
    folder, name = os.path.split(path)
    try:
        hint = nearest(name, os.listdir(folder or "."))
    except OSError:
        hint = ""
    return Problem(path, f"there is no such file or folder{hint}")


def _raw(path: str) -> bytes | None:
    if not os.path.isfile(path):
        return None
    try:
        with open(path, "rb") as file:
            return file.read(most_bytes(path) + 1)
    except OSError:
        return None


def _starting_through_helpers(path: str, sources: Sources) -> SourceFile | Unreadable | None:
    """The file, where it starts something and what it imports has to do with training, or where it cannot be read."""
    project, module = project_of(path, sources)
    if module is None:
        return next(iter(project.unreadable), None)
    what = classify(module, project)
    if what.role is Role.PART:
        return None
    if what.role is Role.SCRIPT:
        # In a package it is a script because of where its calls lead.
        if in_package(module.source.path):
            return module.source
        if not calls_own_code(what.deeds, module, project):
            return module.source if may_train_unread(module, project) else None
    return module.source if reaches_training(module, project) or may_train_unread(module, project) else None
