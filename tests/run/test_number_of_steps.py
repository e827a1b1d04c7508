"""`--steps N`: the job is ended when each rank has made so many, and none makes more."""

import json
import sys
from pathlib import Path
from typing import Any

from tests.support.installs import require_torch
from tests.support.watching import TRAINING, plain, watch

require_torch()
LONG = TRAINING.replace("range(2)", "range(999)")
ALONE = """
import torch
parameter = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([parameter], lr=0.1)
while True:
    parameter.grad = torch.ones(1)
    optimizer.step()
"""
TURNS = """
import torch
first, second = (torch.zeros(1, requires_grad=True) for _ in range(2))
optimizers = [torch.optim.SGD([each], lr=0.1) for each in (first, second)]
while True:
    for optimizer, each in zip(optimizers, (first, second)):
        each.grad = torch.ones(1)
        optimizer.step()
"""

PARTS = """
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
part = torch.nn.Linear(8, 64)
optimizer = torch.optim.SGD(part.parameters(), lr=0.1)
while True:
    out = part(torch.ones(16, 8))
    dist.all_reduce(out.detach())
    optimizer.zero_grad()
    out.square().mean().backward()
    optimizer.step()
"""


def steps(report: dict[str, Any]) -> list[tuple[int, int]]:
    """The ranks of a report, with their steps."""
    return [(each["rank"], each["steps"]) for each in report["ranks"]]


def test_a_number_that_is_beyond_the_steps_that_are_all_looked_at(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LONG)
    watched = watch(tmp_path, "--steps", "303", "--nproc-per-node", "2", "train.py")
    # The launcher has nothing to say of it.
    assert "Traceback" not in watched.err
    assert "OMP_NUM_THREADS" not in watched.err
    assert steps(watched.report) == [(0, 303), (1, 303)]
    assert watched.report["faults"] == []


def test_two_optimizers_that_take_turns_where_most_steps_are_only_counted(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TURNS)
    watched = watch(tmp_path, "--steps", "613", "train.py")
    assert steps(watched.report) == [(None, 613)]
    assert watched.report["faults"] == []


def test_one_process_without_a_group(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ALONE)
    watched = watch(tmp_path, "--steps", "7", "train.py")
    assert steps(watched.report) == [(None, 7)]


def test_what_ranks_exchanged_until_then_is_known(tmp_path: Path) -> None:
    """Each has a part of one model: that they differ is no drift."""
    (tmp_path / "train.py").write_text(PARTS)
    watched = watch(tmp_path, "--steps", "3", "--no-lint", "--nproc-per-node", "2", "train.py")
    assert watched.report["findings"] == []
    assert steps(watched.report) == [(0, 3), (1, 3)]


def test_ranks_that_a_launcher_has_started(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LONG)
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    ours = ("-m", "gpudoctor", "run", "--output-format", "json", "--output-file", "report.json", "--steps", "7")
    ended = plain(tmp_path, *launcher, *ours, "train.py")
    assert ended.returncode == 0, ended.stderr
    assert steps(json.loads((tmp_path / "report.json").read_text())) == [(0, 7), (1, 7)]
