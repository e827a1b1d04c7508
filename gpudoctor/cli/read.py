"""`gpudoctor read`: the log of a job that has failed, and who failed first."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from gpudoctor.cli.command import Command, add_choice
from gpudoctor.cli.output import write_lines, write_out
from gpudoctor.cli.terminal import COLOURS, style_for
from gpudoctor.logs.declared_texts import rules_that_declare
from gpudoctor.logs.endings import STOOD_ALONE, STOOD_APART
from gpudoctor.logs.error_texts.collective_prints import without_devices
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.job_logs import read_logs
from gpudoctor.page_address import read_more, rule_address
from gpudoctor.registry import find_rules
from gpudoctor.report.text import Style, wrap

if TYPE_CHECKING:
    import argparse

    from gpudoctor.diagnostic import Finding
    from gpudoctor.logs.diagnosis import FollowingRanks, LogDiagnosis
    from gpudoctor.logs.logged_failure import LoggedFailure
    from gpudoctor.rule import RuleCard

_MOST_GROUPS = 12
_OF_LAUNCHER = re.compile(r"torch[/.]distributed[/.]elastic")


class Read(Command):
    """Read the logs of a failed job: which rank failed first, where, and what the error means.

    Reads the output of torchrun, SLURM, Kubernetes or a script, in one file or one for each rank, also gzipped;
    NCCL's debug logs; and dumps of the flight recorder. All files are taken for logs of one job.
    """

    def declare(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("logs", metavar="LOG", nargs="+", help="a file, a folder of them, or - for standard input")
        parser.add_argument("--code", metavar="DIR", help="also lint this program or folder, and say what fits the log")
        add_choice(parser, "--output-format", "text", "json")
        add_choice(parser, "--color", *COLOURS)

    def run(self, options: argparse.Namespace) -> int:
        diagnosis = read_logs(options.logs)
        fitting = _fitting(diagnosis, options.code) if options.code else ()
        if options.output_format == "json":
            write_out(_document(diagnosis, fitting))
        else:
            write_lines(_page(diagnosis, fitting, style_for(sys.stdout, options.color)))
        return 1 if diagnosis.first else 0


def _fitting(diagnosis: LogDiagnosis, code: str) -> tuple[Finding, ...]:
    """Findings of lint that are of a rule that the error speaks of, or stand at the line where it was raised."""
    from gpudoctor.api import lint_paths

    first = diagnosis.first
    if first is None:
        return ()
    rules = _codes(first)
    outcome = lint_paths([code])
    found = (finding for finding in outcome.findings if finding.code in rules or _at(finding, first))
    # What explains the error comes before what happens to stand at its line.
    return tuple(sorted(found, key=lambda finding: finding.code not in rules))


def _at(finding: Finding, failure: LoggedFailure) -> bool:
    place = failure.place
    return (
        place is not None
        and finding.location.line == place.line
        and place.path.replace("\\", "/").endswith(finding.location.path.rpartition("/")[2])
    )


def _codes(failure: LoggedFailure) -> tuple[str, ...]:
    meaning = failure.meaning
    if meaning is None:
        return tuple(card.code for card in rules_that_declare(failure.text))
    return (*([meaning.code] if meaning.code else []), *meaning.likely)


def _page(diagnosis: LogDiagnosis, fitting: Sequence[Finding], style: Style) -> Iterator[str]:
    yield style.paint("gpudoctor read", "bold")
    yield ""
    first = diagnosis.first
    if first is None:
        yield from wrap(f"No error was found in {_logs(diagnosis)}.", style.width, "  ")
        return
    yield from wrap(_headline(diagnosis, first), style.width, "  ")
    for line in without_devices(first.text).splitlines()[:6]:
        if line.strip():
            yield from wrap(style.paint(line.strip(), "error"), style.width, "    ")
    yield from wrap(f"{first.at.path}:{first.at.line}; {diagnosis.because}.", style.width, "    ")
    yield ""
    yield from _meaning(first, diagnosis, style)
    for finding in fitting:
        told = f"lint finds {finding.code} {finding.name} at {finding.location.start}: {finding.message}"
        yield from wrap(told, style.width, "    ", f"  {style.paint('in your code', 'error')}: ")
    if fitting:
        yield ""
    at_once = diagnosis.missing is not None and first.role is FailureRole.OWN
    when = "The others" if first.meaning is STOOD_APART else "At the same time" if at_once else "After it"
    yield from _others(diagnosis.following, when, style)
    yield from _earlier(diagnosis.earlier, style)
    if not diagnosis.last_run:
        yield from wrap("A run that begins after this one, in the same file, did not fail.", style.width, "  ")


def _headline(diagnosis: LogDiagnosis, first: LoggedFailure) -> str:
    who = _who(first)
    alike = diagnosis.alike
    if len(alike) > 1:
        who = f"Ranks {_numbers(alike)}"
    at = f", at {first.place.path}:{first.place.line}" if first.place else ""
    inside = f" in `{first.place.function}`" if first.place and first.place.function.isidentifier() else ""
    match first.role.value:
        case "wait":
            apart = "stood apart from the others" if diagnosis.missing else "was seen"
            waited = apart if first.meaning in (STOOD_ALONE, STOOD_APART) else "waited for others"
            return f"No rank is known to have failed by itself: {who[0].lower()}{who[1:]} {waited}{at}{inside}."
        case "peer":
            gone = f"{who} noticed that another process was gone{at}{inside}."
            return f"{gone} That one most likely failed first, and is not in this log."
        case "stopped":
            return f"{who} was told to end{at}{inside}. Nothing failed before, as far as the log tells."
    if diagnosis.missing is not None:
        return f"The ranks did not call the same collective: {who[0].lower()}{who[1:]}{at}{inside}."
    fails = "failed in the same way" if len(alike) > 1 else "failed first" if diagnosis.following else "failed"
    return f"{who} {'' if diagnosis.sure else 'probably '}{fails}{at}{inside}."


def _who(failure: LoggedFailure) -> str:
    by = failure.by
    host = f" on {by.host}" if by.host else ""
    if by.rank is not None:
        return f"Rank {by.rank}{host}"
    if by.local_rank is not None:
        return f"The process with local rank {by.local_rank}{host}"
    if failure.role is FailureRole.STOPPED and _OF_LAUNCHER.search(failure.text):
        return f"The launcher{host}"
    name = f" ({by.tag})" if by.tag else ""
    return f"A process{name}{host} whose rank the log does not tell"


def _meaning(first: LoggedFailure, diagnosis: LogDiagnosis, style: Style) -> Iterator[str]:
    meaning = first.explained
    if meaning is None:
        yield from wrap(f"gpudoctor has no entry for this error. {_began(first)}".rstrip(), style.width, "  ")
        for card in rules_that_declare(first.text):
            yield from _rule("perhaps", card, style)
        yield ""
        return
    said = meaning.means if first.meaning is not None else f"{meaning.means} {_began(first)}".rstrip()
    yield from wrap(said, style.width, "  ")
    if meaning.do:
        yield from wrap(meaning.do, style.width, "    ", f"  {style.paint('help', 'help')}: ")
    cards = find_rules().by_code
    mismatch = diagnosis.missing is not None and diagnosis.missing.mismatch
    certain = "GPU512" if mismatch else meaning.code
    if certain in cards:
        yield from _rule("rule", cards[certain], style)
    else:
        for code in meaning.likely:
            if code in cards:
                yield from _rule("often", cards[code], style)
    for card in rules_that_declare(first.text, meaning.likely) if first.meaning is None else ():
        yield from _rule("perhaps", card, style)
    yield ""


def _began(failure: LoggedFailure) -> str:
    """Who raised an error of which only the kind is known."""
    if failure.place is None:
        return ""
    return f"It was raised inside of {failure.library}, which this line called." if failure.library else ""


def _rule(label: str, card: RuleCard, style: Style) -> Iterator[str]:
    code = style.linked(card.code, rule_address(card.code, card.name))
    text = f"{code} {card.name}: {card.summary} Read more: {read_more(card.code, card.name)}"
    yield from wrap(text, style.width, "    ", f"  {style.paint(label, 'dim')}: ")


def _others(following: Sequence[FollowingRanks], when: str, style: Style) -> Iterator[str]:
    if not following:
        return
    yield style.paint(f"  {when}", "bold")
    for group in following[:_MOST_GROUPS]:
        who = f"ranks {_numbers(group.ranks)}" if len(group.ranks) > 1 else _lower(_who(group.failure))
        yield from wrap(_told(who, group.failure), style.width, "      ", "    ")
    if len(following) > _MOST_GROUPS:
        yield f"    and {len(following) - _MOST_GROUPS} more"
    yield ""


def _earlier(runs: Sequence[LoggedFailure], style: Style) -> Iterator[str]:
    if not runs:
        return
    yield style.paint("  Earlier runs in the same file, which failed, too", "bold")
    for failure in runs[-_MOST_GROUPS:]:
        yield from wrap(_told(_lower(_who(failure)), failure), style.width, "      ", "    ")
    yield ""


def _told(who: str, failure: LoggedFailure) -> str:
    at = f" at {failure.place.path}:{failure.place.line}" if failure.place else ""
    return f"{who}: {failure.summary}{at} ({failure.at.path}:{failure.at.line})"


def _lower(text: str) -> str:
    return f"{text[0].lower()}{text[1:]}"


def _numbers(ranks: Sequence[int]) -> str:
    """`0-3, 5`"""
    runs: list[list[int]] = []
    for rank in ranks:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    return ", ".join(f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)


def _logs(diagnosis: LogDiagnosis) -> str:
    return "this log" if diagnosis.files == 1 else f"these {diagnosis.files} logs"


def _document(diagnosis: LogDiagnosis, fitting: Sequence[Finding]) -> str:
    import json

    from gpudoctor.logs.log_report import log_report_of
    from gpudoctor.plain import plain
    from gpudoctor.report.json import document_of

    return json.dumps({**document_of(fitting), **plain(log_report_of(diagnosis))}, indent=2) + "\n"
