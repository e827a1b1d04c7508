"""Which entries are examined, in which order, and by which process."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from gpudoctor.lint.discovery.select import STDIN, Listed
from gpudoctor.lint.request import Request
from gpudoctor.lint.runtime.cache import Cache
from gpudoctor.lint.runtime.garbage import SeldomCollecting
from gpudoctor.lint.runtime.workers import in_processes, processes_for
from gpudoctor.lint.source.file import NOTEBOOK
from gpudoctor.lint.source.file_traits import Role
from gpudoctor.lint.source.project import Sources
from gpudoctor.record import dataclass, replace
from gpudoctor.registry import only_built_in

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Finding
    from gpudoctor.lint.entry_result import EntryResult
    from gpudoctor.lint.request import Watch
    from gpudoctor.lint.source.file_traits import FileTraits

_WORTH_A_PROCESS = 8
"""Entries from which on it is quicker to start one more process than to do without."""
_PART = 8
"""Entries that a process takes at a time: neighbours, because they share what they import."""

_MOST_TOGETHER = 50
"""Entries that are examined with all their files kept, where there is only one process."""
_MOST_HELPERS = 10
"""Of so many files it is asked which programs of the project import them; more are a whole listing."""


@dataclass(frozen=True)
class LintContext:
    """What examining an entry takes."""

    request: Request
    sources: Sources
    cache: Cache


def examine_in_order(listed: Listed, context: LintContext, watch: Watch) -> list[EntryResult]:
    """Examine what surely is a program first: what it imports need not be examined on its own."""
    examined: list[EntryResult] = []
    done: set[str] = set()
    tests = {file.shown for file in listed.seen if file.is_test}

    def unread(role: Role, passed_over: Container[str] = ()) -> list[FileTraits]:
        # What is found in scripts must not hang on a notebook that imports a part of them.
        readers = (each for each in examined if not each.shown.endswith(NOTEBOOK) and each.shown not in passed_over)
        read = _read_by(readers)
        return [file for file in listed.seen if file.role is role and file.shown not in read]

    def examine(files: Sequence[FileTraits]) -> list[EntryResult]:
        done.update(file.path for file in files)
        results: list[EntryResult] = []
        for result in _examine([file.path for file in files], context):
            results.append(result)
            watch(len(examined) + len(results), len(listed.seen))
        return results

    examined += examine(unread(Role.MAIN))
    # A test is a program only to its runner: what it imports is no less of a program for it.
    examined += _not_imported(examine(unread(Role.SCRIPT, tests)), tests)
    helpers = unread(Role.PART)
    # A helper read through its program has real arguments; on its own it has none.
    through = list(_through_importers(helpers, done, context)) if 0 < len(helpers) <= _MOST_HELPERS else []
    examined += through
    # Where only built-in rules run, it is known what they are about.
    built_in, read = only_built_in(context.request.rules), _read_by(through)
    examined += examine([file for file in helpers if not (file.quiet and built_in) and file.shown not in read])
    return examined


def _read_by(results: Iterable[EntryResult]) -> frozenset[str]:
    return frozenset().union(*(each.files for each in results))


def _through_importers(
    files: Sequence[FileTraits], done: Container[str], context: LintContext
) -> Iterator[EntryResult]:
    """Helpers that are linted alone, read through a program that imports them. Other files stay unmentioned.

    The programs of the request are `done`: none of them has read these files.
    """
    # Imported late: mostly whole folders are linted, or programs.
    from gpudoctor.lint.discovery.importers import MOST_PROGRAMS, Importers

    importers = Importers(context.sources, respect_gitignore=context.request.respect_gitignore)
    found: list[EntryResult] = []
    tried: dict[str, EntryResult] = {}
    for file in files:
        if file.shown in _read_by(found):
            continue
        # Each of them may use another part of the file.
        for path in importers.of(file.path, done):
            if path not in tried:
                tried[path] = next(_examine([path], context))
            if file.shown in tried[path].files and tried[path] not in found:
                found.append(tried[path])
            if sum(file.shown in each.files for each in found) == MOST_PROGRAMS:
                break
    listed = {file.shown for file in files}
    for each in found:
        kept = tuple(finding for finding in each.findings if not listed.isdisjoint(_places(finding)))
        yield replace(each, findings=kept)


def _places(finding: Finding) -> Iterator[str]:
    """The files in which a finding stands: the mistake itself, and what led to it."""
    yield finding.location.path
    yield from (related.location.path for related in finding.related)


def _not_imported(results: Sequence[EntryResult], tests: set[str]) -> list[EntryResult]:
    """Without those that another one has read: a module that acts when it is imported is no program of its own."""
    kept = list(results)
    for result in results:
        if any(result.shown in other.files for other in kept if other is not result and other.shown not in tests):
            kept.remove(result)
    return kept


def _examine(paths: Sequence[str], context: LintContext) -> Iterator[EntryResult]:
    """Examine entries in order, as far as no earlier run has."""
    known = {path: found for path in paths if (found := context.cache.find(path))}
    fresh = _execute([path for path in paths if path not in known], context)
    for path in paths:
        result = known.get(path)
        if result is None:
            result = next(fresh)
            context.cache.keep(path, result)
        yield result


def _execute(paths: Sequence[str], context: LintContext) -> Iterator[EntryResult]:
    # Imported late: where all is known already, the interpreter is not needed.
    from gpudoctor.lint.analyze import examine_all

    jobs = processes_for(context.request.jobs, len(paths), _WORTH_A_PROCESS)
    # What came from standard input is known to this process and these sources alone.
    if STDIN in context.request.paths or (jobs == 1 and len(paths) <= _MOST_TOGETHER):
        yield from examine_all(paths, context.request, context.sources)
        return
    parts = [paths[start : start + _PART] for start in range(0, len(paths), _PART)]
    for results in in_processes(_PartExaminer(context.request, context.sources.edited), parts, jobs):
        yield from results


_MOST_KEPT = 1_000_000
"""Characters of files that are kept, whose trees take about 30 times as many bytes."""


class _PartExaminer:
    """Examines one part after the other, and keeps the files that it has read: the middle of a large project is
    imported by all of it."""

    def __init__(self, request: Request, edited: Mapping[str, bytes]) -> None:
        self._request = request
        self._edited = edited
        self._kept: Sources | None = None

    def __call__(self, paths: Sequence[str]) -> list[EntryResult]:
        from gpudoctor.lint.analyze import examine_all

        results: list[EntryResult] = []
        with SeldomCollecting():
            for path in paths:
                # Asked before each: one entry alone may import a whole project.
                if self._kept is None or self._kept.size > _MOST_KEPT:
                    self._kept = Sources(self._edited)
                results += examine_all([path], self._request, self._kept)
        return results
