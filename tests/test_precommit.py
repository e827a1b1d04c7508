"""The hook under the real pre-commit program, in a small repository of somebody else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.installs import copy_checkout, outside

# `train.py` is right or wrong by what the helper does; the helper itself is in no commit that is checked.
LOADERS = """\
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler


def plain(dataset):
    return DataLoader(dataset, batch_size=32, shuffle=True, num_workers=4, pin_memory=True)


def sharded(dataset):
    sampler = DistributedSampler(dataset, shuffle=True)
    return DataLoader(dataset, batch_size=32, sampler=sampler, num_workers=4, pin_memory=True)
"""

TRAIN = """\
import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dataset import Clips
from loaders import plain, sharded


def main():
    dist.init_process_group("nccl")
    local_rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local_rank)
    model = DistributedDataParallel(nn.Linear(40, 4).cuda(local_rank), device_ids=[local_rank])
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = {make}(Clips("clips.pt"))
    for epoch in range(10):
        {tell}
        for clip, label in loader:
            clip = clip.cuda(local_rank, non_blocking=True)
            label = label.cuda(local_rank, non_blocking=True)
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(clip), label).backward()
            optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
"""

FIXABLE = """\
from torch.utils.data import DataLoader, RandomSampler

from dataset import Clips

clips = Clips("clips.pt")
loader = DataLoader(clips, batch_size=32, sampler=RandomSampler(clips), shuffle=True)
"""

DATASET = """\
import torch
from torch.utils.data import Dataset


class Clips(Dataset):
    def __init__(self, path):
        self.clips, self.labels = torch.load(path, map_location="cpu")

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.clips[index], self.labels[index]
"""


@pytest.fixture(scope="module")
def hook(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The repository that offers the hook, committed as it lies here."""
    checkout = copy_checkout(tmp_path_factory.mktemp("hook") / "gpudoctor")
    _commit_all(checkout)
    return checkout


@pytest.fixture(scope="module")
def project(hook: Path, repository: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with a wrong program, a right one and the helpers that they import, configured as docs/ci.md says.

    What pre-commit installs for the first of its commits serves the others, too.
    """
    folder = tmp_path_factory.mktemp("project")
    files = {
        "dataset.py": DATASET,
        "loaders.py": LOADERS,
        "train_wrong.py": TRAIN.format(make="plain", tell="print(epoch)"),
        "train_fixable.py": FIXABLE,
        "train_right.py": TRAIN.format(make="sharded", tell="loader.sampler.set_epoch(epoch)"),
    }
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    page = (repository / "docs" / "ci.md").read_text(encoding="utf-8")
    (config,) = re.findall(r"^### pre-commit\n.*?```yaml\n(.*?)```", page, re.DOTALL | re.MULTILINE)
    revision = _git(hook, "rev-parse", "HEAD").strip()
    config = re.sub(r"repo: \S+", f"repo: {hook}", re.sub(r"rev: \S+", f"rev: {revision}", config))
    # Both hooks of the repository: pre-commit installs it once.
    config += "      - id: gpudoctor-fix\n"
    (folder / ".pre-commit-config.yaml").write_text(config, encoding="utf-8")
    _commit_all(folder)
    return folder


def test_wrong_program_fails(project: Path) -> None:
    run = _hook(project, "train_wrong.py")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "GPU301" in run.stdout
    assert "loaders.py:6" in run.stdout, "the loader stands in a file that was not in the commit"


def test_right_program_passes(project: Path) -> None:
    run = _hook(project, "train_right.py")
    assert run.returncode == 0, run.stdout + run.stderr
    assert "Passed" in run.stdout


def test_files_that_are_about_to_be_committed_are_told_once(project: Path) -> None:
    run = _hook(project, "train_wrong.py", "train_right.py")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "gpudoctor lint" in run.stdout
    assert run.stdout.count(": error: GPU301") == 1


def test_the_other_hook_fixes(project: Path) -> None:
    run = _hook(project, "train_fixable.py", hook="gpudoctor-fix")
    assert run.returncode == 1, run.stdout + run.stderr
    assert "files were modified by this hook" in run.stdout
    assert (project / "train_fixable.py").read_text(encoding="utf-8") == FIXABLE.replace(", shuffle=True", "")
    assert _hook(project, "train_fixable.py", hook="gpudoctor-fix").returncode == 0
    assert _hook(project, "train_wrong.py", hook="gpudoctor-fix").returncode == 1


def _hook(project: Path, *files: str, hook: str = "gpudoctor") -> subprocess.CompletedProcess[str]:
    return _pre_commit(project, "run", hook, "--color=never", "--files", *files)


def _pre_commit(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pre_commit", *arguments]
    home = outside(PRE_COMMIT_HOME=str(project.parent / "pre-commit"), GIT_CONFIG_GLOBAL="/dev/null")
    return subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=600, env=home)


def _commit_all(folder: Path) -> None:
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.invalid", "-c", "commit.gpgsign=false"]
    for arguments in (["init", "--quiet"], ["add", "--all"], [*identity, "commit", "--quiet", "--message", "start"]):
        _git(folder, *arguments)


def _git(folder: Path, *arguments: str) -> str:
    run = subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True, timeout=600)
    return run.stdout
