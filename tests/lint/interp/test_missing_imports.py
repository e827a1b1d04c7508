"""Names that a module of the program does not have: to import one ends the path."""

from __future__ import annotations

import pytest

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
    assert program.ended is not None
    assert (program.ended.error, program.ended.at.line) == ("ImportError", 1)


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
