"""What each of the files that were found is at first sight, and which of them could say something about training."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from gpudoctor.lint.discovery.classify import classify, glance, glance_at_all, settled
from gpudoctor.lint.discovery.content_signs import concerns_training
from gpudoctor.lint.runtime.workers import in_processes, processes_for
from gpudoctor.lint.source.file import NOTEBOOK, SourceFile, Sources, Unreadable
from gpudoctor.lint.source.file_traits import FileTraits, Role
from gpudoctor.lint.source.layout import in_package
from gpudoctor.lint.source.project import project_of
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    # Nobody reads what a field is, and most projects have no notebooks.
    from gpudoctor.lint.discovery.find_files import FilesFound
    from gpudoctor.lint.discovery.written_files import Origin  # noqa: TC004
    from gpudoctor.lint.request import Request
    from gpudoctor.lint.runtime.cache import Cache

_MOST_TREES = 200
"""Of more files the syntax trees are not all kept at once, but made again where a file is executed."""
_PART = 25
"""Of those, so many are looked at in one go, and by one process where there are several."""
_WORTH_A_PROCESS = 100
_WORTH_KEEPING = 20
"""Of fewer files what was seen is not kept: parsing them takes no time, and hooks name other files each time."""


@dataclass(frozen=True)
class Listed:
    """The files of a request that could say something about training, and those that cannot be read.

    By how it is shown, `origins` tell of each that a notebook writes. All is `without_pytorch` where no file that was
    asked for, and none that such a file imports, names PyTorch or a library known to train with it.
    """

    seen: tuple[FileTraits, ...]
    unreadable: tuple[Unreadable, ...]
    origins: Mapping[str, Origin]
    without_pytorch: bool


def list_files(found: FilesFound, request: Request, sources: Sources, cache: Cache) -> Listed:
    """Look at those of the files found that could say something about training."""
    looks = _glances_at(found.telling, request, sources, cache)
    for path, is_named in found.others.items():
        started = _starting_through_helpers(path, sources)
        # Who names a file is told that it cannot be read, whatever it is about.
        if isinstance(started, SourceFile) or (started and is_named):
            looks.append(glance(started))
    seen = list(settled([look for look in looks if isinstance(look, FileTraits)], sources))
    origins: dict[str, Origin] = {}
    notebooks = [look for look in seen if look.shown.endswith(NOTEBOOK)]
    if notebooks:
        # Imported late: most projects have no notebooks.
        from gpudoctor.lint.discovery.written_files import written_files

        for origin, source in written_files(notebooks, sources):
            look = glance(source)
            origins[look.shown] = origin
            looks.append(look)
            seen += [look] if isinstance(look, FileTraits) else []
    unreadable = tuple(look for look in looks if isinstance(look, Unreadable))
    named = (project_of(path, sources) for path, is_named in found.others.items() if is_named)
    imported = (each for project, module in named if module is not None for each in project.imports_of(module))
    without_pytorch = not (found.telling or found.launch_files or unreadable) and not any(
        concerns_training(each.source.text.encode()) for each in imported
    )
    return Listed(tuple(seen), unreadable, origins, without_pytorch)


def _glances_at(
    digests: Mapping[str, str], request: Request, sources: Sources, cache: Cache
) -> list[FileTraits | Unreadable]:
    look = partial(_look, request, sources)
    few = len(digests) < _WORTH_KEEPING and request.memory is None
    return look([*digests]) if few else cache.glances(digests, look)


def _look(request: Request, sources: Sources, paths: Sequence[str]) -> list[FileTraits | Unreadable]:
    # What is executed next is kept: parsing it twice would take longer than all the rest of a small project.
    if len(paths) <= _MOST_TREES or request.edited:
        return [glance(sources.read(path)) for path in paths]
    parts = [paths[start : start + _PART] for start in range(0, len(paths), _PART)]
    jobs = processes_for(request.jobs, len(paths), _WORTH_A_PROCESS)
    return [look for part in in_processes(glance_at_all, parts, jobs) for look in part]


def _starting_through_helpers(path: str, sources: Sources) -> SourceFile | Unreadable | None:
    """The file, where it starts something and what it imports has to do with training, or where it cannot be read."""
    project, module = project_of(path, sources)
    if module is None:
        return next(iter(project.unreadable), None)
    what = classify(module, project)
    if what.role is Role.PART:
        return None
    # Imported late: few files start training without a word about it.
    from gpudoctor.lint.discovery.call_search import calls_own_code, may_train_unread, reaches_training

    if what.role is Role.SCRIPT:
        # In a package it is a script because of where its calls lead.
        if in_package(module.source.path):
            return module.source
        if not calls_own_code(what.deeds, module, project):
            return module.source if may_train_unread(module, project) else None
    return module.source if reaches_training(module, project) or may_train_unread(module, project) else None
