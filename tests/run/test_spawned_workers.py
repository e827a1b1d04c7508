"""What a run says, and does not say, of workers that `mp.spawn` has started."""

from pathlib import Path

import pytest

from tests.support.installs import require_torch
from tests.support.watching import watch

require_torch()
pytestmark = pytest.mark.slow

PROGRAM = """
import os, random
import torch
import torch.distributed as dist
import torch.multiprocessing as mp


def doubled(x):
    return 2 * x


def worker(rank, meet):
    {first}
    dist.init_process_group("gloo", init_method=meet, rank=rank, world_size=2)
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(4, 2)).sum().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    torch.manual_seed(3)
    mp.spawn(worker, args=(f"file://{{os.path.abspath('meet')}}",), nprocs=2)
"""


def codes(first: str, folder: Path) -> set[str]:
    """What is found in a run in which the workers do this first."""
    (folder / "train.py").write_text(PROGRAM.format(first=first))
    return watch(folder, "--no-lint", "train.py").codes


@pytest.mark.parametrize(
    "first", ["torch.default_generator.manual_seed(7 + rank)", "__import__('numpy').random.seed(7)"]
)
def test_workers_that_set_a_seed_in_another_way_than_the_usual_one(first: str, tmp_path: Path) -> None:
    assert "GPU413" not in codes(first, tmp_path)


def test_a_seed_that_the_system_chooses_is_none(tmp_path: Path) -> None:
    assert "GPU413" in codes("random.seed()", tmp_path)


def test_a_wrong_call_inside_of_a_worker_is_not_one_of_the_worker(tmp_path: Path) -> None:
    assert codes("doubled()", tmp_path).isdisjoint({"GPU404", "GPU413"})
