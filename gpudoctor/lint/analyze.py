"""From entries to results: the programs of each, one for each launch world, and what the rules say of them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
from gpudoctor.lint.results.starting_facts import awaits_others, facts_of
from gpudoctor.lint.runtime.garbage import SeldomCollecting, collect_if_many
from gpudoctor.lint.runtime.workers import in_processes, processes_for
from gpudoctor.lint.source.file import Sources, shown_path
from gpudoctor.lint.source.file_queries import noting
from gpudoctor.lint.source.project import Project, project_of
from gpudoctor.record import replace

if TYPE_CHECKING:
    from gpudoctor.diagnostic import Finding, Location
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


def _as_started(
    programs: list[Program], started: AsStarted, follow: Callable[[str, Mapping[str, str | bool]], list[Program]]
) -> list[Program]:
    """A program as launch files start it, which is as several processes."""
    # As one process nobody starts it.
    several = [each for each in programs if each.world.several_processes]
    if several or not started.surely:
        return several or programs
    # It knows of one process only, and each of them will train a model of its own.
    as_several = follow(LaunchWorld.TORCHRUN.value, started.given)
    return [each for each in as_several if each.assumptions.group_before is not None] or programs


@with_room
def _examine(path: str, request: Request, sources: Sources) -> EntryResult:
    project, entry = project_of(path, sources)
    if entry is None:
        return EntryResult(shown_path(path), unreadable=tuple(project.unreadable), partly=True)
    # Where only built-in rules run, it is known what they are about.
    if request.only_built_in:
        project.followed = _relevant_definitions
    shown, failures = entry.source.shown, Failures()
    programs: list[Program] = []
    started = request.started.get(path, AsStarted(""))
    left = Budget(MAX_ALL_SECONDS)
    with failures.of(f"executing {shown} symbolically"), left.part(MIN_PART_SECONDS):
        what = classify(entry, project)
        programs = programs_of(entry, what, project, request.launch, started.given)
        if request.launch == "auto" and started.several:
            programs = _as_started(programs, started, functools.partial(programs_of, entry, what, project))

    def execute(places: frozenset[Location]) -> list[Program]:
        return with_names(programs, entry, what, project, places, left.part(MIN_PART_SECONDS).left, started.given)

    few = sum(program.evaluations for program in programs) <= _FEW_EVALUATIONS
    quick = few and sum(len(program.log) for program in programs) <= _QUICKLY_DONE_AGAIN
    judged = [judged_by(request.rules, program, failures, left) for program in programs]
    found = [findings for findings, _ in judged]
    with failures.of(f"the words of what is found in {shown}"), left.part(MIN_PART_SECONDS):
        if any(found):
            # Imported late: most programs make no mistake.
            from gpudoctor.lint.results.remedy_words import in_words_of

            found = [[in_words_of(project.file(each.location.path), each) for each in findings] for findings in found]
    # Whoever only looks is told what could be fixed, and no bug or limit of that may hide what is found.
    guard = (failures if request.fixes else Failures()).of(f"writing fixes for {shown}")
    # The execution in it has one part, the writing behind it another.
    with guard, left.part(2 * MIN_PART_SECONDS):
        found = _fixed(found, programs, execute if request.fixes or quick else None, project, request)
    findings = tuple(replace(each, started_by=started.said) for each in _with_worlds(found))
    facts: ProgramFacts | None = None
    with failures.of(f"what starts {shown}"), left.part(MIN_PART_SECONDS):
        facts = facts_of(programs) if any(program.has_entry for program in programs) else None
        if facts is not None and facts.group is not None and started.alone:
            # Whether it goes on without a launcher shows where it is followed without one.
            single = programs_of(entry, what, project, LaunchWorld.SINGLE.value, started.given)
            facts = replace(facts, group_alone=not any(awaits_others(program) for program in single))
    # What could not be read of a notebook is told, or known to its author.
    gaps = {gap.why for gap in entry.source.cells.gaps} if entry.source.cells is not None else set()
    cut = (limit.why for program in programs for limit in program.limits if limit.why not in gaps)
    limits = tuple(dict.fromkeys((*project.limits, *cut, *failures.limits)))
    return EntryResult(
        shown,
        findings=findings,
        files=frozenset().union(*(program.files for program in programs)),
        unreadable=tuple(project.unreadable),
        failures=tuple(failures.seen),
        partly=bool(failures.seen or limits or gaps),
        limits=limits,
        coverage=tuple(covered for _, covered in judged),
        facts=facts,
    )


def _with_worlds(found: list[list[Finding]]) -> tuple[Finding, ...]:
    """The findings of all worlds. What happens however the program is launched names no world."""
    places = [{(each.code, each.location) for each in findings} for findings in found]
    everywhere = set.intersection(*places) if places else set()
    # A program for several processes alone says so of all its findings: whoever reads them thinks in ranks.
    if len(found) == 1 and all(each.world != LaunchWorld.SINGLE.value for each in found[0]):
        everywhere = set()
    return tuple(
        # Repairs speak of values, which end here.
        replace(each, repair=None, world="" if (each.code, each.location) in everywhere else each.world)
        for findings in found
        for each in findings
    )


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
