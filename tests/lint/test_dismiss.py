"""Files of layers alone are not executed; those that come close to a mistake are."""

from __future__ import annotations

import ast
from typing import TYPE_CHECKING

import pytest

from gpudoctor.lint.entries import Start, start_of
from gpudoctor.lint.source.dismiss import says_nothing, telling_names
from gpudoctor.lint.source.file import SourceFile, parse_text

if TYPE_CHECKING:
    from pathlib import Path

LAYERS = """
import torch
from torch import nn

class Block(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.first = nn.Linear(size, size)
        self.rest = nn.ModuleList([nn.Linear(size, size) for _ in range(3)])

    def forward(self, x):
        x = x.to(self.first.weight.device)
        return self.first(x).float()
"""


def parsed(text: str) -> SourceFile:
    source = parse_text(text.encode(), "/project/layers.py", "layers.py")
    assert isinstance(source, SourceFile)
    return source


def test_layers_alone_say_nothing():
    assert says_nothing(parsed(LAYERS))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("        x = x.to(", "        x.to("),
        ("return self.first(x).float()", "dist.all_reduce(x)"),
        ("nn.ModuleList([nn.Linear(size, size) for _ in range(3)])", "[nn.Linear(size, size) for _ in range(3)]"),
        (
            "        self.rest = nn.ModuleList([",
            "        rest = [nn.Linear(1, 1)]\n        self.rest = rest; nn.ModuleList([",
        ),
        ("        super().__init__()\n", ""),
        (
            "        super().__init__()\n        self.first = nn.Linear(size, size)\n",
            "        self.first = nn.Linear(size, size)\n        super().__init__()\n",
        ),
        ("import torch\n", "import torch  # gpudoctor: ignore[GPU101]\n"),
        (
            "    def forward(self, x):",
            "    class Inner(nn.Module):\n        def __init__(self):\n            self.last = nn.Linear(1, 1)\n"
            "    def forward(self, x):",
        ),
        ("from torch import nn", "from torch import nn\nfrom torch.distributed import *"),
    ],
)
def test_what_comes_close_is_executed(old: str, new: str):
    assert old in LAYERS
    assert not says_nothing(parsed(LAYERS.replace(old, new)))


def test_only_what_comes_close_and_its_users_are_executed():
    text = """
import torch
from torch.distributed import send as give

def loss(x):
    return x.mean()

def hand_over(x):
    give(x, dst=1)

def step(x):
    hand_over(x)

class Clock:
    def stop(self):
        return loss(self)
"""
    assert telling_names(parsed(text)) == {"hand_over", "step"}


def test_what_happens_at_the_top_concerns_all():
    assert telling_names(parsed("import torch\nmodel = torch.nn.DataParallel(net)\ndef f():\n    pass\n")) is None


def test_no_mistake_of_a_fixture_is_dismissed(fixtures: Path):
    for path in fixtures.glob("rules/*/bad*/**/*.py"):
        _check(path)
    for path in fixtures.glob("rules/*/bad_*.py"):
        _check(path)


def _check(path: Path) -> None:
    text = path.read_bytes()
    if path.name.startswith("bad_") and b"GPU001" not in text and b"# GPU" in text:
        try:
            tree = ast.parse(text)
        except (SyntaxError, ValueError):
            return
        assert start_of(tree, path.name) is not Start.NEVER or not says_nothing(parsed(text.decode())), path
