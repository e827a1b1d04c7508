"""What the rules say of the programs of one entry: asked, in the words of its files, with fixes."""

from __future__ import annotations

from functools import partial

from gpudoctor.coverage import Coverage
from gpudoctor.diagnostic import Finding
from gpudoctor.lint.entries.ask_rules import Failures, judged_by
from gpudoctor.lint.entries.started_entry import StartedEntry
from gpudoctor.lint.events.program_facts import AsStarted
from gpudoctor.lint.program import Program
from gpudoctor.record import replace

_QUICKLY_DONE_AGAIN = 150
"""Events of programs that are executed once more only to say what could be fixed: it takes milliseconds. Not the time
decides, or a busy machine would say something else."""
_FEW_EVALUATIONS = 20_000
"""The same for what is evaluated between its events."""


def judged(
    programs: list[Program], way: AsStarted, started: StartedEntry
) -> tuple[list[list[Finding]], list[Coverage]]:
    """What the rules say of each program of one way of starting an entry, and what was followed of it."""
    request, file_of = started.request, started.project.file
    answers = [judged_by(request.rules, program, started.failures, started.left) for program in programs]
    found = [findings for findings, _ in answers]
    if any(found):
        with started.part("the words of what is found in"):
            # Imported late: most programs make no mistake.
            from gpudoctor.lint.results.remedy_words import in_words_of

            found = [[in_words_of(file_of(each.location.path), each) for each in findings] for findings in found]
    if any(each.repair for findings in found for each in findings):
        # Whoever only looks is told what could be fixed, and no bug or limit of that may hide what is found.
        failures = started.failures if request.fixes else Failures()
        # The execution in it has one part, the writing behind it another.
        with started.part("writing fixes for", failures, parts=2):
            # Imported late: most programs have nothing to be fixed.
            from gpudoctor.lint.fix.fixes import with_fixes

            few = sum(program.evaluations for program in programs) <= _FEW_EVALUATIONS
            quick = few and sum(len(program.log) for program in programs) <= _QUICKLY_DONE_AGAIN
            execute = partial(started.with_names, programs, way=way) if request.fixes or quick else None
            safety = {card.code: card.fix_safety for card in request.rules if card.fix_safety is not None}
            worlds = [program.world for program in programs]
            found = with_fixes(found, worlds, execute, file_of, safety, as_marks=not request.fixes)
    return found, [replace(covered, started=way.told) for _, covered in answers]
