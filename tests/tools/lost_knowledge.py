"""Where the engine loses its way in real programs, the commonest causes first. Nothing is executed.

    python tests/tools/lost_knowledge.py DIR... [--seconds 60] [--entries 20] [--rows 25] [--json FILE]

Each DIR is one project. Its entries are executed on paper; each cause counts once for each place. An entry that trains,
as its name, its text or that of what it imports says, and in which no backward pass was seen is listed as blind.
"""

import argparse
import json
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from gpudoctor.errors import GpudoctorError
from gpudoctor.lint.discovery.classify import classify
from gpudoctor.lint.discovery.find_files import find_files
from gpudoctor.lint.discovery.select import list_files
from gpudoctor.lint.events.data_loading import MakeLoader
from gpudoctor.lint.events.event_context import Event
from gpudoctor.lint.events.knowledge import Escape
from gpudoctor.lint.events.model import Forward, Wrap
from gpudoctor.lint.events.training_step import Backward
from gpudoctor.lint.interp.launch_worlds import programs_of
from gpudoctor.lint.program import Program
from gpudoctor.lint.request import Request
from gpudoctor.lint.runtime.cache import Cache
from gpudoctor.lint.source.file import SourceFile, Sources
from gpudoctor.lint.source.file_traits import Role
from gpudoctor.lint.source.project import Project

SEEN = {"loader": (MakeLoader,), "forward": (Forward,), "backward": (Backward,), "wrap": (Wrap,)}
TRAINS = re.compile(r"\.backward\(|\.manual_backward\(")

Found = dict[str, dict[str, str]]
"""Cause -> place -> the words of the first loss there."""


def main(argv: list[str]) -> int:
    """Read the projects and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", metavar="DIR", nargs="+")
    parser.add_argument("--seconds", type=float, default=60.0, help="for each project")
    parser.add_argument("--entries", type=int, default=20, help="the most entries of a project")
    parser.add_argument("--rows", type=int, default=25)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args(argv)
    found: Found = defaultdict(dict)
    seen: dict[str, int] = defaultdict(int)
    blind: list[str] = []
    start = Path.cwd()
    for folder in options.folders:
        # Places are shown from the project's own root, as its author would see them.
        os.chdir(start / folder)
        _read(Path(folder).name, options, found, seen, blind)
        os.chdir(start)
        print(f"{Path(folder).name} done", file=sys.stderr, flush=True)
    _show(found, seen, blind, options.rows)
    if options.json:
        options.json.write_text(json.dumps({"lost": found, "seen": seen, "blind": blind}, indent=1), encoding="utf-8")
    return 0


def _read(name: str, options: argparse.Namespace, found: Found, seen: dict[str, int], blind: list[str]) -> None:
    began = time.process_time()
    sources = Sources()
    request = Request(paths=(".",), rules=(), known=())
    seen_files = list_files(find_files(request), request, sources, Cache(request, sources)).seen
    read = [sources.read(str(each.path)) for each in seen_files if each.role is not Role.PART]
    starts = [file for file in read if isinstance(file, SourceFile)]
    for file in sorted(starts, key=lambda file: not TRAINS.search(file.text))[: options.entries]:
        if time.process_time() - began > options.seconds:
            print(f"{name}: out of time", file=sys.stderr)
            return
        project = Project(file.path, sources)
        entry = project.module_of(file.path)
        try:
            programs = programs_of(entry, classify(entry, project), project) if entry is not None else []
        except GpudoctorError as error:
            programs = []
            found["failed"][f"{name}/{file.shown}"] = str(error)
        _count(programs, f"{name}/", found)
        _look(f"{name}/{file.shown}", programs, seen, blind)


def _count(programs: list[Program], prefix: str, found: Found) -> None:
    for program in programs:
        for event, why in _causes(program):
            place = f"{prefix}{event.location.path}:{event.location.line}"
            found[_kind(why)].setdefault(place, why)


def _causes(program: Program) -> Iterator[tuple[Event, str]]:
    for lost in program.lost:
        yield lost, lost.why
    for escape in program.events(Escape):
        # Handing over nothing that rules ask about loses nothing.
        if escape.values:
            yield escape, f"handed into {escape.into}"


def _kind(why: str) -> str:
    """The cause without the names of this program."""
    return re.sub(r"`[^`]*`", "`...`", why)


def _look(shown: str, programs: list[Program], seen: dict[str, int], blind: list[str]) -> None:
    seen["entries"] += 1
    texts = [source.text for program in programs for source in program.sources]
    # A registry may keep the file with the loop from being read at all, so the name counts too.
    if "train" not in Path(shown).stem and not any(map(TRAINS.search, texts)):
        return
    seen["entries that train"] += 1
    for name, kinds in SEEN.items():
        seen[f"{name} seen"] += any(program.has(*kinds) for program in programs)
    seen["cut short"] += any(program.cut_short for program in programs)
    if not any(program.has(Backward) or program.managed_by for program in programs):
        blind.append(shown)


def _show(found: Found, seen: dict[str, int], blind: list[str], rows: int) -> None:
    for name, number in seen.items():
        print(f"{number:6}  {name}")
    print()
    for why, places in sorted(found.items(), key=lambda item: -len(item[1]))[:rows]:
        print(f"{len(places):6}  {why}")
        for place, words in list(places.items())[:2]:
            print(f"        {place}: {words}")
    print(f"\n{len(blind)} entries that train, in which no backward pass was seen:")
    for shown in blind:
        print(f"        {shown}")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
