"""Which programs of a project take lint longest, and why: how often each was begun, and with how much work. Nothing of
them is executed.

    python tests/tools/program_costs.py DIR [--over 4]

A line for each program that takes more than so many seconds of the processor: seconds, the most MiB that the process
has held until then, its path, and for each execution on paper its world, seconds, statements and evaluations. Start one
process for each project: memory is counted since the process began.
"""

import argparse
import os
import resource
import sys
import time
from unittest import mock

from gpudoctor.lint.discovery.find_files import find_files
from gpudoctor.lint.discovery.select import list_files
from gpudoctor.lint.entries.analyze import examine
from gpudoctor.lint.interp import entry_execution
from gpudoctor.lint.interp.interpreter import Interpreter
from gpudoctor.lint.request import Request
from gpudoctor.lint.runtime.cache import Cache
from gpudoctor.lint.runtime.garbage import SeldomCollecting, collect_if_many
from gpudoctor.lint.source.file import Sources
from gpudoctor.lint.source.file_traits import Role
from gpudoctor.registry import find_rules

Execution = tuple[str, float, int, int]
"""Its world, the seconds that it took, its statements and evaluations."""


def main(argv: list[str]) -> int:
    """Lint the programs of a project one by one, and print those that take long."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", metavar="DIR")
    parser.add_argument("--over", type=float, default=4.0, metavar="SECONDS")
    options = parser.parse_args(argv)
    # Places are shown from the project's own root, as its author would see them.
    os.chdir(options.folder)
    rules = find_rules()
    request = Request(
        paths=(".",), rules=tuple(card for card in rules.select() if not card.run_only), known=rules.cards
    )
    sources = Sources()
    listed = list_files(find_files(request), request, sources, Cache(request, sources)).seen
    # As lint does: what Python's collector takes else is half of all.
    with SeldomCollecting():
        for file in listed:
            if file.role is not Role.PART:
                # Nothing of another program is known.
                _look(file.path, file.shown, request, Sources(), options.over)
                collect_if_many()
    return 0


def _look(path: str, shown: str, request: Request, sources: Sources, over: float) -> None:
    executions: list[Execution] = []
    run = entry_execution._run

    def timed(m: Interpreter, start: entry_execution.EntryStart) -> bool:
        began = time.process_time()
        try:
            return run(m, start)
        finally:
            seconds = time.process_time() - began
            executions.append((m.world_unasked.value, seconds, m.statements, m.evaluations))

    began = time.process_time()
    with mock.patch.object(entry_execution, "_run", timed):
        examine(path, request, sources)
    seconds = time.process_time() - began
    if seconds > over:
        held = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        told = "; ".join(f"{world} {took:.1f} s {done:,} {asked:,}" for world, took, done, asked in executions)
        print(f"{seconds:5.1f} s {held:4} MiB  {shown}  [{told}]", flush=True)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
