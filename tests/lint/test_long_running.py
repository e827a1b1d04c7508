"""What stays in a process that lints one program after the other, as an editor's server does for days."""

from __future__ import annotations

import ast
import gc
from typing import TYPE_CHECKING

import pytest

from gpudoctor.lint import pipeline
from gpudoctor.lint.request import Request
from gpudoctor.lint.runtime import garbage
from gpudoctor.registry import find_rules

if TYPE_CHECKING:
    from pathlib import Path


pytestmark = pytest.mark.slow

PROGRAM = """\
import torch
from torch import nn

class {name}(nn.Module):
    def __init__(self):
        super().__init__()
        layer = nn.Linear(2, 2)
        self.first = nn.Linear(2, 2)

    def forward(self, x):
        self.seen = x
        return self.first(self.layer(x)) + self.seen

def main():
    model = {name}()
    for step in range(3):
        model(torch.zeros(2)).sum().backward()
    model.missing

main()
"""


def lint(folder: Path, name: str, rest: str = "") -> None:
    (folder / "train.py").write_text(PROGRAM.format(name=name) + rest)
    rules = find_rules().cards
    outcome = pipeline.lint(Request(("train.py",), rules=rules, known=rules))
    assert not outcome.failures


def test_a_large_program_is_forgotten_by_the_next_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(garbage, "_MANY", 50_000)
    lint(tmp_path, "Small")
    lint(tmp_path, "Small2")
    before = garbage._collector.blocks
    lint(tmp_path, "Large", "layers = [" + "nn.Linear(2, 2), " * 6_000 + "]\n")
    lint(tmp_path, "Small3")
    assert garbage._collector.blocks < before + 50_000


def still_there(name: str) -> int:
    return sum(isinstance(each, ast.ClassDef) and each.name == name for each in gc.get_objects())


def test_programs_of_before_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").touch()
    monkeypatch.setattr(garbage, "_MANY", 2_000)
    for number in range(30):
        lint(tmp_path, f"Net{number}")
    # Of the last few something may be left until there is enough of it.
    assert not [number for number in range(15) if still_there(f"Net{number}")]
