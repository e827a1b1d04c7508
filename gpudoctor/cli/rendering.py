"""From what lint has found to the text of a format, which is imported where there is something to write in it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from gpudoctor.coverage import Cause
from gpudoctor.diagnostic import Problem, by_place
from gpudoctor.visible import visible

if TYPE_CHECKING:
    from gpudoctor.cli.settings import Settings
    from gpudoctor.lint.request import Outcome
    from gpudoctor.report.sarif import Described
    from gpudoctor.report.text import Style


def rendered(outcome: Outcome, settings: Settings, style: Style, exit_code: int) -> str:
    """What goes to standard output or into the output file, all of it."""
    match settings.output_format:
        case "json":
            return _json(outcome, with_statistics=settings.statistics)
        case "sarif":
            return _sarif(outcome, settings, exit_code)
        case "github":
            return _github(outcome)
        case "gitlab":
            return _gitlab(outcome)
    return _text(outcome, settings, style) if outcome.findings else ""


def _text(outcome: Outcome, settings: Settings, style: Style) -> str:
    from gpudoctor.report import concise, full
    from gpudoctor.report.text import written

    if settings.output_format == "concise":
        return written(concise.render(outcome.findings, style))
    return written(full.render(outcome.findings, outcome.lines, style))


def untold(outcome: Outcome) -> list[Problem]:
    """What limits have cut short and no program's own line, or the note, says."""
    told = {each.path for each in outcome.programs for silence in each.silent_for if silence.cause is Cause.LIMIT}
    return [problem for problem in outcome.partly if problem.path not in told]


def _json(outcome: Outcome, *, with_statistics: bool) -> str:
    from gpudoctor.report import json

    errors = (*outcome.problems, *outcome.unread, *outcome.partly, *_bugs(outcome))
    told = by_place(outcome.findings), outcome.files, errors, outcome.programs
    return json.render(*told, with_statistics=with_statistics) + "\n"


def _sarif(outcome: Outcome, settings: Settings, exit_code: int) -> str:
    from gpudoctor import __version__
    from gpudoctor.report import sarif

    execution = sarif.Execution(
        version=__version__,
        folder=os.getcwd(),
        exit_code=exit_code,
        errors=(*outcome.problems, *_bugs(outcome)),
        warnings=(*outcome.unread, *untold(outcome)),
        notes=tuple(filter(None, [_note(outcome)])),
    )
    return (
        sarif.render(by_place(outcome.findings), _described(outcome, settings), outcome.lines, execution, _root())
        + "\n"
    )


def _described(outcome: Outcome, settings: Settings) -> dict[str, Described]:
    """The rules that have found something, with their pages; those of all rules would be most of each log."""
    from gpudoctor.cli.markdown import plain
    from gpudoctor.registry import page_of
    from gpudoctor.report.sarif import Described
    from gpudoctor.report.text import Style

    # Viewers wrap by themselves.
    endless = Style(width=1 << 20)
    codes = {finding.code for finding in outcome.findings}
    cards = [card for card in settings.request.known if card.code in codes]
    pages = {card.code: page_of(card) for card in cards}
    return {
        card.code: Described(
            code=card.code,
            name=card.name,
            severity=card.severity,
            family=card.family,
            summary=card.summary,
            text=plain(f"{card.code} {card.name}", pages[card.code], endless),
            markdown=pages[card.code].strip() + "\n",
        )
        for card in cards
    }


def _github(outcome: Outcome) -> str:
    from gpudoctor.report import github

    errors = (*outcome.problems, *_bugs(outcome))
    commands = github.render(outcome.findings, errors, (*outcome.unread, *untold(outcome)), _root(), _note(outcome))
    # These lines are meant to be obeyed; what is in them has no line ends any more.
    return "".join(f"{visible(command)}\n" for command in commands)


def _gitlab(outcome: Outcome) -> str:
    from gpudoctor.report import gitlab

    return gitlab.render(by_place(outcome.findings), outcome.lines, _root(), _note(outcome)) + "\n"


def _note(outcome: Outcome) -> Problem | None:
    from gpudoctor.report.silence import note

    return note(outcome.programs)


def _bugs(outcome: Outcome) -> list[Problem]:
    return [Problem("", str(bug)) for bug in outcome.failures]


def _root() -> str:
    """The folder of the repository where a service says so; else paths count from the working directory."""
    return os.environ.get("GITHUB_WORKSPACE") or os.environ.get("CI_PROJECT_DIR") or ""
