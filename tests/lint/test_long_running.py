"""What stays in a process that lints one program after the other, as an editor's server does for days."""

import ast
import gc
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.lint import pipeline
from gpudoctor.lint.request import Request
from gpudoctor.registry import find_rules
from tests.support.sources import ROOT

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


LARGE = """\
from pathlib import Path
from gpudoctor.lint.runtime import garbage
from tests.lint.test_long_running import lint

folder = Path(".")
garbage._MANY = 50_000
lint(folder, "Small")
lint(folder, "Small2")
before = garbage._collector.blocks
lint(folder, "Large", "layers = [" + "nn.Linear(2, 2), " * 6_000 + "]\\n")
lint(folder, "Small3")
print(garbage._collector.blocks - before)
"""


def alone(folder: Path, code: str) -> str:
    """What it prints in a process of its own, where nothing is left behind by other tests, and little to look at."""
    (folder / "pyproject.toml").touch()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "rules")))}
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout.strip()


def test_a_large_program_is_not_taken_for_what_is_always_there(tmp_path: Path) -> None:
    assert int(alone(tmp_path, LARGE)) < 50_000


FORGOTTEN = """\
from pathlib import Path
from gpudoctor.lint.runtime import garbage
from tests.lint.test_long_running import lint, still_there

garbage._MANY = 2_000
for number in range(30):
    lint(Path("."), f"Net{number}")
print([number for number in range(15) if still_there(f"Net{number}")])
"""


def still_there(name: str) -> int:
    # Asked for its type: what stands in for another object may warn or compute where it is asked for its class.
    return sum(type(each) is ast.ClassDef and each.name == name for each in gc.get_objects())


def test_programs_of_before_are_forgotten(tmp_path: Path) -> None:
    # Of the last few something may be left until there is enough of it.
    assert alone(tmp_path, FORGOTTEN) == "[]"
