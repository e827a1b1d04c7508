"""Which torch is too new for a project is read from the files that say what it needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from gpudoctor.cli import main
from gpudoctor.lint.source.layout import too_new_torch
from tests.support.linting import lint

if TYPE_CHECKING:
    from pathlib import Path

CONDA = "name: work\nchannels:\n  - pytorch\ndependencies:\n  - python=3.8\n  - {}\n  - pip:\n    - tqdm\n"


@pytest.mark.parametrize(
    ("name", "text", "too_new"),
    [
        ("requirements.txt", "numpy\ntorch==1.7.1\ntorchvision==0.8.2\n", [1, 7, 2]),
        ("requirements.txt", "torch==1.7.1+cu110 # newest that works\n", [1, 7, 2]),
        ("requirements.txt", "torch>=1.5,<=1.8.1", [1, 8, 2]),
        ("requirements.txt", "torch<2", [2]),
        ("requirements.txt", "torch~=2.1.0", [2, 2]),
        ("requirements.txt", "torch==1.13.*", [1, 14]),
        ("requirements.txt", "torch>=1.5", []),
        ("requirements.txt", "torch", []),
        ("requirements.txt", "torch @ https://example.com/torch-1.7.1.whl", []),
        ("requirements.txt", "#torch==1.1.0\ntorchvision==0.4\npytorch-lightning==1.1\n", []),
        ("requirements/base.txt", "torch==1.7.1", [1, 7, 2]),
        ("notes.txt", "torch==1.7.1", []),
        ("environment.yml", CONDA.format("pytorch=1.7.1=py3.8_cuda10.2_0"), [1, 7, 2]),
        ("environment/work.yaml", CONDA.format("pytorch::pytorch==1.7"), [1, 8]),
        ("environment.yml", CONDA.format("pytorch"), []),
        ("setup.py", "setup(install_requires=['numpy', 'torch<1.9'])", [1, 9]),
        ("pyproject.toml", '[project]\ndependencies = [\n  "torch>=2.0,<2.3",\n]\n', [2, 3]),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntorch = "^1.7"\n', [2]),
        ("data.yaml", "torch: 1.7\n- torch==1.7\n", []),
    ],
)
def test_the_newest_that_is_asked_for(name: str, text: str, too_new: list[int], tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert too_new_torch(str(tmp_path)) == too_new


def test_of_two_files_the_newer_one_counts(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==1.7.1")
    (tmp_path / "requirements-new.txt").write_text("torch==2.1.0")
    assert too_new_torch(str(tmp_path)) == [2, 1, 1]
    (tmp_path / "setup.py").write_text("setup(install_requires=['torch'])")
    assert too_new_torch(str(tmp_path)) == []


OPTION = """
import argparse
import torch
import torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
args = parser.parse_args()
torch.cuda.set_device(args.local_rank)
dist.init_process_group("nccl")
"""


@pytest.mark.parametrize(
    ("needs", "newer", "told"), [("1.8.1", True, False), ("1.13.1", False, False), ("2.1", False, True)]
)
def test_the_local_rank_is_an_option_as_long_as_launchers_pass_it(
    needs: str, newer: bool, told: bool, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch=={needs}\n")
    (tmp_path / "train.py").write_text(OPTION)
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU411",))
    assert ("with a newer torch than this project asks for" in found.message) is newer
    assert ("`torch.distributed.launch` of PyTorch 2" in found.message) is told


def test_an_old_torch_is_started_by_its_old_launcher(tmp_path):
    (tmp_path / "requirements.txt").write_text("torch==1.7.1\n")
    (tmp_path / "train.py").write_text(
        'import os, torch\nimport torch.distributed as dist\ndist.init_process_group("nccl")\n'
        "torch.cuda.set_device(dist.get_rank())\n"
    )
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU205",))
    assert "`args.local_rank`" in found.remedy


def test_a_result_is_kept_as_long_as_the_requirements_are(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("GPUDOCTOR_CACHE_DIR", str(tmp_path / "kept"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text(OPTION)
    seen = []
    for needs in ("torch", "torch==1.7.1", "torch==2.1"):
        (tmp_path / "requirements.txt").write_text(f"{needs}\n")
        main(["lint", "train.py", "--select", "GPU411", "--fail-on", "never"])
        seen.append("with a newer torch" in " ".join(capsys.readouterr().out.split()))
    assert seen == [False, True, False]
