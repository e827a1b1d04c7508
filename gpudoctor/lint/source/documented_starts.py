"""How a project says that one of its programs is started: in its own scripts, and in what it says of itself."""

from __future__ import annotations

import os
from collections.abc import Iterator

from gpudoctor.lint.source.file_queries import question
from gpudoctor.lint.source.layout import folders_up_to, home
from gpudoctor.lint.source.project_answers import Starts
from gpudoctor.record import dataclass


@dataclass(frozen=True)
class DocumentedStarts(Starts):
    """The command lines around the file `start` of the project in `root`. Where nothing marks that as the root, what
    else lies there may be of another project."""

    start: str = ""
    root: str = ""
    is_marked: bool = False

    def launchers(self) -> frozenset[str]:
        return self.launchers_naming_it() or (_launchers(self.root) if self.is_marked else frozenset())

    def launchers_naming_it(self) -> frozenset[str]:
        # The nearest folder that speaks of it: a folder of examples has scripts of its own.
        name = os.path.basename(self.start)
        return next(filter(None, (_launchers(folder, name) for folder in self._folders())), frozenset())

    def starts_alone(self) -> bool:
        lines = [line for folder in self._folders() for line in _launch_lines(folder)]
        named = {launcher for launcher, *files in lines if os.path.basename(self.start) in files}
        return named == {""} and any(launcher for launcher, *_ in lines)

    def _folders(self) -> Iterator[str]:
        here = os.path.dirname(self.start)
        yield from folders_up_to(here, self.root) if self.is_marked else dict.fromkeys((here, home(here)))


def _launchers(folder: str, name: str = "") -> frozenset[str]:
    named = (launcher for launcher, *files in _launch_lines(folder) if not name or name in files)
    return frozenset(filter(None, named))


@question
def _launch_lines(root: str) -> list[list[str]]:
    """The command lines that start programs, as the project writes them down: the launcher, empty where there is none,
    then the names of the files in the line."""
    # Imported late: only what is told of a mistake asks for it.
    from gpudoctor.lint.source.launch_lines import lines_in

    return lines_in(root)
