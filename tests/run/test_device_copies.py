"""How long copies to another device take, and that what is compiled is compiled as ever."""

import sys
from pathlib import Path

import pytest

from tests.support.installs import require_torch
from tests.support.watching import plain, watch

require_torch()

# There may be no GPU, and the meta device is another one, too.
COPIES = """
import torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    x = torch.ones(4, 8)
    x.to(DEVICE)
    optimizer.zero_grad()
    model(x).sum().backward()
    optimizer.step()
"""


@pytest.mark.parametrize(("device", "seen"), [("'meta'", True), ("torch.float64", False), ("'cpu'", False)])
def test_copies_are_told_where_the_device_changes(tmp_path: Path, device: str, seen: bool) -> None:
    (tmp_path / "train.py").write_text(COPIES.replace("DEVICE", device))
    watched = watch(tmp_path, "--no-lint", "train.py")
    (timing,) = watched.report["timing"]
    assert (timing["host_to_device_seconds"] is not None) is seen
    assert timing["host_to_device_seconds"] != 0.0


COMPILED = """
import torch
from torch._dynamo.testing import CompileCounter

def moved(x):
    return (x.to(torch.float64) * 2).to(device="cpu", dtype=torch.float32).sum()

class Moved(torch.nn.Module):
    def forward(self, x):
        return moved(x)

counter = CompileCounter()
call = torch._dynamo.optimize(counter, nopython=True)(moved)
numbers = [call(torch.ones(3).to(torch.float32)).tolist() for _ in range(4)]
print(numbers, counter.frame_count, counter.op_count)
print(len(torch.export.export(Moved(), (torch.ones(3),)).graph.nodes))
counter = CompileCounter()
call = torch.compile(moved, backend=counter, fullgraph=True)
print([call(torch.ones(3).to(torch.float32)).tolist() for _ in range(4)], counter.frame_count, counter.op_count)
"""


def test_graphs_are_those_of_a_run_without_us(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(COMPILED)
    alone = plain(tmp_path, sys.executable, "train.py")
    watched = watch(tmp_path, "--no-lint", "train.py")
    assert (watched.status, watched.out) == (0, alone.stdout)
