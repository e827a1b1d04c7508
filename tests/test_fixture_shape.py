"""The shape of the fixtures: what their programs share stands in the prelude, and a main guard means something."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

from tests.support.fixture_marks import PRELUDES, Case, cases
from tests.support.linting import lint

FIXTURES = Path(__file__).resolve().parent.parent / "fixtures"
# What cannot be read is no program.
CASES = [case for case in cases(FIXTURES) if case.code != "GPU001"]
PROOF = "# proof: "
GUARD = re.compile(r"^if __name__ == ['\"]__main__['\"]:(.*)", re.MULTILINE)
TAKEN = re.compile(rf"^ *from (?:{'|'.join(each.stem for each in PRELUDES)}) import (.+)", re.MULTILINE)
STARTS = ("multiprocessing", "concurrent.futures", "launch")
"""A module or function with one of these in its name starts processes, and they import the program once more."""


@pytest.mark.parametrize("code", sorted({case.code for case in CASES}))
def test_a_main_guard_means_something(code: str) -> None:
    """Proofs have one, for they are started as users would. Elsewhere it is for a file that is imported: by processes
    that the program starts, or by another file of it. Who has one for another reason says so beside it:
    `if __name__ == "__main__":  # that of another file`.
    """
    idle = [label for case in CASES if case.code == code for label in _idle_guards(case)]
    assert not idle, "take the guard away, and the `main()` that nothing else calls"


def test_proofs_and_examples_of_pages_stand_alone() -> None:
    """The ones are started as they are, the others are copied by readers."""
    texts = [(case.name, [_text(path) for path in _programs(case)]) for case in CASES]
    alone = [each for name, each in texts if name.endswith("_page") or any(text.startswith(PROOF) for text in each)]
    assert len(alone) > 300
    assert not [text for each in alone for text in each if TAKEN.search(text)]


def test_the_prelude_holds_what_many_programs_share() -> None:
    nodes = [node for prelude in PRELUDES for node in ast.parse(_text(prelude)).body]
    helpers = {node.name for node in nodes if isinstance(node, ast.FunctionDef)}
    lines = [line for case in CASES for path in _programs(case) for line in TAKEN.findall(_text(path))]
    used = Counter(name for line in lines for name in line.split(", "))
    assert set(used) == helpers
    assert not {name: count for name, count in used.items() if count < (4 if "engine" in name else 10)}


@pytest.mark.parametrize("prelude", PRELUDES, ids=lambda each: each.stem)
def test_the_prelude_makes_no_mistake(prelude: Path) -> None:
    assert not lint(prelude, folder=prelude.parent)


def _idle_guards(case: Case) -> list[str]:
    texts = {path: _text(path) for path in (*_programs(case), *case.folder.glob(f"{case.name}.fixed.py"))}
    guards = {path: GUARD.search(text) for path, text in texts.items() if not text.startswith(PROOF)}
    idle = [path for path, guard in guards.items() if guard and "#" not in guard[1]]
    imported = {path: _imports(text) for path, text in texts.items()} if idle else {}
    if any(word in name for names in imported.values() for name in names for word in STARTS):
        return []
    return [
        f"{case.code}/{path.relative_to(case.folder).as_posix()}"
        for path in idle
        if path.stem not in {name.split(".")[-1] for other in texts if other != path for name in imported[other]}
    ]


def _programs(case: Case) -> list[Path]:
    return [path for path in case.files if path.suffix == ".py"]


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8-sig")


def _imports(text: str) -> set[str]:
    """The dotted names of all that a file imports."""
    nodes = list(ast.walk(ast.parse(text)))
    modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    froms = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    inside = {f"{node.module or ''}.{alias.name}" for node in froms for alias in node.names}
    return modules | inside | {node.module or "" for node in froms}
