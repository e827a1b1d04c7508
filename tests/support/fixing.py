"""The fixes of a fixture, made in a copy of it. `bad_x.fixed.py` beside `bad_x.py` is what comes out."""

import contextlib
import io
import shutil
from pathlib import Path
from typing import NamedTuple

from gpudoctor import cli
from tests.support.fixture_marks import PRELUDES, Case
from tests.support.linting import same_rules, working_in

GOLDEN = ".fixed"


class Copy(NamedTuple):
    """A program of the fixtures in a folder of its own, where it may be changed."""

    case: Case
    folder: Path

    @property
    def entry(self) -> Path:
        return self.folder / self.case.entry.relative_to(self.case.folder)

    @property
    def files(self) -> list[Path]:
        """The files of the program, which are fixed in place."""
        return [self.folder / path.relative_to(self.case.folder) for path in self.case.files]

    def golden(self, file: Path) -> Path:
        """Where it is written what becomes of a file."""
        return _golden(self.case.folder / file.relative_to(self.folder))

    def fix(self, *, unsafe: bool = True) -> str:
        """Fix what the rule finds; what is said about it."""
        arguments = ["lint", "--fix", "--no-cache", "--fail-on=never", "--jobs=1"]
        arguments += ["--unsafe-fixes"] if unsafe else []
        # Comments are judged by the rules that they silence.
        which = "--extend-select" if self.case.code == "GPU002" else "--select"
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), working_in(self.folder), same_rules():
            status = cli.main([*arguments, f"{which}={self.case.code}", str(self.entry.relative_to(self.folder))])
        assert status == 0, f"lint --fix ended with {status}:\n{err.getvalue()}"
        return err.getvalue()


def copy_of(case: Case, folder: Path) -> Copy:
    """The program of a case, copied without what it is fixed to."""
    # Settings say how a program is started.
    for file in (*case.files, *case.entry.parent.glob("pyproject.toml")):
        target = folder / file.relative_to(case.folder)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, target)
    for prelude in PRELUDES:
        shutil.copy(prelude, folder)
    return Copy(case, folder)


def has_golden(case: Case) -> bool:
    """It is written what the program is fixed to."""
    return any(_golden(file).exists() for file in case.files)


def _golden(path: Path) -> Path:
    return path.with_suffix(f"{GOLDEN}{path.suffix}")
