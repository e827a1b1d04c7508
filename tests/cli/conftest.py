"""A stand-in for the interpreter: programs whose events are written into their text, and a rule that reports them."""

import multiprocessing
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudoctor import cli, registry
from gpudoctor.diagnostic import Location
from gpudoctor.lint.discovery.classify import Classified
from gpudoctor.lint.entries import started_entry
from gpudoctor.lint.events.event_context import Event, EventContext
from gpudoctor.lint.events.launch_world import LaunchWorld
from gpudoctor.lint.events.process import SeedSet
from gpudoctor.lint.program import Program
from gpudoctor.lint.source.project import ModuleFile, Project
from gpudoctor.rule import RuleCard

RULE = '''"""A seed is set.

## What goes wrong

Nothing, it is a test.
"""

from gpudoctor.diagnostic import Severity
from gpudoctor.lint.events.process import SeedSet
from gpudoctor.rule import Rule


class SeedIsSet(Rule):
    code = "GPU950"
    severity = Severity.ERROR

    def in_code(self, program):
        for event in program.events(SeedSet):
            if event.call == "crash":
                raise KeyError("a bug of this rule")
            yield self.found(event.location, f"`{event.call}` is called.", remedy="write nothing")
'''


def programs_in(entry: ModuleFile, _what: Classified, project: Project, *_: object) -> list[Program]:
    """One program for each launch world that the text names, with an event for each line that says `seed(...)`."""
    text = entry.source.text
    if "its process is killed" in text and multiprocessing.parent_process() is not None:
        os._exit(9)
    if "interpreter crashes" in text:
        raise KeyError("a bug of the interpreter")
    worlds = [world for world in LaunchWorld if f"world {world.value}" in text] or [LaunchWorld.TORCHRUN]
    files = [entry, *_imported(entry, project)]
    log = tuple(event for file in files for event in _events(file))
    return [
        Program(entry=entry.source.shown, world=world, log=log, files=frozenset(file.source.shown for file in files))
        for world in worlds
    ]


def _imported(entry: ModuleFile, project: Project) -> Iterator[ModuleFile]:
    for line in entry.source.lines:
        if line.startswith("import "):
            module = project.find(entry, line.split()[1])
            if isinstance(module, ModuleFile):
                yield module
                yield from _imported(module, project)


def _events(file: ModuleFile) -> Iterator[Event]:
    for number, line in enumerate(file.source.lines, 1):
        column = line.find("seed(")
        if column >= 0:
            call = line[column + 5 :].partition(")")[0] or "seed"
            at = Location(file.source.shown, number, column + 1, number, column + 5)
            yield SeedSet(context=EventContext(at), order=number, call=call, of=("torch",), seed=None)


@pytest.fixture
def seed_rule(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RuleCard]:
    """A pack with the rule above, on the path; gone again afterwards."""
    from gpudoctor.registry import card_of

    family = tmp_path / "packs" / "seed_pack" / "seeds"
    family.mkdir(parents=True)
    (family.parent / "__init__.py").touch()
    (family / "__init__.py").touch()
    (family / "seed_is_set.py").write_text(RULE, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "packs"))
    yield card_of("seed_pack.seeds.seed_is_set", "seed_pack")
    for name in [name for name in sys.modules if name.startswith("seed_pack")]:
        del sys.modules[name]


@pytest.fixture
def lint(
    seed_rule: RuleCard, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """Calls the command; gives the exit code and what it printed."""
    assert seed_rule.code == "GPU950"
    monkeypatch.setattr(registry, "_installed_packs", lambda path: ["seed_pack"])

    def call(*arguments: str) -> tuple[int, str, str]:
        code = cli.main(["lint", *arguments])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    return call


@pytest.fixture
def on_paper(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lint executes programs by the stand-in."""
    monkeypatch.setattr(started_entry, "programs_of", programs_in)


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Writes files into an empty folder, which is also the working directory; gives the folder."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)

    def write_files(**texts: str) -> Path:
        for name, text in texts.items():
            path = folder / f"{name.replace('__', '/')}.py"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        return folder

    return write_files
