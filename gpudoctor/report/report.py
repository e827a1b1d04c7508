"""What every format is made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from gpudoctor.coverage import Cause, Coverage
from gpudoctor.diagnostic import Finding, Location, Problem
from gpudoctor.record import dataclass
from gpudoctor.rule import RuleCard
from gpudoctor.trials import TriedProgram

Lines = Callable[[Location], Sequence[str]]
"""Gives the lines around a place, of its file or of its notebook's cell; none where they cannot be read."""


@dataclass(frozen=True)
class Report:
    """What was found, and all that a format may tell of how.

    `files` counts those that were asked for. `problems` could not be done, `unread` could not be read, `partly` was
    cut short by a limit, `bugs` are our own. `programs` says what was followed of each, `rules` are all that there
    are. The command works in `folder` and ends with `exit_code`; paths that a service gets count from `root`, the
    folder of the repository, or from `folder` where that is empty.
    """

    findings: tuple[Finding, ...]
    lines: Lines
    files: int = 0
    problems: tuple[Problem, ...] = ()
    unread: tuple[Problem, ...] = ()
    partly: tuple[Problem, ...] = ()
    bugs: tuple[Problem, ...] = ()
    programs: tuple[Coverage, ...] = ()
    rules: tuple[RuleCard, ...] = ()
    folder: str = ""
    root: str = ""
    exit_code: int = 0
    with_statistics: bool = False
    tried: tuple[TriedProgram, ...] | None = None
    """What came of programs that were run, where that was asked for."""

    @property
    def errors(self) -> tuple[Problem, ...]:
        """What makes the answer one that is not to be relied on."""
        return *self.problems, *self.bugs

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """What was left out of the answer."""
        return *self.unread, *self.untold

    @property
    def untold(self) -> tuple[Problem, ...]:
        """What limits have cut short and no program's own line, or the note, says."""
        told = {each.path for each in self.programs for silence in each.silent_for if silence.cause is Cause.LIMIT}
        return tuple(problem for problem in self.partly if problem.path not in told)
