"""What a rule is: one mistake, seen from the code and from a run, with one page and one remedy.

A rule is a class in a file of its own. The docstring of that file is its page. `in_code` asks the program that lint
has executed on paper; it never looks at syntax. `in_run` asks the recording of a run, under the same code and remedy,
and `in_launch` the files that start programs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, ClassVar

from gpudoctor.diagnostic import Finding, Fix, Location, Related, Repairing, Safety, Severity
from gpudoctor.record import dataclass

if TYPE_CHECKING:
    from gpudoctor.lint.events.event_context import Event
    from gpudoctor.lint.events.option_defaults import Premise
    from gpudoctor.lint.launchfiles.launched import Launched as Launched
    from gpudoctor.lint.program import Program as Program
    from gpudoctor.run.recording import Recording as Recording
else:
    # What rules are asked about. They need the names for types alone, and take them from here with `Rule`.
    Launched = Program = Recording = object

Findings = Iterator[Finding]
"""What a rule answers."""

BUILT_IN = "gpudoctor_rules"
"""The pack of rules that comes with gpudoctor."""
SOME_PATHS = "It happens on some code paths, not on all."
"""The doubt of what depends on the way through the program."""


@dataclass(frozen=True)
class RuleCard:
    """What is known about a rule before its file is imported: what selects it, what lists it, what it needs.

    `module` is the dotted name of its file; `needs` and `looks_at` have the names of the classes that the rule declares
    there.
    """

    code: str
    name: str
    severity: Severity
    family: str
    module: str
    summary: str
    since: str = "0.1"
    fix_safety: Safety | None = None
    shows_in_run: bool = False
    since_torch: str = ""
    needs: tuple[str, ...] = ()
    looks_at: tuple[tuple[str, str], ...] = ()
    stops: bool = False
    run_only: bool = False
    """The code cannot show it, only a run can: lint leaves it out."""
    of_ranks: bool = False
    of_launch: bool = False
    """It is about how programs are started: launch files are asked."""
    of_program: bool = False
    """Programs are asked. What is about a file or its comments lint itself knows."""
    named: bool = False
    """The user has asked for it: what it can only advise is told, too."""


@dataclass(frozen=True)
class CrashText:
    """The error by which a run ends where the mistake is made: a text that it has, or several of which each is one, and
    one that it has `also`.

    Where other mistakes end so, too, `when` says what must be so besides: `suspected`, that lint tells of the rule
    there, or something of the recording, as in `shows_when`; of several, with ` or ` between them, one is enough.
    """

    text: str | tuple[str, ...]
    remedy: str
    because: str = ""
    also: str = ""
    when: str = ""


@dataclass(frozen=True)
class DriftText:
    """Why ranks drift apart where the mistake is made although a wrapper averages."""

    because: str
    remedy: str


class Rule:
    """One mistake. Subclasses declare what it is and say where a program makes it."""

    code: ClassVar[str]
    name: ClassVar[str]
    """What its file is called, with dashes."""
    severity: ClassVar[Severity]
    since: ClassVar[str] = "0.1"
    """The version of gpudoctor that has the rule first."""
    fix_safety: ClassVar[Safety | None] = None
    shows_when: ClassVar[tuple[str, ...]] = ()
    """What must be true of a recording that came to where the mistake would have been seen, so that silence of `in_run`
    clears a suspicion: attributes, as `ended_well`, or `ranks.saves` for something in the list of some rank, of which
    `ranks.steps > 3` asks for more, or that one is not so, as `not distributed`. Empty: silence clears nothing."""
    stops: ClassVar[bool] = False
    """The program crashes or hangs where the mistake is made; others go on and come to something wrong. What has a
    `crash` does, if it does not say otherwise."""
    reveals: ClassVar[tuple[str, ...]] = ()
    """Rules that have nothing to say until the mistake is fixed, and may then: the fix is none of their making."""
    since_torch: ClassVar[str] = ""
    """The first version of PyTorch in which this is a mistake, as `2.4`; empty where it always was one."""
    advises_if_named: ClassVar[bool] = False
    """Some of its findings are advice (info), for those only who have selected it."""
    errors: ClassVar[tuple[str, ...]] = ()
    """What PyTorch, NCCL, gloo or a framework writes where a program ends by this mistake: one line each, word for
    word, with names and numbers as they may be. The page lists them, so that who searches for one ends there."""
    crash: ClassVar[CrashText | tuple[CrashText, ...]] = ()
    """The error that tells `in_run` of it, or several."""
    drift: ClassVar[DriftText | None] = None
    """What it is to `in_run` that ranks drift apart, where lint suspects this very rule's mistake."""
    of_ranks: ClassVar[bool] = False
    """It is about what several processes do together: it is neither asked nor loaded where a program runs in one, which
    counts as asked, and of the process that starts them by `mp.spawn` it is shown what that makes for them, and not
    what it does itself, alone, before or after."""
    needs: ClassVar[tuple[type[Event], ...]] = ()
    """The rule has nothing to say of a program in which no event of these classes happens, so that neither is it asked
    nor its file loaded. Empty: it is always asked."""
    looks_at: ClassVar[tuple[tuple[type[Event], str], ...]] = ()
    """Events of a class of which an attribute is true, as `(Save, "shards")`: where none is so, all that the rule needs
    may have happened, and it finds nothing. It is neither asked nor loaded then, and counts as asked."""

    def __init_subclass__(cls) -> None:
        cls.name = cls.__module__.rpartition(".")[2].replace("_", "-")
        if "stops" not in vars(cls):
            cls.stops = bool(cls.crash)

    def in_code(self, program: Program) -> Findings:
        """The places where `program` makes this mistake."""
        return iter(())

    def in_launch(self, launched: Launched) -> Findings:
        """The places where launch files make this mistake."""
        return iter(())

    def in_run(self, recording: Recording) -> Findings:
        """The places where a run was seen to make this mistake: two CPU ranks are enough to see it."""
        for told in self.crash if isinstance(self.crash, tuple) else (self.crash,):
            if not told.when or any(self._is_so(recording, each) for each in told.when.split(" or ")):
                for text in (told.text,) if isinstance(told.text, str) else told.text:
                    yield from self.crashed(recording, text, told.also, because=told.because, remedy=told.remedy)
        if self.drift is not None:
            yield from self.drifted(recording, self.drift)

    def _is_so(self, recording: Recording, what: str) -> bool:
        return self.code in recording.suspected if what == "suspected" else _holds(recording, what)

    def could_show(self, recording: Recording) -> bool:
        """The run came to where the mistake would have been seen, so that silence of `in_run` clears a suspicion."""
        return bool(self.shows_when) and all(_holds(recording, each) for each in self.shows_when)

    def crashed(self, recording: Recording, *texts: str, because: str = "", remedy: str) -> Findings:
        """A finding where the user's code led to a crash whose text holds all of `texts`, once for all ranks."""
        seen = [(each, crash) for each, crash in recording.crashes() if all(text in crash.text for text in texts)]
        place = next((crash.place for _, crash in seen if crash.place is not None), None)
        if place is not None:
            crash = seen[0][1]
            who = recording.named(sorted(each.rank for each, _ in seen if each.rank is not None))
            # A mark of the error's own would end the quotation.
            said = crash.summary.replace("`", "'")
            yield self.found(place, f"{who} ended with `{said}`{because and f': {because}'}.", remedy=remedy)

    def drifted(self, recording: Recording, told: DriftText) -> Findings:
        """Where ranks train that were seen to drift apart.

        That parameters differ does not say why: flags, parts, types and weights that were changed look alike
        afterwards.
        """
        drift = recording.drift
        if drift is None or self.code not in recording.suspected or not any(rank.wraps for rank in recording.ranks):
            return
        if (at := drift.place) is not None:
            seen = f"After step {drift.step} the ranks held different values in parameter {drift.name}"
            yield self.found(at, f"{seen}: {told.because}.", remedy=told.remedy)

    def found(
        self,
        at: Location,
        message: str,
        *,
        remedy: str,
        because: Iterable[tuple[str, Location | None]] = (),
        doubt: str = "",
        severity: Severity | None = None,
        repair: Repairing | None = None,
        cause: Location | None = None,
        needs: Iterable[Premise] = (),
        by: Event | None = None,
        guarded: bool = False,
        fix: Fix | None = None,
    ) -> Finding:
        """A finding of this rule at `at`. Of those that `in_code` finds at one place the first is told.

        `because` lists the places that led there, each with what happened at it, in the order of the story; places
        that are unknown (None) or repeat `at` are left out. `repair` is what to change. Findings of the rule with
        the same `cause` are told as one: what the remedy changes is there, and mends them all. `needs` are
        tests and values that had to be true for it besides those that lead to `at`. `by` is the event at `at` that is
        wrong: where all such events of the program are handed over, each way to it once, a helper that is right for
        other callers is not blamed, but the call. Where `guarded`, those are right who test the rank before. `fix` is
        for what is no program, whose text is edited as it is.
        """
        told = dict.fromkeys((text, place) for text, place in because if place is not None and place != at)
        related = tuple(Related(text, place) for text, place in told)
        return Finding(
            code=self.code,
            name=self.name,
            severity=severity or self.severity,
            # A sentence may begin with "the model", where the program has no name for it.
            message=message[:1].upper() + message[1:],
            location=at,
            remedy=remedy,
            related=related,
            doubt=doubt,
            repair=repair,
            cause=cause,
            needs=tuple(needs),
            by=(by, guarded) if by is not None else None,
            fix=fix,
        )


def _holds(thing: object, path: str) -> bool:
    if path.startswith("not "):
        return not _holds(thing, path[4:])
    name, _, rest = path.partition(".")
    name, _, number = name.partition(" > ")
    value = getattr(thing, name)
    if rest:
        return any(_holds(each, rest) for each in value)
    return (value if isinstance(value, int) else len(value)) > int(number) if number else bool(value)
