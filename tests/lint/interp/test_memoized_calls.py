"""The tenth block of a network is made from memory, as one of its own, and what would be made otherwise is not."""

import pytest

from gpudoctor.lint.domain.abstract_state import PROCESS
from gpudoctor.lint.events.data_loading import Streamed
from gpudoctor.lint.events.model import Forward
from gpudoctor.lint.events.placement import Move
from gpudoctor.lint.interp import memoized_calls
from gpudoctor.lint.interp.limits import MIN_REMEMBERED_COST
from gpudoctor.record import fields

FILLING = "".join(f"        y{n} = {n}\n" for n in range(MIN_REMEMBERED_COST))
"""Statements of a constructor that is worth to be remembered."""
BLOCK = (
    "from torch import nn\nimport torch\nclass Block(nn.Module):\n    def __init__(self, size, act=None):\n"
    f"        super().__init__()\n{FILLING}        self.half = size // 2\n        self.act = act\n"
    "        self.layer = nn.Linear(size, size)\n        self.wide = False\n"
    "        if size > 100:\n            self.wide = True\n"
)


@pytest.fixture
def from_memory(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each object that might be made from memory, whether it was."""
    found: list[bool] = []
    real = memoized_calls.repeated

    def repeated(*args):
        result = real(*args)
        if len(args) > 4:
            found.append(result is not None)
        return result

    monkeypatch.setattr(memoized_calls, "repeated", repeated)
    return found


def test_alike_objects_are_made_from_memory(paper, from_memory):
    paper(f"{BLOCK}a, b, c = Block(8), Block(8), Block(8)\nd = Block(16)\ne = Block(32)\n")
    # The first shows that it may pay, and the second is noted.
    assert from_memory[:4] == [False, True, True, True]


def test_each_has_its_own_numbers(paper):
    paper(
        f"{BLOCK}for size in (8, 8):\n    Block(size)\na, b = Block(16), Block(64)\n"
        "reveal(a.half)  #: 8\nreveal(b.half)  #: 32\nreveal(a.half + b.half)  #: 40\n"
    )


def test_what_a_number_decides_is_asked_again(paper, from_memory):
    paper(
        f"{BLOCK}for size in (8, 8):\n    Block(size)\na, b, c = Block(16), Block(128), Block(256)\n"
        "reveal(a.wide)  #: False\nreveal(b.wide)  #: True\nreveal(c.wide)  #: True\n"
    )
    assert from_memory == [False, True, False, True]


def test_what_is_done_to_one_is_not_done_to_the_others(paper):
    paper(
        f"{BLOCK}first, second, third, fourth = Block(8), Block(8), Block(8), Block(8)\n"
        "third.layer.mine = 1\nthird.cuda()\nfourth.layer.mine = 2\n"
        "reveal(third.layer.mine)  #: 1\nreveal(fourth.layer is third.layer)  #: False\n"
    )


def test_each_holds_what_it_was_given(paper):
    paper(
        f"{BLOCK}acts = [nn.ReLU(), nn.GELU(), nn.ReLU(), nn.ReLU()]\n"
        "a, b, c, d = Block(8, acts[0]), Block(8, acts[2]), Block(8, acts[3]), Block(8, acts[1])\n"
        "reveal(c.act is acts[3])  #: True\nreveal(c.act is acts[2])  #: False\nreveal(d.act is acts[1])  #: True\n"
    )


def test_what_is_unknown_stands_for_itself(paper):
    paper(
        f"import foo\n{BLOCK}sizes = [foo.a(), foo.b(), foo.c()]\n"
        "a, b, c = Block(8, sizes[0]), Block(8, sizes[1]), Block(8, sizes[2])\n"
        "reveal(c.act == sizes[2])  #: True\nreveal(c.act is sizes[1])  #: c.act is sizes[1]\n"
    )


def test_what_was_read_counts(paper):
    paper(
        f"from torch import nn\nkind = 'a'\nclass Block(nn.Module):\n    def __init__(self):\n"
        f"        super().__init__()\n{FILLING}        self.kind = kind\n"
        "Block()\nBlock()\nreveal(Block().kind)  #: 'a'\nkind = 'b'\nreveal(Block().kind)  #: 'b'\n"
    )


def test_what_is_read_only_in_a_call_from_memory_counts(paper):
    inner = FILLING.replace("        ", "    ")
    outer = "def {0}():\n" + inner + "    return {1}\n"
    paper(
        f"kind = 'a'\n{outer.format('inner', 'kind')}{outer.format('outer', 'inner()')}"
        "inner()\ninner()\ninner()\nouter()\nouter()\nreveal(outer())  #: 'a'\nkind = 'b'\nreveal(outer())  #: 'b'\n"
    )


def test_counters_go_on(paper):
    paper(
        f"class Named:\n    made = 0\n    def __init__(self):\n{FILLING}        Named.made += 1\n"
        "        self.number = Named.made\n"
        "Named()\nNamed()\nreveal(Named().number)  #: 3\nreveal(Named().number)  #: 4\nreveal(Named.made)  #: 4\n"
    )


def test_a_test_on_the_path_counts(paper):
    paper(
        f"import foo\nclass Named:\n    def __init__(self):\n{FILLING}        self.kind = 'a' if foo.ready else 'b'\n"
        "Named()\nNamed()\nif foo.ready:\n    reveal(Named().kind)  #: 'a'\nelse:\n    reveal(Named().kind)  #: 'b'\n"
    )


def test_what_it_logs_is_logged_again(paper):
    found = paper(
        f"from torch import nn\nclass Block(nn.Module):\n    def __init__(self):\n        super().__init__()\n{FILLING}"
        "        self.layer = nn.Linear(1, 1).cuda()\n"
        "def make():\n    return Block()\nBlock()\nBlock()\nmake()\nmake()\n"
    )
    moves = found.events(Move)
    assert len({event.subject for event in moves}) == len(moves) == 4
    assert [len(event.context.calls) for event in moves] == [1, 1, 2, 2]
    assert [event.order for event in moves] == sorted({event.order for event in moves})


def test_a_function_that_moves_what_it_makes_is_done_again(paper, monkeypatch):
    followed = []
    real = memoized_calls.noted
    monkeypatch.setattr(memoized_calls, "noted", lambda *args: followed.append(1) or real(*args))
    found = paper(
        f"import torch\ndef taps(size):\n{FILLING.replace('        ', '    ')}"
        "    return torch.zeros(size).cuda()\nkept = [taps(n) for n in (1, 2, 3, 4)]\n"
    )
    moves = found.events(Move)
    assert len({event.subject for event in moves}) == len(moves) == 4
    # The first shows that it may pay, and the second is noted.
    assert len(followed) == 1


def test_each_kind_of_what_is_given_is_remembered(paper, from_memory):
    kinds = "".join(f"Block(8, '{kind}')\n" for kind in "abcdefg")
    paper(f"{BLOCK}{kinds}{kinds}")
    # The first shows that it may pay.
    assert from_memory == [False] * 6 + [False] + [True] * 6


def test_calls_where_only_some_ranks_are_stand_for_each_other_alone(paper, from_memory):
    paper(
        f"{BLOCK}import torch.distributed as dist\nfor size in (8, 8):\n    Block(size)\n"
        "if dist.get_rank() == 0:\n    Block(8)\n    Block(8)\n"
    )
    assert from_memory == [False, False, True]


def test_calls_that_are_open_around_one_are_not_among_what_it_reads(paper, from_memory):
    paper(
        f"class Block:\n    def __init__(self, parts):\n{FILLING}        self.parts = parts and parts()\n"
        "Block(None)\nBlock(lambda: Block(None))\nBlock(lambda: [Block(None)])\n"
    )
    # The last one inside is made as that inside of the second was.
    assert from_memory == [False, False, False, True]


def test_functions_that_see_their_constructor_see_the_right_one(paper):
    paper(
        f"class Named:\n    def __init__(self, name):\n{FILLING}        self.name = name\n"
        "        self.ask = lambda: self.name\n"
        "one, two, three = Named('x'), Named('x'), Named('x')\nthree.name = 'y'\n"
        "reveal(three.ask())  #: 'y'\nreveal(two.ask())  #: 'x'\n"
    )


def test_what_trains_is_followed(paper):
    found = paper(
        "import torch\nfrom torch import nn\nnet = nn.Linear(1, 1)\n"
        f"def work(x):\n{FILLING.replace('        ', '    ')}"
        "    return net(x)\nfor n in (1, 2, 3, 4):\n    work(torch.zeros(n, 1))\n"
    )
    assert len({event.identity for event in found.events(Forward)}) == 4


def test_the_process_as_a_whole_is_made_of_nothing():
    # What is asked of each value that a constructor leaves behind.
    assert not fields(PROCESS)


def test_a_name_of_a_path_that_has_ended_is_none_of_those_that_are_still_seen(paper):
    paper(
        "from missing import run\nclass Block:\n    def __init__(self):\n"
        f"{FILLING}        try:\n            run()\n        except OSError as e:\n            raise ValueError from e\n"
        "        self.first = lambda: y0\n"
        "a, b, c = Block(), Block(), Block()\nreveal(c.first())  #: 0\n"
    )


def test_what_a_data_set_reads_with_is_made_from_memory(paper, from_memory):
    data = "class {0}(Dataset):\n    def __init__(self):\n        self.reader = Block(8)\n{0}()\n"
    paper(f"from torch.utils.data import Dataset\n{BLOCK}{''.join(map(data.format, ('First', 'Second', 'Third')))}")
    assert from_memory == [False, True]


@pytest.mark.parametrize("start", ["self.first", "0"])
def test_what_picks_some_of_the_data_is_heard_from_memory(paper, from_memory, start: str):
    data = (
        "class {0}(IterableDataset):\n    def __init__(self):\n        self.part = Part(files, first)\n"
        "    def __iter__(self):\n        yield from self.part.files\ndata = {0}()\n"
    )
    found = paper(
        "import sys\nfrom torch.utils.data import DataLoader, IterableDataset\n"
        "files, first = sys.argv[2:], sys.argv[1]\n"
        f"class Part:\n    def __init__(self, files, first):\n{FILLING}        self.first = int(first)\n"
        f"        self.files = files[{start}:]\n{''.join(map(data.format, ('First', 'Second', 'Third')))}"
        "for batch in DataLoader(data):\n    pass\n"
    )
    assert from_memory == [False, True]
    assert [event.same_on_ranks for event in found.events(Streamed)] == [start == "0"]


def made(body: str, after: str) -> str:
    """A class that is worth to be remembered, whose constructor ends so, and what is done with it."""
    begun = f"from torch import nn\nclass Block(nn.Module):\n    def __init__(self, a):\n{FILLING}"
    return f"{begun}        super().__init__()\n        {body}\n{after}\n"


@pytest.mark.parametrize(
    "body",
    [
        "self.norm = nn.BatchNorm2d(8)\n        self.norm.inner.requires_grad_(bool(a))",
        "self.norm = nn.BatchNorm2d(8)\n        self.norm.weight.requires_grad_(bool(a))",
        "self.norm = make(a)\n        self.norm.is_last = True",
    ],
    ids=["part", "parameter", "unknown"],
)
def test_what_was_told_of_the_parts_of_one_is_not_among_what_the_next_one_reads(paper, from_memory, body: str):
    paper(made(body, "import sys\nmake = sys.argv[1]\na, b, c = Block(1), Block(2), Block(3)"))
    assert from_memory[:2] == [False, True]


def test_what_was_told_of_the_same_thing_before_and_is_asked_counts(paper):
    body = "self.norm = make(8)\n        self.before = self.norm.is_last\n        self.norm.is_last = True"
    blocks = "a, b, c = Block(1), Block(2), Block(3)\nc.norm.is_last = False\nd = Block(4)\n"
    paper(made(body, f"import sys\nmake = sys.argv[1]\n{blocks}reveal(c.before)  #: True\nreveal(d.before)  #: False"))


@pytest.mark.parametrize("given", ["{}.forward", "{}.in_features", "partial({}, 2)"])
def test_what_is_made_of_one_thing_stands_for_what_is_made_of_another(paper, from_memory, given: str):
    layers = "from functools import partial\n" + "".join(f"{each} = nn.Linear(8, 8)\n" for each in "wxyz")
    blocks = "\n".join(f"{each} = Block({given.format(layer)})" for each, layer in zip("abcd", "wxyz", strict=True))
    paper(made("self.a = a", f"{layers}{blocks}\nreveal(d.a == {given.format('z')})  #: True"))
    assert from_memory[:2] == [False, True]


def test_what_kind_of_number_it_is_decides_nothing_more(paper, from_memory):
    paper(made("self.pair = a if isinstance(a, tuple) else (a, a)", "a, b, c = Block(1), Block(2), Block(3)"))
    assert from_memory[:2] == [False, True]
