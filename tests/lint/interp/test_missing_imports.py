"""Names that a module of the program does not have: to import one ends the path."""

import json
from pathlib import Path

import pytest

from gpudoctor.lint.discovery.classify import classify
from gpudoctor.lint.events.knowledge import Stop
from gpudoctor.lint.interp.launch_worlds import programs_of
from gpudoctor.lint.source.project import Project

PROGRAM = """
came = "nowhere"
try:
    {statement}
    came = "on"
except {handler}:
    came = "to its end"
reveal(came)  #: {came}
# file: helpers.py
import os
from parts.one import first
def work():
    pass
{more}
# file: parts/__init__.py
# file: parts/one.py
first = 1
"""
BOTH = "'on' if not (an exception is caught) | 'to its end' if an exception is caught"


@pytest.mark.parametrize(
    "statement",
    [
        "from helpers import train",
        "from parts.one import second",
        "from parts import two",
        "from helpers import work, x",
    ],
)
def test_what_is_not_there(paper, statement: str):
    ends = PROGRAM.format(statement=statement, handler="ImportError", came="'to its end'", more="")
    paper(ends, launch="single")
    (program,) = paper(f"{statement}\nprint(0)\n" + ends[ends.index("# file:") :], launch="single").programs
    assert (program.ended.error, program.ended.at.line) == ("ImportError", 1)


@pytest.mark.parametrize("statement", ["import helpers", "import helpers as h", "from helpers import work"])
def test_who_imports_what_ends_in_an_error_gets_it_too(paper, statement: str):
    more = "from parts.one import second"
    paper(PROGRAM.format(statement=statement, handler="ImportError", came="'to its end'", more=more), launch="single")


@pytest.mark.parametrize(
    ("statement", "more"),
    [
        ("from helpers import work, first, os", ""),
        ("from parts import one", ""),
        ("from helpers import train", "from unknown import *"),
        ("from helpers import train", "def __getattr__(name): return work"),
        ("from helpers import train", "globals().update(train=work)"),
        ("from helpers import train", "def later():\n    global train\n    train = work"),
        ("from helpers import train", "if os.environ.get('A'): train = work"),
        ("from unknown import train", ""),
    ],
)
def test_what_may_be_there(paper, statement: str, more: str):
    paper(PROGRAM.format(statement=statement, handler="Exception", came=BOTH, more=more), launch="single")


def test_a_package_that_is_built_may_have_more(paper):
    text = PROGRAM.format(statement="from parts import two", handler="Exception", came=BOTH, more="")
    paper(f"{text}# file: setup.py\n", launch="single")


def _ended(path: Path) -> Stop | None:
    project = Project(str(path))
    entry = project.module_of(str(path))
    assert entry is not None
    (program,) = programs_of(entry, classify(entry, project), project, "single")
    return program.ended


def test_what_python_comes_to_first_depends_on_how_it_is_started(tmp_path: Path):
    (tmp_path / "pyproject.toml").touch()
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "helpers.py").write_text("first = 1\n")
    (tools / "start.py").write_text("from helpers import train\nprint(train)\n")
    assert _ended(tools / "start.py") is not None
    # `python -m tools.start` does not look beside the program, and a package may be started so.
    (tools / "__init__.py").touch()
    assert _ended(tools / "start.py") is None
    (tools / "__init__.py").unlink()
    # It looks here.
    (tmp_path / "helpers").mkdir()
    assert _ended(tools / "start.py") is None


def test_an_error_ends_a_cell_and_not_a_notebook(tmp_path: Path):
    cells = [{"cell_type": "code", "metadata": {}, "source": text, "outputs": [], "execution_count": None}
             for text in ("from helpers import train", "print(0)")]  # fmt: skip
    (tmp_path / "helpers.py").write_text("first = 1\n")
    (tmp_path / "a.ipynb").write_text(json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}))
    (tmp_path / "a.py").write_text("from helpers import train\nprint(0)\n")
    assert _ended(tmp_path / "a.py") is not None
    assert _ended(tmp_path / "a.ipynb") is None
