"""`gpudoctor lint`: read training programs and say what is wrong with them."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence

from gpudoctor.cli.command import Command, add_choice, at_least, one_of, words
from gpudoctor.cli.lint_report import report
from gpudoctor.cli.output import refuse_bad_target
from gpudoctor.cli.progress import Progress
from gpudoctor.cli.settings import Settings, settings_for
from gpudoctor.cli.terminal import COLOURS
from gpudoctor.config import FAIL_ON, LAUNCHES
from gpudoctor.lint.pipeline import lint
from gpudoctor.lint.request import Outcome
from gpudoctor.lint.runtime.garbage import SeldomCollecting
from gpudoctor.report.formats import FORMATS
from gpudoctor.trials import TriedProgram


class Lint(Command):
    """Read training programs and report what is wrong with them.

    Nothing that is read is imported or executed, unless `--try` asks for it, and neither torch nor a GPU is needed.
    """

    def declare(self, parser: argparse.ArgumentParser) -> None:
        _declare_input(parser)
        _declare_rules(parser)
        _declare_choice(parser)
        _declare_fixes(parser)
        _declare_output(parser)

    def run(self, options: argparse.Namespace) -> int:
        settings = settings_for(options)
        if options.show_settings:
            # Imported late, like all that most runs do without.
            from gpudoctor.cli.show_settings import show_settings

            return show_settings(settings, options)
        # Before the work: an unwritable target must not cost a whole run.
        if settings.output_file:
            refuse_bad_target(settings.output_file)
        if settings.fix or (settings.diff and not settings.add_ignores):
            # Imported late: most runs only look.
            from gpudoctor.cli.fix_report import fix_files

            return fix_files(settings, options.arguments)
        if options.tries:
            # Imported late: most lints run nothing.
            from gpudoctor.cli.trial import refuse_no_trial, tell_trials, try_programs

            refuse_no_trial()
            tried: list[TriedProgram] = []

            def attempt(outcome: Outcome) -> tuple[TriedProgram, ...]:
                tried[:] = try_programs(outcome, options.try_arguments)
                return tuple(tried)

            # A person reads what was found while it is tried; a document has both.
            in_document = settings.output_format == "json"
            outcome, exit_code = _reported(settings, options.arguments, attempt if in_document else None)
            if not in_document:
                attempt(outcome)
            tell_trials(tried, outcome)
            return exit_code
        if options.watch:
            from gpudoctor.cli.watch import watch

            watch(options, lambda settings: _reported(settings, options.arguments)[0])
        return _reported(settings, options.arguments)[1]


def _reported(
    settings: Settings, arguments: Sequence[str], attempt: Callable[[Outcome], tuple[TriedProgram, ...]] | None = None
) -> tuple[Outcome, int]:
    """Lint once and print what was found; the exit code. `attempt` tries it before, and goes into the report."""
    choose = None
    if settings.baseline or settings.since:
        from gpudoctor.cli.triage_report import chooser

        choose = chooser(settings)
    with Progress(sys.stderr, wanted=not settings.quiet) as progress, SeldomCollecting():
        outcome = lint(settings.request, progress)
    if choose is not None:
        outcome = choose(outcome)
    if settings.add_ignores:
        from gpudoctor.cli.ignores import add_ignores

        return outcome, add_ignores(outcome, settings, arguments)
    return outcome, report(outcome, settings, arguments, tried=attempt(outcome) if attempt is not None else None)


def _declare_input(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to read")
    group.add_argument(
        "paths",
        nargs="*",
        metavar="PATHS",
        help="files and folders; `-` is standard input (default: the current folder)",
    )
    group.add_argument("--watch", action="store_true", help="lint again after each change, until Ctrl+C")
    group.add_argument(
        "--try",
        dest="tries",
        action="store_true",
        help="also run what is suspected, for three steps on virtual GPUs, without network and with read-only files",
    )
    group.add_argument(
        "--try-arguments",
        metavar="WORDS",
        default="",
        help="with --try: the arguments of the program, quoted as for a shell",
    )
    group.add_argument("--stdin-filename", metavar="FILE", help="the file name to use for standard input")
    group.add_argument(
        "--exclude", metavar="GLOB,...", action="append", type=words, help="leave these files and folders out"
    )
    group.add_argument(
        "--no-respect-gitignore", action="store_true", help="read what git ignores as well, where a folder is searched"
    )
    group.add_argument(
        "--launch",
        metavar="|".join(LAUNCHES),
        type=one_of(*LAUNCHES),
        help="how the program is started (default: auto, which finds out from the program)",
    )
    where = group.add_mutually_exclusive_group()
    where.add_argument("--config", metavar="FILE", help="read this configuration file instead of the nearest")
    where.add_argument("--no-config", action="store_true", help="read no configuration file")
    group.add_argument(
        "--show-settings",
        action="store_true",
        help="show the settings in force and where each comes from; lint nothing",
    )


def _declare_rules(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which rules", "RULE is a code, its beginning, a name, or ALL")
    group.add_argument("--select", metavar="RULE,...", action="append", type=words, help="only these rules")
    group.add_argument("--ignore", metavar="RULE,...", action="append", type=words, help="all but these")
    group.add_argument(
        "--extend-select",
        metavar="RULE,...",
        action="append",
        type=words,
        help="these as well, such as rules of severity info",
    )


def _declare_fixes(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to change")
    group.add_argument("--fix", action="store_true", help="apply the safe fixes, which keep the meaning of the program")
    unsafe = group.add_mutually_exclusive_group()
    unsafe.add_argument(
        "--unsafe-fixes", action="store_true", help="with --fix or --diff: also those that change the training"
    )
    unsafe.add_argument("--no-unsafe-fixes", action="store_true", help="without them, whatever the configuration says")
    group.add_argument("--diff", action="store_true", help="show what --fix would change, and write nothing")
    group.add_argument(
        "--add-ignores", action="store_true", help="silence each finding by a comment (with --diff: show them)"
    )


def _declare_choice(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("which findings")
    group.add_argument(
        "--baseline", metavar="FILE", help="leave out the findings that this file lists; the first run writes it"
    )
    group.add_argument("--update-baseline", action="store_true", help="rewrite it with the present findings")
    group.add_argument(
        "--since", metavar="REV", help="only findings with a line that was changed since this git revision"
    )


def _declare_output(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to print")
    group.add_argument(
        "--output-format", metavar="|".join(FORMATS), type=one_of(*FORMATS), help="default: full, with code and help"
    )
    group.add_argument("--output-file", metavar="FILE", help="write there instead of standard output")
    group.add_argument(
        "--fail-on",
        metavar="|".join(FAIL_ON),
        type=one_of(*FAIL_ON),
        help="exit with 1 from this severity on (default: warning); not-followed: also where training was not reached",
    )
    add_choice(group, "--color", *COLOURS)
    group.add_argument("--statistics", action="store_true", help="also count the findings of each rule")
    loudness = group.add_mutually_exclusive_group()
    loudness.add_argument("-q", "--quiet", action="store_true", help="print findings, and nothing on standard error")
    loudness.add_argument(
        "-v", "--verbose", action="store_true", help="also say which files are read and which rules are asked"
    )
    group.add_argument("--jobs", metavar="N", type=at_least(1), default=0, help="use at most N processes")
    group.add_argument("--no-cache", action="store_true", help="neither read nor write the cache")
