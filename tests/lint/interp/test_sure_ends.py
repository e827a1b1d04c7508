"""Attributes that an object cannot have: to ask for one ends the path, as the error does."""

import pytest

from gpudoctor.lint.events.model import BareAsked

PROGRAM = """
import argparse, copy, torch, unknown
from torch import nn
class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("mask", torch.zeros(2))
    def forward(self, x):
        for head in self.children(): x = head(x)
        return x
class Counter:
    def __init__(self): self.count = 0
class Answering(Counter):
    def __getattr__(self, name): return name
parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float)
args = parser.parse_args()
net, counter = Net(), Counter()
{before}
came = "nowhere"
try:
    {asked}
    came = "on"
except AttributeError:
    came = "to its end"
reveal(came)  #: {came}
"""
BOTH = "'on' if not (an exception is caught) | 'to its end' if an exception is caught"


@pytest.mark.parametrize(
    ("asked", "before"),
    [
        ("args.momentum", ""),
        ("net.module", ""),
        ("net.head", ""),
        ("net.layer.module", ""),
        ("state.replace", "import dataclasses\n@dataclasses.dataclass\nclass State:\n    x: int\nstate = State(1)"),
        ("counter.total", ""),
        ("print(-args.momentum)", ""),
        ("print([1 for _ in args.momentum])", ""),
    ],
)
def test_what_cannot_be_there(paper, asked: str, before: str):
    text = PROGRAM.format(asked=asked, before=before, came="'to its end'")
    (program,) = paper(text, launch="single").programs
    assert program.has(BareAsked) is ("module" in asked)


@pytest.mark.parametrize(
    ("asked", "before"),
    [
        ("args.momentum", "args.momentum = 1"),
        ("args.momentum", "unknown.fill(args)"),
        ("args.momentum", "unknown.declare(parser); args = parser.parse_args()"),
        ("args.momentum", "for key, value in unknown.items(): setattr(args, key, value)"),
        ("args.momentum", "vars(args).update(unknown.config)"),
        ("args.momentum", "parser.add_argument('--x', dest=unknown.name); args = parser.parse_args()"),
        ("args.momentum", "parser.add_argument('-m', unknown.name); args = parser.parse_args()"),
        ("args.momentum", "parser.set_defaults(**unknown.config); args = parser.parse_args()"),
        ("args.momentum", "args = parser.parse_args(namespace=unknown.space)"),
        ("net.mask", ""),
        ("net.index", "for part in net.modules(): part.index = 1"),
        ("net.index", "for part in net.modules(): setattr(part, 'index', 1)"),
        ("net.head", "net.add_module('head', nn.Linear(2, 2))"),
        ("net.head", "net.add_module(unknown.name, nn.Linear(2, 2))"),
        ("net.head", "unknown.extend(net)"),
        ("net.head", "setattr(Net, 'head', 1)"),
        ("net.module", "net = copy.deepcopy(nn.DataParallel(net))"),
        ("net.training", ""),
        ("counter.total", "counter = Answering()"),
        ("counter.total", "counter.total = 1"),
        ("counter.total", "unknown.call([counter])"),
        ("getattr(counter, 'total', 0)", ""),
        ("state.replace", "import flax\n@flax.struct.dataclass\nclass State:\n    x: int\nstate = State(1)"),
        (
            "counter.part.total",
            "counter.part = Counter()\nfor name in unknown.names: setattr(counter, name, unknown.x)",
        ),
        ("hasattr(counter, 'total') and counter.total", ""),
    ],
)
def test_what_may_be_there(paper, asked: str, before: str):
    paper(PROGRAM.format(asked=asked, before=before, came=BOTH), launch="single")


def test_whoever_gets_on_has_another_one(paper):
    paper(
        """
import unknown
from torch import nn
net = nn.Linear(2, 2)
model = nn.DataParallel(net) if unknown.several else net
model.module
reveal(model)  #: DataParallel(Linear) if unknown.several
""",
        launch="single",
    )


def test_a_function_that_is_read_alone_ends_nowhere(paper):
    (program,) = paper(
        """
import torch
class Base:
    def run(self):
        self.prepare()
        torch.cuda.init()
""",
        launch="single",
    ).programs
    assert program.ended is None
