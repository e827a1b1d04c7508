"""From entries to results: the programs of each, one for each launch world, and what the rules say of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import chain
from typing import TYPE_CHECKING

from gpudoctor.lint.ask_rules import Failures, judged_by
from gpudoctor.lint.discovery.classify import classify
from gpudoctor.lint.entry_result import EntryResult
from gpudoctor.lint.flow.interning import own_keys
from gpudoctor.lint.interp.budget import Budget
from gpudoctor.lint.interp.launch_worlds import programs_of, with_names
from gpudoctor.lint.interp.limits import MAX_ALL_SECONDS, MIN_PART_SECONDS
from gpudoctor.lint.process_state import with_room
from gpudoctor.lint.program import LaunchWorld
from gpudoctor.lint.program_facts import AsStarted
from gpudoctor.lint.results.starting_facts import facts_of
from gpudoctor.lint.results.worlds import with_starts, with_worlds
from gpudoctor.lint.runtime.garbage import SeldomCollecting, collect_if_many
from gpudoctor.lint.runtime.workers import in_processes, processes_for
from gpudoctor.lint.source.file import Sources, shown_path
from gpudoctor.lint.source.file_queries import noting
from gpudoctor.lint.source.project import ModuleFile, Project, project_of
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.coverage import Coverage
    from gpudoctor.diagnostic import Finding, Location
    from gpudoctor.lint.events.knowledge import Stop
    from gpudoctor.lint.fix.fixes import Execute
    from gpudoctor.lint.program import Program
    from gpudoctor.lint.program_facts import ProgramFacts
    from gpudoctor.lint.request import Request
    from gpudoctor.lint.source.file import SourceFile

_QUICKLY_DONE_AGAIN = 150
"""Events of programs that are executed once more only to say what could be fixed: it takes milliseconds. Not the time
decides, or a busy machine would say something else."""
_FEW_EVALUATIONS = 20_000
"""The same for what is evaluated between its events."""


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


class _StartedEntry:
    """One entry, executed on paper as often as launch files start it in different ways."""

    def __init__(self, entry: ModuleFile, project: Project, request: Request) -> None:
        self._entry, self._project, self._request = entry, project, request
        self.failures = Failures()
        self.left = Budget(MAX_ALL_SECONDS)
        with self._part(f"reading {entry.source.shown}"):
            self._what = classify(entry, project)

    def _part(self, what: str, parts: int = 1) -> ExitStack:
        """A part of the work: no bug of it hides what the others find, and no time of it all of theirs."""
        stack = ExitStack()
        stack.enter_context(self.failures.of(what))
        stack.enter_context(self.left.part(parts * MIN_PART_SECONDS))
        return stack

    def programs(self, started: AsStarted) -> list[Program]:
        """The programs of one way of starting it."""
        with self._part(f"executing {self._entry.source.shown} symbolically"):
            return self._in(self._request.launch, started)
        return []

    def _in(self, launch: str, started: AsStarted) -> list[Program]:
        return programs_of(self._entry, self._what, self._project, launch, started)

    def judged(self, programs: list[Program], started: AsStarted) -> tuple[list[list[Finding]], list[Coverage]]:
        """What the rules say of each program, with fixes, and what was followed of it."""
        project, request, shown = self._project, self._request, self._entry.source.shown

        def execute(places: frozenset[Location]) -> list[Program]:
            seconds = self.left.part(MIN_PART_SECONDS).left
            return with_names(programs, self._entry, self._what, project, places, seconds, started)

        few = sum(program.evaluations for program in programs) <= _FEW_EVALUATIONS
        quick = few and sum(len(program.log) for program in programs) <= _QUICKLY_DONE_AGAIN
        judged = [judged_by(request.rules, program, self.failures, self.left) for program in programs]
        found = [findings for findings, _ in judged]
        with self._part(f"the words of what is found in {shown}"):
            if any(found):
                # Imported late: most programs make no mistake.
                from gpudoctor.lint.results.remedy_words import in_words_of

                found = [
                    [in_words_of(project.file(each.location.path), each) for each in findings] for findings in found
                ]
        # Whoever only looks is told what could be fixed, and no bug or limit of that may hide what is found.
        guard = (self.failures if request.fixes else Failures()).of(f"writing fixes for {shown}")
        # The execution in it has one part, the writing behind it another.
        with guard, self.left.part(2 * MIN_PART_SECONDS):
            found = _fixed(found, programs, execute if request.fixes or quick else None, project, request)
        return found, [replace(covered, started=started.told) for _, covered in judged]

    def facts(self, programs: list[Program], ways: Sequence[AsStarted]) -> ProgramFacts | None:
        """What it says of how it wants to be started."""
        with self._part(f"what starts {self._entry.source.shown}"):
            facts = facts_of(programs) if any(program.has_entry for program in programs) else None
            alone = next((each for each in ways if each.alone), None)
            if facts is not None and facts.group is not None and alone is not None:
                # Whether it goes on without a launcher shows where it is followed without one.
                single = self._in(LaunchWorld.SINGLE.value, alone)
                facts = replace(facts, group_alone=not any(program.awaits_others() for program in single))
            return facts
        return None

    def refusal(self, programs: list[Program], way: AsStarted) -> Stop | None:
        """The test that ends it before its training because there are as many processes as this."""
        ended = next((each.ended for each in programs if each.size_matters and not each.trained_at), None)
        if way.processes is None or ended is None:
            return None
        with self._part(f"how many processes {self._entry.source.shown} takes"):
            some = self._in(self._request.launch, replace(way, processes=None))
            return ended if any(each.trained_at for each in some) else None
        return None


@with_room
def _examine(path: str, request: Request, sources: Sources) -> EntryResult:
    project, entry = project_of(path, sources)
    if entry is None:
        return EntryResult(shown_path(path), unreadable=tuple(project.unreadable), partly=True)
    # Where only built-in rules run, it is known what they are about.
    if request.only_built_in:
        project.followed = _relevant_definitions
    examined = _StartedEntry(entry, project, request)
    ways = _ways(request, path)
    programs: list[Program] = []
    findings: list[tuple[AsStarted, tuple[Finding, ...], list[Program]]] = []
    coverage: list[Coverage] = []
    facts: ProgramFacts | None = None
    for way in ways:
        alike = next((had for had in findings if _makes_no_difference(had[2], had[0], way)), None)
        if alike is not None:
            findings.append((way, *alike[1:]))
            continue
        here = examined.programs(way)
        found, covered = examined.judged(here, way)
        findings.append((way, with_worlds(found, certain=not way.differs), here))
        coverage += covered
        if not programs:
            facts = examined.facts(here, ways)
        if facts is not None and (end := examined.refusal(here, way)) is not None:
            facts = replace(facts, refused=way.processes, refused_by=end.what, refused_at=end.at)
        programs += here
    failures = examined.failures
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


def _makes_no_difference(programs: list[Program], one: AsStarted, other: AsStarted) -> bool:
    """The program comes out the same: it is given the same, and never asks how many processes there are."""
    if not (one.several and other.several) or one.given != other.given or one.surely != other.surely:
        return False
    return not any(each.size_matters or each.frameworks for each in programs)


def _fixed(
    found: list[list[Finding]],
    programs: list[Program],
    execute: Execute | None,
    project: Project,
    request: Request,
) -> list[list[Finding]]:
    if not any(each.repair for findings in found for each in findings):
        return found
    # Imported late: most programs have nothing to be fixed.
    from gpudoctor.lint.fix.fixes import with_fixes

    safety = {card.code: card.fix_safety for card in request.rules if card.fix_safety is not None}
    worlds = [program.world for program in programs]
    return with_fixes(found, worlds, execute, project.file, safety, as_marks=not request.fixes)
