"""One entry, executed on paper as often as launch files start it in different ways."""

from __future__ import annotations

from contextlib import ExitStack

from gpudoctor.diagnostic import Location
from gpudoctor.lint.discovery.classify import classify
from gpudoctor.lint.entries.ask_rules import Failures
from gpudoctor.lint.events.program_facts import AsStarted
from gpudoctor.lint.interp.budget import Budget
from gpudoctor.lint.interp.launch_worlds import programs_of, with_names
from gpudoctor.lint.interp.limits import MAX_ALL_SECONDS, MIN_PART_SECONDS
from gpudoctor.lint.program import Program
from gpudoctor.lint.request import Request
from gpudoctor.lint.source.project import ModuleFile, Project


class StartedEntry:
    """An entry of a request, what has gone wrong with it, and the time that is left for it."""

    def __init__(self, entry: ModuleFile, project: Project, request: Request) -> None:
        self._entry = entry
        self.project, self.request = project, request
        self.failures = Failures()
        self.left = Budget(MAX_ALL_SECONDS)
        with self.part("reading"):
            self._what = classify(entry, project)

    def part(self, what: str, failures: Failures | None = None, parts: int = 1) -> ExitStack:
        """Work on the entry: no bug of it hides what the others find, and no time of it all of theirs.

        It is `what` that is done with the file, and takes the time of so many `parts`.
        """
        stack = ExitStack()
        stack.enter_context((failures or self.failures).of(f"{what} {self._entry.source.shown}"))
        stack.enter_context(self.left.part(parts * MIN_PART_SECONDS))
        return stack

    def programs(self, way: AsStarted, launch: str = "") -> list[Program]:
        """The programs of one way of starting it, as one launch makes them, or as was asked for."""
        with self.part("symbolic execution of"):
            return programs_of(self._entry, self._what, self.project, launch or self.request.launch, way)
        return []

    def with_names(self, programs: list[Program], places: frozenset[Location], way: AsStarted) -> list[Program]:
        """The same programs once more, noting what names hold at these places. Raises what goes wrong."""
        seconds = self.left.part(MIN_PART_SECONDS).left
        return with_names(programs, self._entry, self._what, self.project, places, seconds, way)


def makes_no_difference(programs: list[Program], one: AsStarted, other: AsStarted) -> bool:
    """The program comes out the same: it is given the same, and never asks how many processes there are."""
    if not (one.several and other.several) or one.given != other.given or one.surely != other.surely:
        return False
    return not any(each.size_matters or each.frameworks for each in programs)
