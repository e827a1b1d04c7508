"""Which entries are examined, and in which order."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Sequence

from gpudoctor.diagnostic import Finding
from gpudoctor.lint.discovery.select import Listed
from gpudoctor.lint.request import OnProgress, Request
from gpudoctor.lint.runtime.entry_result import EntryResult
from gpudoctor.lint.source.file import NOTEBOOK, Sources
from gpudoctor.lint.source.file_traits import FileTraits, Role
from gpudoctor.record import replace

Results = Callable[[Sequence[str]], "Iterator[EntryResult]"]
"""What comes of entries, in order, given by their paths."""

_MOST_HELPERS = 10
"""Of so many files it is asked which programs of the project import them; more are a whole listing."""


def examine_in_order(
    listed: Listed, request: Request, sources: Sources, results: Results, watch: OnProgress
) -> list[EntryResult]:
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
        ended: list[EntryResult] = []
        total = len(listed.seen)
        if files:
            watch(len(examined), total, files[0].shown)
        for result in results([file.path for file in files]):
            ended.append(result)
            coming = files[len(ended)].shown if len(ended) < len(files) else ""
            watch(len(examined) + len(ended), total, coming)
        return ended

    examined += examine(unread(Role.MAIN))
    # A test is a program only to its runner: what it imports is no less of a program for it.
    examined += _not_imported(examine(unread(Role.SCRIPT, tests)), tests)
    helpers = unread(Role.PART)
    # A helper read through its program has real arguments; on its own it has none.
    few = 0 < len(helpers) <= _MOST_HELPERS
    through = list(_through_importers(helpers, done, request, sources, results)) if few else []
    examined += through
    # Where only built-in rules run, it is known what they are about.
    built_in, read = request.only_built_in, _read_by(through)
    examined += examine([file for file in helpers if not (file.quiet and built_in) and file.shown not in read])
    return examined


def _read_by(results: Iterable[EntryResult]) -> frozenset[str]:
    return frozenset().union(*(each.files for each in results))


def _through_importers(
    files: Sequence[FileTraits], done: Container[str], request: Request, sources: Sources, results: Results
) -> Iterator[EntryResult]:
    """Helpers that are linted alone, read through a program that imports them. Other files stay unmentioned.

    The programs of the request are `done`: none of them has read these files.
    """
    # Imported late: mostly whole folders are linted, or programs.
    from gpudoctor.lint.discovery.importers import MOST_PROGRAMS, Importers

    importers = Importers(sources, respect_gitignore=request.respect_gitignore)
    found: list[EntryResult] = []
    tried: dict[str, EntryResult] = {}
    for file in files:
        if file.shown in _read_by(found):
            continue
        # Each of them may use another part of the file.
        for path in importers.of(file.path, done):
            if path not in tried:
                tried[path] = next(results([path]))
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
