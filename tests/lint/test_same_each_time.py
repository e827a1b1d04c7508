"""The same files give the same report, to the byte: whatever the hash seed, the number of processes, the order in which
files are named, what the cache holds, and what was linted before."""

import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

TRAIN = """
import os, torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from common.model{model} import make, evaluate
from common import saving, names

def main(argument):
    rank = int(os.environ["RANK"])
    dist.init_process_group("nccl")
    model = DDP(make({model}).cuda())
    loaders = [DataLoader(TensorDataset(torch.zeros(8, 2)), shuffle=True), DataLoader(TensorDataset(torch.ones(8, 2)))]
    optimizers = {{"a": torch.optim.SGD(model.parameters(), lr=0.1), "b": torch.optim.Adam(model.parameters())}}
    for epoch in range(3):
        for name in {{"loss", "accuracy", "recall"}}:
            dist.all_reduce(names.VALUES[name])
        total = 0
        for x, in loaders[0]:
            loss = model(x.cuda()).sum()
            loss.backward()
            total += loss
            for optimizer in optimizers.values():
                optimizer.step()
        if rank == 0 and argument or evaluate(model, loaders[1]) > 0.5:
            dist.barrier()
        saving.save(model, f"out/{{epoch}}.pt")

main(os.environ.get("ARGUMENT"))
"""
MODEL = """
import torch, torch.distributed as dist
from common import names

class Net(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.layers = [torch.nn.Linear(2, 2), torch.nn.Linear(2, 2)]
        self.last = torch.nn.Linear(2, n)
    def forward(self, x):
        return self.last(self.layers[0](x))

def make(n):
    return Net(n)

def evaluate(model, loader):
    values = {str(i): model(x[0].cuda()).mean() for i, x in enumerate(loader)}
    return max(each.item() for each in set(values.values()))
"""
SAVING = "import torch\n\ndef save(model, path):\n    torch.save(model.state_dict(), path)\n"
NAMES = "import torch\nVALUES = {name: torch.zeros(1).cuda() for name in {'loss', 'accuracy', 'recall'}}\n"
# No word of a framework: what it may call must not hang on what was read before.
PLAIN = """
class A: pass
a = A()
for key, value in vars(a).items():
    setattr(a, key, value)
if __name__ == '__main__':
    print(a)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Programs that share their helpers, enough for two processes."""
    folder = tmp_path / "project"
    (folder / "common").mkdir(parents=True)
    (folder / "pyproject.toml").touch()
    (folder / "common" / "__init__.py").touch()
    (folder / "common" / "saving.py").write_text(SAVING)
    (folder / "common" / "names.py").write_text(NAMES)
    for number in range(18):
        (folder / f"train{number}.py").write_text(TRAIN.format(model=number % 5))
        (folder / f"plain{number}.py").write_text(PLAIN)
    for number in range(5):
        (folder / "common" / f"model{number}.py").write_text(MODEL)
    return folder


def report(folder: Path, *arguments: str, seed: int = 0) -> str:
    """All that lint says, on both streams."""
    environment = {**os.environ, "PYTHONHASHSEED": str(seed), "GPUDOCTOR_CACHE_DIR": str(folder.parent / "cache")}
    command = [sys.executable, "-m", "gpudoctor", "lint", "--verbose", *arguments]
    run = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert run.returncode in (0, 1), run.stderr
    return run.stdout + run.stderr


def test_a_project_is_told_the_same(project: Path):
    names = sorted(str(path.relative_to(project)) for path in project.rglob("*.py"))
    first = report(project, "--no-cache", "--jobs", "1", ".")
    assert "GPU" in first
    assert report(project, "--no-cache", "--jobs", "2", ".", seed=1) == first
    for seed in (2, 3):
        shuffled = random.Random(seed).sample(names, len(names))
        assert report(project, "--no-cache", "--jobs", str(seed - 1), *shuffled, seed=seed) == first
    # Cold, warm, and warm with another order.
    assert report(project, "--jobs", "2", ".", seed=4) == first
    assert report(project, ".", seed=5) == first
    assert report(project, *reversed(names), seed=6) == first


def test_fixtures_are_told_the_same(repository: Path):
    folders = sorted(path for path in (repository / "fixtures" / "rules").glob("*/*") if path.is_dir())
    some = [path.relative_to(repository).as_posix() for path in folders[::12]]
    first = report(repository, "--no-cache", "--no-config", "--jobs", "1", *some)
    assert report(repository, "--no-cache", "--no-config", "--jobs", "2", *reversed(some), seed=7) == first


def test_helpers_that_are_named_alone_are_read_through_the_same_programs(project: Path):
    helpers = ["common/saving.py", "common/names.py", "common/model1.py"]
    first = report(project, "--no-cache", *helpers)
    assert report(project, "--no-cache", *reversed(helpers), seed=8) == first


def test_the_same_helpers_are_looked_at_where_they_are_too_many(tmp_path: Path):
    # A third of its helpers are about training: which of them are come by must not be a matter of luck.
    (tmp_path / "pyproject.toml").touch()
    (tmp_path / "model.py").write_text("import torch\n")
    for number in range(30):
        more = "".join(f"import more{number}_{each}\n" for each in range(3))
        (tmp_path / f"helper{number}.py").write_text(more + "import torch\n" * (number % 3 == 0))
        for each in range(3):
            (tmp_path / f"more{number}_{each}.py").write_text("x = 1\n")
    for start in range(6):
        names = [f"helper{(7 * number + start) % 30}" for number in range(30)]
        text = "".join(f"import {name}\n" for name in names)
        (tmp_path / f"start{start}.py").write_text(f"{text}if __name__ == '__main__':\n    print(1)\n")
    assert len({report(tmp_path, "--no-cache", "--jobs", "1", ".", seed=seed) for seed in range(3)}) == 1
