"""Long functions without effect are not followed again; those with an effect are, each time."""

from __future__ import annotations

import pytest

from gpudoctor.lint.interp.limits import LONG_FUNCTION
from tests.support.paper import Revealed

LONG = "".join(f"    y{n} = {n}\n" for n in range(LONG_FUNCTION + 5))
"""Statements of a function that is long."""


def test_the_same_arguments_give_the_same_result(paper):
    paper(
        f"def table(x):\n{LONG}    return x + 1\n"
        "reveal(table(1))  #: 2\nreveal(table(1))  #: 2\nreveal(table(5))  #: 6\nreveal(table(5))  #: 6\n"
    )


def test_after_some_arguments_the_next_ones_are_unknown(paper):
    paper(
        f"def table(x):\n{LONG}    return x + 1\n"
        "reveal(table(1))  #: 2\nreveal(table(2))  #: 3\nreveal(table(3))  #: unknown\nreveal(table(2))  #: 3\n"
    )


def test_what_a_rank_puts_in_is_not_forgotten(paper):
    paper(
        f"import torch, torch.distributed as dist\ndef table(x):\n{LONG}    return x + 1\n"
        "table(1)\ntable(2)\nif table(dist.get_rank()):\n    reveal(1)  #: 1\n"
    )


@pytest.mark.parametrize(
    "effect",
    ["    global state\n    state = x\n", "    holder.value = x\n    global state\n    state = holder.value\n"],
)
def test_a_function_that_writes_is_followed_each_time(paper, effect: str):
    paper(
        "class Holder:\n    value = 0\nholder = Holder()\nstate = 0\n"
        f"def work(x):\n{effect}{LONG}\n"
        "work(1)\nreveal(state)  #: 1\nwork(2)\nreveal(state)  #: 2\n"
        "work(3)\nreveal(state)  #: 3\nwork(1)\nreveal(state)  #: 1\n"
    )


def test_a_function_with_events_is_followed_each_time(paper):
    found = paper(
        f"def work(x):\n{LONG}    reveal(x)  #: 1 ; 2 ; 3\nfor x in (1, 2, 3):\n    work(x)\nwork(1)\n",
    )
    assert len(found.events(Revealed)) == 4


def test_a_constructor_makes_a_new_object_each_time(paper):
    paper(
        f"class Net:\n    def __init__(self, x):\n    {LONG.replace(chr(10) + '    ', chr(10) + '        ')}"
        "        self.x = x\n"
        "nets = (Net(1), Net(2), Net(3), Net(1))\n"
        "reveal([net.x for net in nets])  #: [1, 2, 3, 1]\n"
    )


@pytest.mark.parametrize(
    ("read", "change"),
    [
        ("holder.value", "holder.value = 2"),
        ("state", "global state; state = 2"),
        ("len(items)", "items.append(2)"),
    ],
)
def test_what_a_function_reads_from_outside_counts_as_an_argument(paper, read: str, change: str):
    paper(
        "class Holder:\n    value = 1\nholder = Holder()\nstate = 1\nitems = [1]\n"
        f"def table(x):\n{LONG}    return x + {read}\n"
        f"def change():\n    {change}\n"
        "reveal(table(1))  #: 2\nreveal(table(1))  #: 2\nchange()\nreveal(table(1))  #: 3\n"
    )
