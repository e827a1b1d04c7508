"""Functions that were followed often enough without effect are not followed again; those with an effect are."""

import pytest

from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.flow.condition import Divergence
from gpudoctor.lint.interp import function_traits, generators, habits, items
from gpudoctor.lint.interp.limits import SHORT_CALL
from tests.support.paper import Revealed

LONG = "".join(f"    y{n} = {n}\n" for n in range(35))
"""Statements of a function that is long."""


def test_the_same_arguments_give_the_same_result(paper):
    paper(
        f"def table(x):\n{LONG}    return x + 1\n"
        "reveal(table(1))  #: 2\nreveal(table(1))  #: 2\nreveal(table(5))  #: 6\nreveal(table(5))  #: 6\n"
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


SHORT = "".join(f"    y{n} = {n}\n" for n in range(SHORT_CALL))
"""Statements of a function that is not long, and costs something."""


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """All calls of a function may take as many statements as three of these."""
    monkeypatch.setattr(habits, "MAX_QUIET_STATEMENTS", 3 * SHORT_CALL)
    # Fewer than that are worth remembering.
    monkeypatch.setattr(function_traits, "MIN_REMEMBERED_COST", SHORT_CALL)


FOUR = "work(1, kept)\nwork(2, kept)\nwork(3, kept)\n"


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize(
    ("body", "shown"),
    [
        ("return x", "reveal(work(4, kept))  #: 4"),
        ("return x", "reveal(work('4', kept))  #: '4'"),
        ("return str(x)", "reveal(work(4, kept))  #: unknown"),
        ("return 'always'", "reveal(work(4, kept))  #: 'always'"),
        ("kept[x] = x", "work(4, kept)\nreveal(4 in kept)  #: 4 in kept"),
        ("kept[x] = x", "fresh = {}\nwork(4, fresh)\nreveal(4 in fresh)  #: 4 in fresh"),
        ("global count; count = x", "work(4, kept)\nreveal(count)  #: unknown"),
        ("global count; count = 7", "work(4, kept)\nreveal(count)  #: 7"),
        ("reveal(x)  #: 1 ; 2 ; 3 ; 4", "work(4, kept)"),
        ("return torch.zeros(x)", "reveal(work(4, kept))  #: Tensor"),
    ],
)
def test_a_function_that_was_followed_often_enough_gives_and_writes_what_is_unknown(paper, body: str, shown: str):
    paper(f"import torch\nkept, count = {{}}, 0\ndef work(x, kept):\n{SHORT}    {body}\n{FOUR}{shown}\n")


@pytest.mark.usefixtures("little")
def test_what_a_rank_puts_in_is_known_of_what_comes_out(paper):
    found = paper(
        f"import torch.distributed as dist\nkept = {{}}\ndef work(x, kept):\n{SHORT}    return x\n"
        f"{FOUR}if work(dist.get_rank(), kept):\n    reveal(1)  #: 1\n"
    )
    (shown,) = found.events(Revealed)
    assert shown.context.condition.divergence & Divergence.RANK


@pytest.mark.usefixtures("little")
def test_a_method_writes_to_its_own_object(paper):
    paper(
        f"class Meter:\n    def update(self, x):\n    {SHORT.replace(chr(10) + '    ', chr(10) + '        ')}"
        "        self.last = x\n"
        "one, two = Meter(), Meter()\none.update(1)\none.update(2)\none.update(3)\ntwo.last = 5\n"
        "one.last = 6\ntwo.update(4)\nreveal(one.last)  #: 6\nreveal(two.last)  #: unknown\n"
    )


@pytest.mark.usefixtures("little")
@pytest.mark.parametrize(("layer", "shown"), [("nn.Linear(1, 1)", "unknown"), ("nn.Conv2d(1, 1, 1)", "'d'")])
def test_what_sets_the_weights_of_layers_is_not_followed_for_each_of_them(paper, layer: str, shown: str):
    paper(
        f"from torch import nn\ndef work(layer, x):\n{SHORT}    nn.init.normal_(layer.weight)\n"
        "    layer.weight.div_(x)\n    return x\nfor each in ('a', 'b', 'c'):\n    work(nn.Linear(1, 1), each)\n"
        f"reveal(work({layer}, 'd'))  #: {shown}\n"
    )


@pytest.mark.usefixtures("little")
def test_a_function_that_is_given_a_model_is_followed_each_time(paper):
    paper(
        f"from torch import nn\ndef work(model):\n{SHORT}    return 1\n"
        "for each in (1, 2, 3, 4):\n    work(1)\ndef loud(model):\n"
        f"{SHORT}    reveal(model)  #: Linear ; Conv2d\nloud(nn.Linear(1, 1))\nloud(nn.Conv2d(1, 1, 1))\n"
    )


def test_a_generator_over_generators_is_not_followed_for_each_item(paper, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(items, "LONG_DRAW", 3)
    found = paper(
        "def numbers():\n    x = 1\n    y = 2\n    reveal('begun')  #: 'begun'\n    yield x + y\n"
        "reveal(next(numbers()))  #: 3\nreveal(next(numbers()))  #: 3\nreveal(next(numbers()))  #: 3\n"
    )
    assert sum(event.text == "'begun'" for event in found.events(Revealed)) == 2


PASSES = (
    "from torch.utils.data import DataLoader\n"
    "def batches(kinds):\n    for kind in kinds:\n        for batch in DataLoader(kind, batch_size=1):\n"
    "            for part in batch:\n                yield part\n"
    "        yield kind\n"
    "for part in batches(('a', 'b', 'c')):\n    reveal('step')  #: 'step'\n    x = 1\n    y = 2\n"
)
"""A generator with loops in a loop, and two places at which it waits."""


def test_a_long_body_is_not_followed_for_all_loops_of_a_generator(paper, monkeypatch: pytest.MonkeyPatch):
    every = list(paper(PASSES).events(Revealed))
    monkeypatch.setattr(generators, "LONG_DRAW", 2)
    found = list(paper(PASSES).events(Revealed))
    assert len(every) > len(found)
    # The batches of each loader, twice, and what comes from the other place, twice.
    loaders = {loop.over for event in found for loop in event.loops if loop.over is not None}
    assert len(loaders) == 3
    assert len(found) == 2 * len(loaders) + 2


def test_a_function_that_makes_a_model_makes_another_one_when_it_is_called_again(paper):
    found = paper(
        "import torch\nfrom torch import nn\n"
        f"def build(width):\n{LONG}    return nn.Linear(width, width)\n"
        "student, teacher = build(4), build(4)\nstudent(torch.randn(2, 4))\nteacher(torch.randn(2, 4))\n"
    )
    first, second = found.events(Forward)
    assert first.module != second.module


def test_settings_that_are_put_together_anew_each_time_are_what_they_are(paper):
    """They are data, and decide all that is made of them."""
    sections = ", ".join(f'"part{n}": {{"a": 1}}' for n in range(12))
    again = "".join(f"settings['other{n}'] = {n}\nwhole()\n" for n in range(14))
    paper(f"""
import copy, torch
class Net(torch.nn.Module):
    pass
table = {{{sections}, "Net": {{"made_by": Net, "width": 3}}}}
settings = {{{sections}, "Net": {{"width": 8}}}}
def merge(into, other):
    for key in other:
        if key not in into:
            into[key] = other[key]
        elif isinstance(into[key], dict) and isinstance(other[key], dict):
            merge(into[key], other[key])
    return into
def whole():
    return merge(copy.deepcopy(settings), table)
{again}
reveal((whole()["Net"]["made_by"], whole()["Net"]["width"]))  #: (Net, 8)
""")
