"""The pipeline of lint, as an outline: files, programs, rules, findings."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container, Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.diagnostic import Finding, Location, Problem
from gpudoctor.lint.discovery.importers import MOST_PROGRAMS, Importers
from gpudoctor.lint.discovery.select import STDIN, Listed, list_files
from gpudoctor.lint.discovery.walk import is_excluded
from gpudoctor.lint.discovery.written_files import written_files
from gpudoctor.lint.request import Outcome, Request
from gpudoctor.lint.results.merge import UNREADABLE, merged, unreadable_finding, wanted
from gpudoctor.lint.results.positions import Places
from gpudoctor.lint.results.unfollowed import told_once
from gpudoctor.lint.runtime.cache import Cache
from gpudoctor.lint.runtime.garbage import SeldomCollecting
from gpudoctor.lint.runtime.workers import in_processes, processes_for
from gpudoctor.lint.size_limits import MAX_FILE_BYTES
from gpudoctor.lint.source.file import NOTEBOOK, SourceFile, Unreadable
from gpudoctor.lint.source.file_queries import remembering
from gpudoctor.lint.source.file_traits import Role
from gpudoctor.lint.source.project import Sources
from gpudoctor.record import dataclass, replace
from gpudoctor.registry import BUILT_IN

if TYPE_CHECKING:
    from gpudoctor.lint.entry_result import EntryResult
    from gpudoctor.lint.source.file_traits import FileTraits

Watch = Callable[[int, int], None]
"""Is told how many entries are done, and of how many."""

_WORTH_A_PROCESS = 8
"""Entries from which on it is quicker to start one more process than to do without."""
_PART = 8
"""Entries that a process takes at a time: neighbours, because they share what they import."""

_MOST_TOGETHER = 50
"""Entries that are examined with all their files kept, where there is only one process."""


@remembering()
def lint(request: Request, watch: Watch = lambda done, total: None) -> Outcome:
    """Lint the files of a request."""
    # One cache for all entries: programs of a project import the same helpers.
    sources = Sources(request.edited)
    with Cache(request, sources) as cache:
        listed = list_files(request, sources, cache)
        written = written_files(listed.seen, sources)
        if written.origins:
            listed = replace(
                listed, seen=(*listed.seen, *written.seen), unreadable=(*listed.unreadable, *written.unreadable)
            )
            request = replace(request, edited={**request.edited, **written.data})
        importers = Importers(sources, respect_gitignore=request.respect_gitignore)
        examined = _examine_in_order(listed, _Work(request, sources, cache, importers), watch)
    unreadable, newer = _unreadable(listed, examined, request)
    places, whole = Places(_source_of(sources), written.origins), _seen_whole(examined, request)
    too_new = _too_new([places.of(file.location) for file in newer], newer)
    card = request.card(UNREADABLE)
    found = merged(finding for each in examined for finding in each.findings)
    found += [unreadable_finding(file, card) for file in unreadable if card]
    commented = [each.shown for each in listed.seen if each.commented]
    kept = wanted(found, request, places.source_of, commented, whole)
    programs = [program for each in examined for program in each.coverage]
    covered = told_once(programs, {each.shown for each in listed.seen})
    return Outcome(
        findings=tuple(places.placed(finding) for finding in kept),
        files=listed.count,
        problems=(*listed.problems, *too_new),
        failures=tuple(failure for each in examined for failure in each.failures),
        read=tuple(sorted({each.shown for each in listed.seen}.union(*(each.files for each in examined)))),
        unread=() if card else tuple(places.unread(file) for file in unreadable),
        partly=tuple(Problem(each.shown, _in_part(each.limits)) for each in examined if each.limits),
        lines=lambda at: _lines(at, places, sources),
        too_new=len({file.shown for file in newer if not file.in_cell}),
        programs=tuple(map(places.covered, covered)),
    )


@dataclass(frozen=True)
class _Work:
    """What examining an entry takes."""

    request: Request
    sources: Sources
    cache: Cache
    importers: Importers


def _examine_in_order(listed: Listed, work: _Work, watch: Watch) -> list[EntryResult]:
    """Examine what surely is a program first: what it imports need not be examined on its own."""
    examined: list[EntryResult] = []
    done: set[str] = set()
    tests = {file.shown for file in listed.seen if file.is_test}
    # A helper read through its program has real arguments; on its own it has none.
    for level in (Role.MAIN, Role.SCRIPT, Role.PART):
        # What is found in scripts must not hang on a notebook that imports a part of them. A test is a program only to
        # its runner: what it imports is no less of a program for it.
        passed_over = tests if level is Role.SCRIPT else set[str]()
        readers = [each for each in examined if not each.shown.endswith(NOTEBOOK) and each.shown not in passed_over]
        read = frozenset().union(*(each.files for each in readers))
        files = [file for file in listed.seen if file.role is level and file.shown not in read]
        through = _through_importers(files, done, work) if level is Role.PART else []
        examined += through
        # Where only built-in rules run, it is known what they are about.
        if level is Role.PART and all(card.module.startswith(f"{BUILT_IN}.") for card in work.request.rules):
            files = [file for file in files if not file.quiet]
        paths = [file.path for file in files if not any(file.shown in each.files for each in through)]
        done.update(paths)
        results = []
        for result in _examine(paths, work):
            results.append(result)
            watch(len(examined) + len(results), len(listed.seen))
        examined += _not_imported(results, tests) if level is Role.SCRIPT else results
    return examined


_MOST_HELPERS = 10
"""Of so many files it is asked which programs of the project import them; more are a whole listing."""


def _through_importers(files: Sequence[FileTraits], done: Container[str], work: _Work) -> list[EntryResult]:
    """Helpers that are linted alone, read through a program that imports them. Other files stay unmentioned.

    The programs of the request are `done`: none of them has read these files.
    """
    found: list[EntryResult] = []
    tried: dict[str, EntryResult] = {}
    for file in files if len(files) <= _MOST_HELPERS else ():
        if any(file.shown in each.files for each in found):
            continue
        # Each of them may use another part of the file.
        for path in work.importers.of(file.path, done):
            if path not in tried:
                tried[path] = next(_examine([path], work))
            if file.shown in tried[path].files and tried[path] not in found:
                found.append(tried[path])
            if sum(file.shown in each.files for each in found) == MOST_PROGRAMS:
                break
    listed = {file.shown for file in files}
    return [
        replace(each, findings=tuple(finding for finding in each.findings if not listed.isdisjoint(_places(finding))))
        for each in found
    ]


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


def _examine(paths: Sequence[str], work: _Work) -> Iterator[EntryResult]:
    """Examine entries in order, as far as no earlier run has."""
    known = {path: found for path in paths if (found := work.cache.find(path))}
    fresh = _execute([path for path in paths if path not in known], work)
    for path in paths:
        result = known.get(path)
        if result is None:
            result = next(fresh)
            work.cache.keep(path, result)
        yield result


def _execute(paths: Sequence[str], work: _Work) -> Iterator[EntryResult]:
    # Imported late: where all is known already, the interpreter is not needed.
    from gpudoctor.lint.analyze import examine_all

    jobs = processes_for(work.request.jobs, len(paths), _WORTH_A_PROCESS)
    # What came from standard input is known to this process and these sources alone.
    if STDIN in work.request.paths or (jobs == 1 and len(paths) <= _MOST_TOGETHER):
        yield from examine_all(paths, work.request, work.sources)
        return
    parts = [paths[start : start + _PART] for start in range(0, len(paths), _PART)]
    for results in in_processes(_PartExaminer(work.request), parts, jobs):
        yield from results


_MOST_KEPT = 1_000_000
"""Characters of files that are kept, whose trees take about 30 times as many bytes."""


class _PartExaminer:
    """Examines one part after the other, and keeps the files that it has read: the middle of a large project is
    imported by all of it."""

    def __init__(self, request: Request) -> None:
        self._request = request
        self._kept: Sources | None = None

    def __call__(self, paths: Sequence[str]) -> list[EntryResult]:
        from gpudoctor.lint.analyze import examine_all

        results: list[EntryResult] = []
        with SeldomCollecting():
            for path in paths:
                # Asked before each: one entry alone may import a whole project.
                if self._kept is None or self._kept.size > _MOST_KEPT:
                    self._kept = Sources(self._request.edited)
                results += examine_all([path], self._request, self._kept)
        return results


def _unreadable(
    listed: Listed, examined: Sequence[EntryResult], request: Request
) -> tuple[list[Unreadable], list[Unreadable]]:
    """Each once, also where several programs import it: those that no Python reads, and those that a newer one does."""
    found = {(file.shown, file.line): file for file in listed.unreadable}
    found |= {(file.shown, file.line): file for each in examined for file in each.unreadable}
    files = [file for file in found.values() if not is_excluded(file.shown, request.exclude)]
    if any(file.refused for file in files):
        # Imported late: few projects have such a file.
        from gpudoctor.lint.source.newer_syntax import asked_again

        files = asked_again(files)
    return [file for file in files if not file.is_newer], [file for file in files if file.is_newer]


_MOST_TOO_NEW = 5


def _too_new(places: Sequence[Location], files: Sequence[Unreadable]) -> Iterator[Problem]:
    """What is no mistake of the author's: gpudoctor itself needs another Python."""
    running = f"{sys.version_info[0]}.{sys.version_info[1]}"
    told = list(zip(places, files, strict=True))
    for at, file in told if len(told) <= _MOST_TOO_NEW else told[: _MOST_TOO_NEW - 1]:
        remedy = f"install it with Python {file.needs_python} or newer (`python{file.needs_python} -m pip install …`)"
        left = f"nothing in this {'cell' if at.cell else 'file'} was checked"
        yield Problem(
            f"{at.text}:{at.line}", f"{file.message}, and gpudoctor runs on Python {running}: {remedy}; {left}"
        )
    if len(told) > _MOST_TOO_NEW:
        needs = max((file.needs_python for file in files), key=lambda version: [*map(int, version.split("."))])
        yield Problem("", f"{len(told) - _MOST_TOO_NEW + 1} more files likewise; Python {needs} reads all of them")


def _in_part(limits: Sequence[str]) -> str:
    return f"not followed to its end ({'; '.join(limits)}): what was seen until then was judged, there may be more"


def _seen_whole(examined: Sequence[EntryResult], request: Request) -> frozenset[str]:
    """The files of which every line was followed in every world, as far as lint can."""
    # With one world asked for, what silences a finding of another looks unused.
    if request.launch != "auto":
        return frozenset()
    return frozenset(each.shown for each in examined if not each.partly)


def _source_of(sources: Sources) -> Callable[[str], SourceFile | None]:
    def source_of(path: str) -> SourceFile | None:
        source = sources.shown(path)
        return source if isinstance(source, SourceFile) else None

    return source_of


def _lines(at: Location, places: Places, sources: Sources) -> Sequence[str]:
    lines = places.lines(at)
    if lines is not None:
        return lines
    source = sources.shown(at.path)
    # A broken notebook shows JSON, often all on one line.
    if source.path.endswith(NOTEBOOK):
        return ()
    if not os.path.isfile(source.path):
        return ()
    try:
        with open(source.path, encoding="utf-8", errors="replace") as file:
            return file.read(MAX_FILE_BYTES).splitlines()
    # That it cannot be read is said already.
    except OSError:
        return ()
