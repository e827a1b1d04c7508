"""How streams and samplers of the project give out their items: found out by following `__iter__`, not by its words."""

import pytest

from gpudoctor.lint.events.data_loading import Streamed

HEAD = """
import itertools, os, random
import torch.distributed as dist
from torch.utils.data import DataLoader, IterableDataset, get_worker_info
class Stream(IterableDataset):
    def __init__(self, path="a.txt", number=0):
        self.path, self.number = path, number
"""
TAIL = """
for batch in DataLoader(Stream(), num_workers=2):
    pass
"""


def told(paper, body: str) -> Streamed:
    """What is told about a stream whose further methods these are."""
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    [event] = paper(HEAD + lines + TAIL).events(Streamed)
    return event


@pytest.mark.parametrize(
    "body",
    [
        "def __iter__(self):\n    for line in open(self.path):\n        yield line.split()",
        "def __iter__(self):\n    return iter(open(self.path))",
        "def __iter__(self):\n    return map(int, open(self.path))",
        "def __iter__(self):\n    for first in range(0, 100, self.number):\n        yield first",
        "def lines(self):\n    yield from open(self.path)\ndef __iter__(self):\n    yield from self.lines()",
        "def lines(self):\n    yield from open(self.path)\ndef __iter__(self):\n    for x in self.lines(): yield x",
    ],
)
def test_all_of_it_goes_to_everybody(paper, body: str):
    event = told(paper, body)
    assert event.same_on_ranks
    assert event.same_in_workers


@pytest.mark.parametrize(
    "body",
    [
        "def __iter__(self):\n    for x in range(dist.get_rank(), 100, 2):\n        yield x",
        "def __iter__(self):\n    yield from itertools.islice(open(self.path), int(os.environ['RANK']), None)",
        "def __iter__(self):\n    while True:\n        yield 1",
        "def __iter__(self):\n    for x in itertools.cycle(open(self.path)):\n        yield x",
        "def __iter__(self):\n    for x in open(self.path):\n        if random.random() < 0.5:\n            yield x",
        "def __iter__(self):\n    for x in elsewhere.read(self.path):\n        yield x",
    ],
)
def test_it_may_differ_between_ranks(paper, body: str):
    assert not told(paper, body).same_on_ranks


def test_a_worker_that_is_asked_for_is_known(paper):
    event = told(paper, "def __iter__(self):\n    get_worker_info()\n    yield from open(self.path)")
    assert event.same_on_ranks
    assert not event.same_in_workers


@pytest.mark.parametrize(
    ("body", "by_pieces"),
    [
        ("def __iter__(self):\n    for p in [self.path, 'b.txt']:\n        yield from open(p)", True),
        ("def __iter__(self):\n    for p in [self.path, 'b.txt']:\n        yield from map(int, open(p))", True),
        ("def __iter__(self):\n    for epoch in range(3):\n        yield from open(self.path)", False),
        ("def __iter__(self):\n    for p in [self.path]:\n        for x in open(p): yield x; break", False),
    ],
)  # fmt: skip
def test_pieces_are_read_one_after_the_other(paper, body: str, by_pieces: bool):
    assert told(paper, body).by_pieces is by_pieces


@pytest.mark.parametrize(
    ("body", "same"),
    [
        ("return iter(range(8))", True),
        ("order = list(range(8)); random.shuffle(order); return iter(order)", True),
        ("yield from (random.randint(0, 7) for _ in range(8))", False),
        ("while True: yield 0", False),
        ("return iter(range(dist.get_rank(), 8, 2))", False),
    ],
)
def test_samplers_give_each_item_to_all_ranks_or_not(paper, body: str, same: bool):
    source = f"""{HEAD}
from torch.utils.data import Sampler
class Order(Sampler):
    def __iter__(self):
        {body}
for batch in DataLoader([1], sampler=Order()):
    pass
"""
    [event] = paper(source).events(Streamed)
    assert event.same_on_ranks is same


def test_numbers_that_double_line_after_line_are_gone_through_once(paper):
    doubled = "y = y + y; " * 200
    event = told(
        paper,
        f"def __iter__(self):\n    y = len(open(self.path).read()); {doubled}\n"
        "    for i, x in enumerate(open(self.path)):\n        if i < y: yield x",
    )
    assert event.same_on_ranks
