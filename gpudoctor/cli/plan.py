"""`gpudoctor plan`: what was understood of a training program, so that silence can be examined."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from gpudoctor.cli.command import Command, add_choice
from gpudoctor.cli.outline import Line, Section, outline
from gpudoctor.cli.output import write_lines, write_out
from gpudoctor.cli.terminal import COLOURS, style_for
from gpudoctor.config import LAUNCHES
from gpudoctor.coverage import Coverage, Followed, Silence
from gpudoctor.diagnostic import Location
from gpudoctor.errors import GpudoctorError, UsageError, nearest_file
from gpudoctor.lint.discovery.classify import classify
from gpudoctor.lint.entries.ask_rules import coverage_in
from gpudoctor.lint.interp.launch_worlds import programs_of
from gpudoctor.lint.program import Program
from gpudoctor.lint.source.file import Unreadable, read_source
from gpudoctor.lint.source.project import Project, project_of
from gpudoctor.record import dataclass, replace
from gpudoctor.registry import find_rules
from gpudoctor.report.story import WORLDS
from gpudoctor.report.text import Style, wrap
from gpudoctor.rule import RuleCard


class Plan(Command):
    """Show what was understood of a training program.

    How it is started, what is wrapped, the loaders and samplers, the loops, the collectives, what is saved, and what
    could not be followed. Nothing is executed.
    """

    def declare(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("script", metavar="SCRIPT", help="the file with which training is started")
        add_choice(parser, "--launch", *LAUNCHES)
        add_choice(parser, "--output-format", "text", "json")
        add_choice(parser, "--color", *COLOURS)

    def run(self, options: argparse.Namespace) -> int:
        programs, project, because = _programs(options.script, options.launch)
        cards = find_rules().select()
        plans = [_plan(program, project, cards, because) for program in programs]
        if options.output_format == "json":
            write_out(_document(plans))
        else:
            style = style_for(sys.stdout, options.color)
            write_lines(line for plan in plans for line in _page(plan, style))
        return 0


@dataclass(frozen=True)
class _WorldPlan:
    """What was understood of a program in one world."""

    program: Program
    coverage: Coverage
    sections: list[Section]
    because: str
    """Why the file is, or is not, a program."""


def _plan(program: Program, project: Project, cards: Sequence[RuleCard], because: str) -> _WorldPlan:
    coverage = _covered(coverage_in(program, cards), project)
    first = Location(program.entry, 1)
    silent = tuple(Line(_not_checked(each, program.entry), each.at or first) for each in coverage.silent_for)
    sections = [_placed(section, project) for section in outline(program)]
    return _WorldPlan(program, coverage, [*([Section("Not checked", silent)] if silent else []), *sections], because)


def _covered(coverage: Coverage, project: Project) -> Coverage:
    def placed(at: Location | None) -> Location | None:
        file = project.file(at.path) if at is not None else None
        return file.placed(at) if at is not None and file is not None else at

    end = coverage.ended_by and replace(coverage.ended_by, at=placed(coverage.ended_by.at))
    silent = tuple(replace(each, at=placed(each.at)) for each in coverage.silent_for)
    return replace(coverage, ended_by=end, silent_for=silent)


def _not_checked(silence: Silence, path: str) -> str:
    rules = f", so that these rules could not judge it: {' '.join(silence.rules)}" if silence.rules else ""
    return f"{silence.told_in(path)}{rules}"


def _programs(script: str, launch: str) -> tuple[Sequence[Program], Project, str]:
    """What the script does in each world, its project, and why it is a program, or none."""
    path = Path(script)
    if not path.exists():
        raise UsageError(f"{script}: there is no such file{nearest_file(script)}")
    if path.is_dir():
        raise UsageError(f"{script}: this is a folder; name the file with which training is started")
    if path.suffix not in ("", ".py", ".pyw", ".ipynb"):
        raise UsageError(f"{script}: this is no Python file; name the one with which training is started")
    source = read_source(script)
    if isinstance(source, Unreadable):
        raise GpudoctorError(f"{source.location}: {source.message}")
    project, module = project_of(script)
    if module is None:
        return (), project, ""
    what = classify(module, project)
    return programs_of(module, what, project, launch), project, what.because


def _placed(section: Section, project: Project) -> Section:
    """With the places in a notebook as users know them, by cell and line."""
    files = ((line, project.file(line.location.path)) for line in section.lines)
    lines = (replace(line, location=file.placed(line.location)) if file else line for line, file in files)
    return replace(section, lines=tuple(lines))


def _page(plan: _WorldPlan, style: Style) -> Iterator[str]:
    program, sections = plan.program, plan.sections
    yield style.paint(_title(program, plan.because), "bold")
    yield _FOLLOWED[plan.coverage.followed] + ("" if plan.coverage.trains_at else _NO_TRAINING[plan.coverage.followed])
    if not sections:
        yield "Nothing that concerns training was seen."
    for section in sections:
        yield ""
        yield style.paint(section.title, "bold")
        places = [line.location.start for line in section.lines]
        width = min(max(map(len, places)), style.width // 3)
        for place, line in zip(places, section.lines, strict=True):
            text = f"{line.text} ({line.who})" if line.who else line.text
            if len(place) > width:
                yield f"  {place}"
                place = ""
            yield from wrap(text, style.width, " " * (width + 4), f"  {place:<{width}}  ")
    yield ""


def _title(program: Program, because: str) -> str:
    if not program.has_entry:
        return f"{program.entry}: no program of its own, for it {because}; its functions were followed one by one"
    return f"{program.entry}, when {WORLDS[program.world.value]}"


_FOLLOWED = {
    Followed.WHOLE: "It was followed to its end.",
    Followed.PARTLY: "It was followed, and not all rules could judge it.",
    Followed.NOT: "Its training was not reached.",
}
_NO_TRAINING = {
    Followed.WHOLE: " No training was seen in it.",
    Followed.PARTLY: " No training was seen in it.",
    Followed.NOT: "",
}


def _document(plans: Sequence[_WorldPlan]) -> str:
    import json

    return json.dumps({"version": 1, "programs": list(map(_entry, plans))}, indent=2) + "\n"


def _entry(plan: _WorldPlan) -> dict[str, Any]:
    from gpudoctor.report.json import coverage_of

    program = plan.program
    return {
        "entry": program.entry,
        "world": program.world.value,
        "whole": program.has_entry,
        "cut_short": bool(program.stops),
        "managed_by": sorted(program.frameworks),
        "files": sorted(program.files),
        "sections": {section.title: [_line(line) for line in section.lines] for section in plan.sections},
        "coverage": coverage_of(plan.coverage),
    }


def _line(line: Line) -> dict[str, Any]:
    at = line.location
    cell = at.cell.number if at.cell else None
    return {"text": line.text, "path": at.path, "cell": cell, "line": at.line, "who": line.who}
