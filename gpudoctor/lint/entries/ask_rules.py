"""The rules are asked: what each finds in a program, and what it could not say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from operator import attrgetter
from types import TracebackType

from gpudoctor.coverage import Cause, Coverage, Silence
from gpudoctor.diagnostic import Finding, Safety, Severity
from gpudoctor.errors import GpudoctorError, InternalError, internal_error
from gpudoctor.lint.interp.budget import Budget, OutOfBudget
from gpudoctor.lint.interp.limits import MAX_RULES_SECONDS, MIN_PART_SECONDS
from gpudoctor.lint.program import Program
from gpudoctor.lint.results.unfollowed import coverage_of
from gpudoctor.record import dataclass, field, replace
from gpudoctor.registry import load
from gpudoctor.rule import RuleCard

_LIMITS = (OutOfBudget, RecursionError, MemoryError)


def coverage_in(program: Program, cards: Iterable[RuleCard]) -> Coverage:
    """What was followed of a program, and which of these rules could not judge it."""
    return judged_by(cards, program, Failures(), Budget(MAX_RULES_SECONDS))[1]


def judged_by(
    cards: Iterable[RuleCard], program: Program, failures: Failures, left: Budget
) -> tuple[list[Finding], Coverage]:
    """What the rules say of a program, and what they could not say."""
    silenced: dict[str, Silence] = {}
    unasked: list[RuleCard] = []
    quiet: list[RuleCard] = []
    budget = left.part(MIN_PART_SECONDS, MAX_RULES_SECONDS)
    findings = list(_findings(program, cards, failures, budget, silenced, unasked, quiet))
    return findings, coverage_of(program, silenced, unasked, quiet)


def _findings(
    program: Program,
    cards: Iterable[RuleCard],
    failures: Failures,
    budget: Budget,
    silenced: dict[str, Silence],
    unasked: list[RuleCard],
    quiet: list[RuleCard],
) -> Iterator[Finding]:
    happened = program.happened
    world = program.world.value if program.has_entry else ""
    cards = [card for card in cards if card.of_program]
    # Asked before a rule is loaded: importing a file costs more than most rules do.
    asked: list[RuleCard] = []
    for card in cards:
        (unasked if card.needs and happened.keys().isdisjoint(card.needs) else asked).append(card)
    # Limits hold for rules too: the program decides how much there is to compare.
    with failures.of(f"the rules on {program.entry}"), budget:
        for card in asked:
            with failures.of(f"rule {card.code} ({card.module}) on {program.entry}"):
                missing = card.looks_at and not any(
                    any(map(attrgetter(what), happened.get(kind, ()))) for kind, what in card.looks_at
                )
                if missing or (card.of_ranks and not program.world.several_processes):
                    quiet.append(card)
                    continue
                rule = load(card)
                program.answers.taken()
                # A rule that met the limit has ended the looking, too, and where no timer looks nobody does in between.
                if not budget.look():
                    budget.check()
                # A list, so that a bug in a rule shows inside the guard above.
                findings = list(rule.in_code(program.of_ranks if card.of_ranks else program))
                if rule.advises_if_named and not card.named:
                    findings = [each for each in findings if each.severity is not Severity.INFO]
                answers = program.answers.taken()
                if not findings and answers and answers[-1].cause is Cause.FRAMEWORK and program.by_itself is not None:
                    findings = list(rule.in_code(program.by_itself.of_ranks if card.of_ranks else program.by_itself))
                if findings:
                    # Imported late, like the words: most programs make no mistake.
                    from gpudoctor.lint.results.enrich import told

                    in_world = [
                        replace(each, world=each.world or world, launcher=each.launcher or program.launcher)
                        for each in findings
                    ]
                    yield from _mended_in_order(told(in_world, program), program, card.fix_safety)
                # What it has found it has judged.
                elif answers:
                    silenced[card.code] = answers[-1]
                else:
                    quiet.append(card)


def _mended_in_order(findings: Iterator[Finding], program: Program, safety: Safety | None) -> Iterator[Finding]:
    """What asks a process group can only be written where there is one: `--fix` makes that first."""
    for each in findings:
        waits = program.lacks_group is not None and each.repair and not getattr(each.repair, "makes_group", False)
        yield replace(each, repair=None, unwritten=safety) if waits else each


@dataclass
class Failures:
    """Bugs of ours and limits that were met, so that one of them does not hide what else is found."""

    seen: list[InternalError] = field(default_factory=list)
    limits: list[str] = field(default_factory=list)

    def of(self, what: str) -> _Guard:
        """Remember what goes wrong inside, and say that it was `what` that was being done."""
        return _Guard(what, self)


@dataclass
class _Guard:
    """Turns an exception that nobody expected into a failure. What users are meant to read passes."""

    what: str
    met: Failures

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> bool:
        if not isinstance(error, Exception) or isinstance(error, GpudoctorError):
            return False
        limit = _limit_behind(error)
        if limit is not None:
            self.met.limits.append(f"{self.what}: {limit or type(limit).__name__}")
        else:
            self.met.seen.append(internal_error(self.what, error))
        return True


def _limit_behind(error: BaseException) -> BaseException | None:
    """The limit that was met, also where a library that was interrupted by it has ended in an error of its own."""
    seen: BaseException | None = error
    while seen is not None and not isinstance(seen, _LIMITS):
        seen = seen.__context__
    return seen
