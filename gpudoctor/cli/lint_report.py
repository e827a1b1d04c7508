"""What `gpudoctor lint` says in the end: the report in its format, the words around it, and the exit code."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from gpudoctor.cli.error_boundary import report_bug
from gpudoctor.cli.output import say, write_aside, write_file, write_out
from gpudoctor.cli.settings import Settings
from gpudoctor.cli.terminal import style_for
from gpudoctor.config import NOT_FOLLOWED
from gpudoctor.coverage import Followed
from gpudoctor.diagnostic import Finding, Problem, Severity
from gpudoctor.lint.request import Outcome
from gpudoctor.record import replace
from gpudoctor.report.formats import rendered
from gpudoctor.report.report import Report
from gpudoctor.report.summary import summary
from gpudoctor.report.text import Style, wrap
from gpudoctor.trials import TriedProgram


def report(
    outcome: Outcome,
    settings: Settings,
    arguments: Sequence[str],
    *,
    aside: bool = False,
    tried: tuple[TriedProgram, ...] | None = None,
) -> int:
    """Print what was found, and return the exit code. `aside` puts it on standard error, where standard output is for
    something else; `tried` came of programs that were run, where some should be."""
    exit_code = exit_code_of(outcome, settings.fail_on)
    _print(replace(report_of(outcome, settings, exit_code), tried=tried), settings, aside=aside)
    tell(outcome, settings, arguments)
    return exit_code


def report_of(outcome: Outcome, settings: Settings, exit_code: int = 0) -> Report:
    """What all formats are made from."""
    return Report(
        findings=outcome.findings,
        lines=outcome.lines,
        files=outcome.files,
        problems=outcome.problems,
        unread=outcome.unread,
        partly=outcome.partly,
        bugs=tuple(Problem("", str(bug)) for bug in outcome.failures),
        programs=outcome.programs,
        rules=settings.request.known,
        folder=os.getcwd(),
        # The folder of the repository, where a service says so.
        root=os.environ.get("GITHUB_WORKSPACE") or os.environ.get("CI_PROJECT_DIR") or "",
        exit_code=exit_code,
        with_statistics=settings.statistics,
    )


def _print(report: Report, settings: Settings, *, aside: bool) -> None:
    def text(style: Style) -> str:
        return rendered(report, settings.output_format, style)

    if settings.output_file:
        write_file(settings.output_file, text(Style(colour=settings.colour == "always")))
    elif aside:
        write_aside(text(style_for(sys.stderr, settings.colour)))
    else:
        write_out(text(style_for(sys.stdout, settings.colour)))


def tell(outcome: Outcome, settings: Settings, arguments: Sequence[str]) -> None:
    """Write what is not a finding to standard error."""
    for problem in (*outcome.problems, *outcome.unread):
        say(f"gpudoctor: {problem}")
    if not settings.quiet:
        say(*(f"gpudoctor: {note}" for note in settings.config.notes))
    if settings.verbose:
        say(f"Configuration: {settings.config.origin or 'none'}")
        say(f"Rules: {' '.join(card.code for card in settings.request.rules)}")
        say(*(f"Read: {name}" for name in outcome.read))
    if not settings.quiet:
        _tell_partly(report_of(outcome, settings).untold, all_of_them=settings.verbose)
        _tell_starts(outcome, all_of_them=settings.verbose)
        missed, partly = _tell_silence(outcome, all_of_them=settings.verbose)
    if settings.statistics and not settings.quiet and settings.output_format != "json":
        from gpudoctor.report.statistics import counts, table

        for line in table(counts(outcome.findings)):
            say(line)
    # After a bug of ours, "no mistake" would be more than is known; that no file is there was told as a problem.
    if not settings.quiet and (outcome.findings or not outcome.failures) and (outcome.files or not outcome.problems):
        told = summary(
            outcome.findings,
            outcome.files,
            missed + outcome.too_new,
            partly=partly,
            without_pytorch=outcome.without_pytorch,
            only_new=bool(settings.baseline or settings.since),
        )
        say(told)
        _tell_fixable(outcome.findings, unsafe=settings.unsafe_fixes)
    for bug in outcome.failures[:1]:
        report_bug(bug, arguments)
    if outcome.failures[1:]:
        say(f"There are {len(outcome.failures) - 1} more of this kind.")


def _tell_fixable(findings: Sequence[Finding], *, unsafe: bool) -> None:
    if findings:
        # Imported late: most runs find nothing.
        from gpudoctor.report.fixable import fixable

        say(*filter(None, [fixable(findings, unsafe=unsafe)]))


def _tell_starts(outcome: Outcome, *, all_of_them: bool) -> None:
    """Tell where launch files disagree."""
    if any(each.started for each in outcome.programs):
        # Imported late: mostly they agree, or there are none.
        from gpudoctor.report.silence import started_apart

        say(*(part for line in started_apart(outcome.programs, all_of_them) for part in _fitted(line)))


def _tell_silence(outcome: Outcome, all_of_them: bool) -> tuple[int, bool]:
    """Tell which programs were not followed, or not by all rules; how many were not followed to their end, and whether
    rules were not checked in others."""
    if _all_followed(outcome):
        return 0, False
    # Imported late: there is nothing to tell of a clean program.
    from gpudoctor.report.silence import held_back, not_followed, silence

    lines = silence(outcome.programs, all_of_them=all_of_them)
    say(*(part for line in lines for part in _fitted(line)))
    return not_followed(outcome.programs), held_back(outcome.programs)


def _fitted(line: str) -> list[str]:
    """On a terminal, in its width; for a file or a service, whole."""
    if not sys.stderr.isatty():
        return [line]
    text = line.lstrip()
    first = line[: len(line) - len(text)]
    return wrap(text, style_for(sys.stderr).width, f"{first}  " if not first else f"{first}      ", first)


def _all_followed(outcome: Outcome) -> bool:
    return all(each.followed is Followed.WHOLE for each in outcome.programs)


def _tell_partly(partly: Sequence[Problem], all_of_them: bool) -> None:
    shown = partly if all_of_them or len(partly) <= _MOST_PARTLY else partly[: _MOST_PARTLY - 1]
    for problem in shown:
        say(f"gpudoctor: {problem}")
    if len(shown) < len(partly):
        say(f"gpudoctor: {len(partly) - len(shown)} more files likewise; `--verbose` names them")


_MOST_PARTLY = 5
"""Lines about files that were not followed to their end: a large library has many, and one reads alike the other."""


def exit_code_of(outcome: Outcome, fail_on: str) -> int:
    """How the command ends."""
    # A bug of ours comes first: with it, "no findings" would be a lie.
    if outcome.failures:
        return outcome.failures[0].exit_code
    # A path that is not there is a misuse of the command, not a finding.
    if outcome.problems:
        return 2
    if fail_on == "never":
        return 0
    if fail_on == NOT_FOLLOWED and not _all_followed(outcome):
        from gpudoctor.report.silence import missed

        if missed(outcome.programs):
            return 1
    least = (Severity.WARNING if fail_on == NOT_FOLLOWED else Severity(fail_on)).weight
    return int(any(finding.severity.weight >= least for finding in outcome.findings))
