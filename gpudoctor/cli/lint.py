"""`gpudoctor lint`: read training programs and say what is wrong with them."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from gpudoctor.cli.command import Command, at_least, one_of, words
from gpudoctor.cli.edge import report_bug
from gpudoctor.cli.output import refuse_bad_target, write_file, write_out
from gpudoctor.cli.progress import Progress
from gpudoctor.cli.settings import Settings, settings_for
from gpudoctor.cli.terminal import COLOURS, style_for
from gpudoctor.config import FAIL_ON, FORMATS, LAUNCHES
from gpudoctor.diagnostic import Problem, Severity
from gpudoctor.lint.check import lint
from gpudoctor.report import concise, full
from gpudoctor.report.summary import summary
from gpudoctor.report.text import Style

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from gpudoctor.lint.task import Outcome


class Lint(Command):
    """Read training programs and say what is wrong with them.

    Nothing that is read is imported or executed, and neither torch nor a GPU is needed.
    """

    def declare(self, parser: argparse.ArgumentParser) -> None:
        _declare_input(parser)
        _declare_rules(parser)
        _declare_output(parser)

    def run(self, options: argparse.Namespace) -> int:
        settings = settings_for(options)
        # Before the work: an unwritable target must not cost a whole run.
        if settings.output_file:
            refuse_bad_target(settings.output_file)
        progress = Progress(sys.stderr, wanted=not settings.quiet)
        outcome = lint(settings.request, progress)
        progress.close()
        _print(outcome, settings)
        _tell(outcome, settings, options.arguments)
        return _exit_code(outcome, settings.fail_on)


def _declare_input(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to read")
    group.add_argument(
        "paths", nargs="*", metavar="PATHS", help="files and folders; `-` is standard input (default: this folder)"
    )
    group.add_argument("--stdin-filename", metavar="FILE", help="the name of what comes from standard input")
    group.add_argument(
        "--exclude", metavar="GLOB,...", action="append", type=words, help="leave these files and folders out"
    )
    group.add_argument(
        "--launch",
        metavar="|".join(LAUNCHES),
        type=one_of(*LAUNCHES),
        help="how the program is started (default: auto, which sees it from the program)",
    )
    where = group.add_mutually_exclusive_group()
    where.add_argument("--config", metavar="FILE", help="read this configuration file instead of the nearest")
    where.add_argument("--no-config", action="store_true", help="read no configuration file")


def _declare_rules(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which rules", "RULE is a code, its beginning, a name, or ALL")
    group.add_argument("--select", metavar="RULE,...", action="append", type=words, help="only these")
    group.add_argument("--ignore", metavar="RULE,...", action="append", type=words, help="not these")
    group.add_argument("--extend-select", metavar="RULE,...", action="append", type=words, help="these as well")


def _declare_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to print")
    group.add_argument(
        "--output-format", metavar="|".join(FORMATS), type=one_of(*FORMATS), help="default: full, with code and remedy"
    )
    group.add_argument("--output-file", metavar="FILE", help="write there instead of standard output")
    group.add_argument(
        "--fail-on",
        metavar="|".join(FAIL_ON),
        type=one_of(*FAIL_ON),
        help="end with 1 from this severity on (default: warning)",
    )
    group.add_argument(
        "--color", metavar="|".join(COLOURS), type=one_of(*COLOURS), default="auto", help="default: auto"
    )
    loudness = group.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="print findings, and nothing on standard error")
    loudness.add_argument("-v", "--verbose", action="store_true", help="say what is read and by which rules")
    group.add_argument("--jobs", metavar="N", type=at_least(1), default=0, help="processes at most, for long work")
    group.add_argument("--no-cache", action="store_true", help="for scripts; nothing is cached as yet")


def _print(outcome: Outcome, settings: Settings) -> None:
    if settings.output_file:
        write_file(settings.output_file, _rendered(outcome, settings, Style(colour=settings.colour == "always")))
    else:
        write_out(_rendered(outcome, settings, style_for(sys.stdout, settings.colour)))


def _rendered(outcome: Outcome, settings: Settings, style: Style) -> str:
    if settings.output_format == "json":
        # Imported late: people read the other formats, and json costs milliseconds.
        from gpudoctor.report import json

        bugs = [Problem("", str(bug)) for bug in outcome.failures]
        errors = (*outcome.problems, *outcome.unread, *bugs)
        return json.render(outcome.findings, outcome.files, errors) + "\n"
    if settings.output_format == "concise":
        lines = concise.render(outcome.findings, style)
    else:
        lines = full.render(outcome.findings, outcome.lines, style)
    return "".join(f"{line}\n" for line in lines)


def _tell(outcome: Outcome, settings: Settings, arguments: Sequence[str]) -> None:
    """What is not a finding goes to standard error."""
    for problem in (*outcome.problems, *outcome.unread):
        print(f"gpudoctor: {problem}", file=sys.stderr)
    if settings.verbose:
        print(f"Configuration: {settings.config.origin or 'none'}", file=sys.stderr)
        print(f"Rules: {' '.join(card.code for card in settings.request.rules)}", file=sys.stderr)
        print(*(f"Read: {name}" for name in outcome.read), sep="\n", file=sys.stderr)
    # After a bug of ours, "no mistake" would be more than is known.
    if not settings.quiet and (outcome.findings or not outcome.failures):
        print(summary(outcome.findings, outcome.files), file=sys.stderr)
    for bug in outcome.failures[:1]:
        report_bug(bug, arguments)
    if outcome.failures[1:]:
        print(f"There are {len(outcome.failures) - 1} more of this kind.", file=sys.stderr)


def _exit_code(outcome: Outcome, fail_on: str) -> int:
    # A bug of ours comes first: with it, "no findings" would be a lie.
    if outcome.failures:
        return outcome.failures[0].exit_code
    # A path that is not there is a misuse of the command, not a finding.
    if outcome.problems:
        return 2
    if fail_on == "never":
        return 0
    least = Severity(fail_on).weight
    return int(any(finding.severity.weight >= least for finding in outcome.findings))
