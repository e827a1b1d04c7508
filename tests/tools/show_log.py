"""Print what a program does on paper: all events of its log, in each way of launching. It is what rules see of it.

python tests/tools/show_log.py fixtures/rules/data/missing_set_epoch/bad_spawn_trainer.py [--launch torchrun]
"""

import argparse
import sys

from gpudoctor.config import LAUNCHES
from gpudoctor.lint.discovery.classify import classify
from gpudoctor.lint.events.event_context import Event, ranks_in_words
from gpudoctor.lint.interp.launch_worlds import programs_of
from gpudoctor.lint.source.project import Project
from gpudoctor.record import fields


def main(argv: list[str] | None = None) -> int:
    """Print the log of each program that the file is."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("script")
    parser.add_argument("--launch", choices=LAUNCHES, default="auto")
    options = parser.parse_args(argv)
    project = Project(options.script)
    module = project.module_of(options.script)
    if module is None:
        print(f"show_log: {options.script} cannot be read", file=sys.stderr)
        return 2
    for program in programs_of(module, classify(module, project), project, options.launch):
        state = "whole" if program.whole else "no program of its own"
        print(f"{program.entry} in the world {program.world.value}: {state}")
        for event in program.log:
            print(f"  {event.location.path}:{event.location.line}  {_told(event)}")
    return 0


def _told(event: Event) -> str:
    """An event with what it says of itself, and on which ranks it happens."""
    says = {each.name: getattr(event, each.name) for each in fields(event) if each.name not in ("way", "order")}
    told = ", ".join(f"{name}={value}" for name, value in says.items() if value not in (None, "", (), False))
    ranks = ranks_in_words(event)
    return f"{type(event).__name__}({told}){'' if ranks == 'every rank' else f' on {ranks}'}"


if __name__ == "__main__":
    raise SystemExit(main())
