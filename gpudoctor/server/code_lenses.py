"""The line above a program: how it is started, what was found, and what one may do with it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from lsprotocol import types

from gpudoctor.server.analysis_messages import Checked, ProgramSeen

SHOW_PLAN = "gpudoctor.showPlan"
WATCH_RUN = "gpudoctor.watchRun"
_MAIN = re.compile(r"""if\s+__name__\s*==\s*["']__main__["']""")
_SEVERAL = frozenset({"torchrun", "spawn"})


def lenses_of(path: str, text: str, uri: str, checked: Checked) -> Iterator[types.CodeLens]:
    """Those of a file; none where it is no program."""
    for program in checked.programs:
        if program.path == path:
            at = _range(text)
            count = _findings(path, checked)
            yield types.CodeLens(at, types.Command(f"{_ranks(program)}, {count}", ""))
            yield types.CodeLens(at, types.Command("Show plan", SHOW_PLAN, arguments=[uri]))
            yield types.CodeLens(at, types.Command("Watch a run", WATCH_RUN, arguments=[uri]))


def watching(path: str, program: ProgramSeen | None, root: str = "") -> str:
    """What to type in a terminal to watch a run of a program."""
    shown = str(Path(path).relative_to(root)) if root and Path(path).is_relative_to(root) else path
    shown = f'"{shown}"' if " " in shown else shown
    by_launcher = program is not None and "torchrun" in program.worlds
    starter = "torchrun --nproc-per-node 2" if by_launcher else "python"
    return f"gpudoctor run {starter} {shown}"


def _ranks(program: ProgramSeen) -> str:
    if _SEVERAL.isdisjoint(program.worlds):
        return "1 process"
    how = "torchrun" if "torchrun" in program.worlds else "started by the program"
    return f"1 rank per GPU ({how})"


def _findings(path: str, checked: Checked) -> str:
    """How many findings stand in the file, or have to do with it."""
    count = sum(path == each.span.path or any(path == span.path for _, span in each.related) for each in checked.found)
    return f"{count or 'no'} finding{'' if count == 1 else 's'}"


def _range(text: str) -> types.Range:
    lines = text.splitlines()
    line = next((number for number, each in enumerate(lines) if _MAIN.match(each)), 0)
    return types.Range(types.Position(line, 0), types.Position(line, len(lines[line]) if lines else 0))


def program_at(path: str, programs: Iterable[ProgramSeen]) -> ProgramSeen | None:
    """The program that starts at a file."""
    return next((each for each in programs if each.path == path), None)
