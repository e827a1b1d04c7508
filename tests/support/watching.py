"""`gpudoctor run` as the tests call it: in a process of its own, with its report as plain data.

Processes of Python are forked from one that has loaded torch (`warm.py`). Tests of how a process begins ask for one
that is started: `cold=True`.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

from tests.support import warm

TRAINING = """
import os, sys
import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

dist.init_process_group("gloo")
torch.manual_seed(0)
data = TensorDataset(torch.randn(64, 8), torch.randn(64, 1))
sampler = DistributedSampler(data)
loader = DataLoader(data, batch_size=8, sampler=sampler)
model = DistributedDataParallel(torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in loader:
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
"""
"""Two epochs of four steps each; what is appended may go on in the last loop."""

REST = "dist.barrier(); import time; time.sleep(0.5)\n"
"""Behind a training, this lets gloo's threads come to rest: torch 2.13 may abort a process that exits with one at work,
and a process that destroys its group then may stand still, with and without us (some 1 of 10 on a busy machine)."""

ENDED = TRAINING + REST


class Watched(NamedTuple):
    """How a watched command ended, what it printed, and the report as JSON."""

    status: int
    out: str
    err: str
    report: dict[str, Any]

    @property
    def codes(self) -> set[str]:
        """The codes of what was found."""
        return {finding["code"] for finding in self.report["findings"]}


def of_the_program(out: str) -> list[str]:
    """The lines of standard output, without those in which Gloo of torch 2.8 says there that it is connected."""
    lines = out.splitlines()
    # Both ranks say so at once, so that one's words may stand between the other's, and leave a number or nothing.
    said = "[Gloo]" in out
    return [line for line in lines if not (said and ("peer ranks" in line or not line or line.strip().isdigit()))]


def plain(folder: Path, *command: str, timeout: float = 300, cold: bool = False) -> subprocess.CompletedProcess[str]:
    """The command without us."""
    if command[0] == sys.executable and not cold and warm.available():
        return warm.run(command[1:], cwd=folder, env=environment(), timeout=timeout)
    return subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=timeout, env=environment(), check=False
    )


def watch(folder: Path, *arguments: str, timeout: float = 300, cold: bool = False) -> Watched:
    """`gpudoctor run` with these arguments."""
    report = folder / "report.json"
    command = [sys.executable, "-m", "gpudoctor", "run", "--output-format", "json", "--output-file", str(report)]
    ended = plain(folder, *command, *arguments, timeout=timeout, cold=cold)
    seen = json.loads(report.read_text()) if report.exists() else {}
    return Watched(ended.returncode, ended.stdout, ended.stderr, seen)


def environment() -> dict[str, str]:
    """What a watched command finds."""
    return {**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
