"""The answer of lint, from what came out of its entries."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence

from gpudoctor.config import is_excluded
from gpudoctor.diagnostic import Location, Problem
from gpudoctor.lint.discovery.find_files import FilesFound
from gpudoctor.lint.discovery.select import Listed
from gpudoctor.lint.request import Outcome, Request
from gpudoctor.lint.results.all_programs import told_once
from gpudoctor.lint.results.merge import UNREADABLE, merged, unreadable_finding, wanted
from gpudoctor.lint.results.positions import Places
from gpudoctor.lint.runtime.entry_result import EntryResult
from gpudoctor.lint.source.file import NOTEBOOK, SourceFile, Sources, Unreadable
from gpudoctor.lint.source.size_limits import MAX_FILE_BYTES


def answer_of(
    found: FilesFound, listed: Listed, examined: Sequence[EntryResult], request: Request, sources: Sources
) -> Outcome:
    """What is wanted of all that was found, at the places that users know."""
    unreadable, newer = _unreadable(listed, examined, request)
    places, whole = Places(_source_of(sources), listed.origins), _seen_whole(examined, request)
    too_new = _too_new([places.of(file.location) for file in newer], newer)
    card = request.cards.get(UNREADABLE)
    # What led there is told as it is in a training, not in a tool that makes the same objects.
    trainings_first = sorted(examined, key=lambda each: not any(program.training_loops for program in each.coverage))
    findings = merged(finding for each in trainings_first for finding in each.findings)
    findings += [unreadable_finding(file, card) for file in unreadable if card]
    commented = [each.shown for each in listed.seen if each.commented]
    commented += [each.shown for each in examined if each.commented]
    kept = wanted(findings, request, places.source_of, commented, whole)
    programs = [program for each in examined for program in each.coverage]
    seen = {each.shown for each in listed.seen}
    covered = told_once(programs, seen)
    read = seen.union(*(each.files for each in examined))
    return Outcome(
        findings=tuple(places.placed(finding) for finding in kept),
        files=found.count,
        problems=(*found.problems, *too_new),
        failures=tuple(failure for each in examined for failure in each.failures),
        read=tuple(sorted(read)),
        unread=() if card else tuple(places.unread(file) for file in unreadable),
        partly=tuple(Problem(each.shown, _in_part(each.limits)) for each in examined if each.limits),
        lines=lambda at: _lines(at, places, sources),
        too_new=len({file.shown for file in newer if not file.in_cell}),
        programs=tuple(map(places.covered, covered)),
        # A program that names no library may start the training of a module of its own project.
        without_pytorch=listed.without_pytorch and read == seen,
    )


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
