"""`gpudoctor plan`: what was understood of a training program, so that silence can be examined."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpudoctor.cli.command import Command, one_of
from gpudoctor.cli.outline import Line, Section, outline
from gpudoctor.cli.output import write_lines, write_out
from gpudoctor.cli.terminal import COLOURS, style_for
from gpudoctor.config import LAUNCHES
from gpudoctor.errors import GpudoctorError, UsageError, nearest
from gpudoctor.lint.interp.worlds import programs_of
from gpudoctor.lint.source.file import Unreadable, read_source
from gpudoctor.lint.source.project import Project
from gpudoctor.record import replace
from gpudoctor.report.story import WORLDS
from gpudoctor.report.text import Style, wrap

if TYPE_CHECKING:
    import argparse

    from gpudoctor.lint.program import Program


class Plan(Command):
    """Show what was understood of a training program.

    How it is started, what is wrapped, the loaders and samplers, the loops, the collectives, what is saved, and what
    could not be followed. Nothing is executed.
    """

    def declare(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("script", metavar="SCRIPT", help="the file with which training is started")
        parser.add_argument(
            "--launch", metavar="|".join(LAUNCHES), type=one_of(*LAUNCHES), default="auto", help="default: auto"
        )
        parser.add_argument(
            "--output-format", metavar="text|json", type=one_of("text", "json"), default="text", help="default: text"
        )
        parser.add_argument(
            "--color", metavar="|".join(COLOURS), type=one_of(*COLOURS), default="auto", help="default: auto"
        )

    def run(self, options: argparse.Namespace) -> int:
        programs, project = _programs(options.script, options.launch)
        plans = [(program, [_placed(section, project) for section in outline(program)]) for program in programs]
        if options.output_format == "json":
            write_out(_document(plans))
        else:
            style = style_for(sys.stdout, options.color)
            write_lines(line for plan in plans for line in _page(*plan, style))
        return 0


def _programs(script: str, launch: str) -> tuple[Sequence[Program], Project]:
    path = Path(script)
    if not path.exists():
        beside = os.listdir(path.parent) if path.parent.is_dir() else []
        raise UsageError(f"{script}: there is no such file{nearest(path.name, beside)}")
    if path.is_dir():
        raise UsageError(f"{script}: this is a folder; name the file with which training is started")
    source = read_source(script)
    if isinstance(source, Unreadable):
        raise GpudoctorError(f"{source.location}: {source.message}")
    project = Project(script)
    module = project.module_of(script)
    return programs_of(module, project, launch) if module else (), project


def _placed(section: Section, project: Project) -> Section:
    """With the places in a notebook as users know them, by cell and line."""
    files = ((line, project.file(line.location.path)) for line in section.lines)
    lines = (replace(line, location=file.placed(line.location)) if file else line for line, file in files)
    return replace(section, lines=tuple(lines))


def _page(program: Program, sections: Sequence[Section], style: Style) -> Iterator[str]:
    yield style.paint(_title(program), "bold")
    if program.frameworks:
        yield f"{', '.join(sorted(program.frameworks))} decides about wrapping, placement and sharding."
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


def _title(program: Program) -> str:
    if not program.has_entry:
        return f"{program.entry}: no program of its own; its functions were followed one by one"
    return f"{program.entry}, when {WORLDS[program.world.value]}"


def _document(plans: Sequence[tuple[Program, Sequence[Section]]]) -> str:
    import json

    return json.dumps({"version": 1, "programs": [_entry(*plan) for plan in plans]}, indent=2) + "\n"


def _entry(program: Program, sections: Sequence[Section]) -> dict[str, Any]:
    return {
        "entry": program.entry,
        "world": program.world.value,
        "whole": program.has_entry,
        "cut_short": program.cut_short,
        "managed_by": sorted(program.frameworks),
        "files": sorted(program.files),
        "sections": {section.title: [_line(line) for line in section.lines] for section in sections},
    }


def _line(line: Line) -> dict[str, Any]:
    at = line.location
    cell = at.cell.number if at.cell else None
    return {"text": line.text, "path": at.path, "cell": cell, "line": at.line, "who": line.who}
