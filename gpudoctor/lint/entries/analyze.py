"""From entries to results: the programs of each, one for each launch world, and what the rules say of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from gpudoctor.coverage import Coverage
from gpudoctor.diagnostic import Finding
from gpudoctor.lint.entries.judge_entry import judged
from gpudoctor.lint.entries.started_entry import StartedEntry, makes_no_difference
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.program_facts import AsStarted, ProgramFacts
from gpudoctor.lint.flow.interning import own_keys
from gpudoctor.lint.program import Program
from gpudoctor.lint.request import Request
from gpudoctor.lint.results.starting_facts import facts_with
from gpudoctor.lint.results.worlds import with_starts, with_worlds
from gpudoctor.lint.runtime.entry_result import EntryResult
from gpudoctor.lint.runtime.garbage import SeldomCollecting, collect_if_many
from gpudoctor.lint.runtime.workers import in_processes, processes_for
from gpudoctor.lint.source.file import SourceFile, Sources, shown_path
from gpudoctor.lint.source.file_queries import noting
from gpudoctor.lint.source.process_state import with_room
from gpudoctor.lint.source.project import project_of
from gpudoctor.record import replace

_WORTH_A_PROCESS = 8
"""Entries from which on it is quicker to start one more process than to do without."""
_PART = 8
"""Entries that a process takes at a time: neighbours, because they share what they import."""

_MOST_TOGETHER = 50
"""Entries that are examined with all their files kept, where there is only one process."""
_MOST_KEPT = 1_000_000
"""Characters of files that are kept otherwise, whose trees take about 30 times as many bytes."""


def examine_all(paths: Sequence[str], request: Request, sources: Sources) -> Iterator[EntryResult]:
    """Examine entries, in several processes where they are worth it; the results come in their order."""
    jobs = processes_for(request.jobs, len(paths), _WORTH_A_PROCESS)
    if jobs > 1 or len(paths) > _MOST_TOGETHER:
        examiner = _PartExaminer(request, sources.edited)
        parts = [paths[start : start + _PART] for start in range(0, len(paths), _PART)]
        yield from chain.from_iterable(in_processes(examiner, parts, jobs))
    else:
        yield from _one_by_one(paths, request, sources)


def _one_by_one(paths: Iterable[str], request: Request, sources: Sources) -> Iterator[EntryResult]:
    with SeldomCollecting():
        for path in paths:
            yield examine(path, request, sources)
            collect_if_many()


class _PartExaminer:
    """Examines one part after the other, and keeps the files that it has read: the middle of a large project is
    imported by all of it."""

    def __init__(self, request: Request, edited: Mapping[str, bytes]) -> None:
        self._request = request
        self._edited = edited
        self._kept: Sources | None = None

    def __call__(self, paths: Sequence[str]) -> list[EntryResult]:
        results: list[EntryResult] = []
        with SeldomCollecting():
            for path in paths:
                # Asked before each: one entry alone may import a whole project.
                if self._kept is None or self._kept.size > _MOST_KEPT:
                    self._kept = Sources(self._edited)
                results += _one_by_one([path], self._request, self._kept)
        return results


def examine(path: str, request: Request, sources: Sources) -> EntryResult:
    """Execute one entry on paper and ask the rules."""
    with noting() as asked, own_keys():
        return replace(_examine(path, request, sources), asked=asked)


def _relevant_definitions(file: SourceFile) -> frozenset[str] | None:
    # Imported late: many programs are one file.
    from gpudoctor.lint.discovery.prefilter import relevant_definitions

    return relevant_definitions(file)


@with_room
def _examine(path: str, request: Request, sources: Sources) -> EntryResult:
    ways = _ways(request, path)
    project, entry = project_of(path, sources)
    if entry is None:
        return EntryResult(shown_path(path), unreadable=tuple(project.unreadable), partly=True)
    # Where only built-in rules run, it is known what they are about.
    if request.only_built_in:
        project.followed = _relevant_definitions
    started = StartedEntry(entry, project, request)
    programs: list[Program] = []
    findings: list[tuple[AsStarted, tuple[Finding, ...], list[Program]]] = []
    coverage: list[Coverage] = []
    facts: ProgramFacts | None = None
    for way in ways:
        alike = next((had for had in findings if makes_no_difference(had[2], had[0], way)), None)
        if alike is not None:
            findings.append((way, *alike[1:]))
            if facts is not None and set(alike[0].starts) <= set(facts.alone_in):
                facts = replace(facts, alone_in=(*facts.alone_in, *way.starts))
            continue
        here = started.programs(way)
        found, covered = judged(here, way, started)
        findings.append((way, with_worlds(found, certain=not way.differs), here))
        coverage += covered
        with started.part("what starts"):
            facts = facts_with(facts, here, way, ways, started.programs)
        programs += here
    failures = started.failures
    # What could not be read of a notebook is told, or known to its author.
    gaps = {gap.why for gap in entry.source.cells.gaps} if entry.source.cells is not None else set()
    cut = (limit.why for program in programs for limit in program.limits if limit.why not in gaps)
    limits = tuple(dict.fromkeys((*project.limits, *cut, *failures.limits)))
    return EntryResult(
        entry.source.shown,
        findings=with_starts((way, each) for way, each, _ in findings),
        files=frozenset().union(*(program.files for program in programs)),
        unreadable=tuple(project.unreadable),
        failures=tuple(failures.seen),
        partly=bool(failures.seen or limits or gaps),
        limits=limits,
        coverage=tuple(coverage),
        facts=facts,
    )


def _ways(request: Request, path: str) -> tuple[AsStarted, ...]:
    """The ways in which a program is started, of those that were asked for."""
    ways = request.started.get(path, ())
    if request.launch != "auto" and len(ways) > 1:
        several = request.launch != LaunchWorld.SINGLE.value
        ways = tuple(each for each in ways if each.several is several)[:1] or ways[:1]
    return ways or (AsStarted(),)
