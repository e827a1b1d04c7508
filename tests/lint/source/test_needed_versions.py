"""Which torch is too new for a project is read from the files that say what it needs."""

from pathlib import Path

import pytest

from gpudoctor.cli import main
from gpudoctor.lint.source.layout import too_new
from tests.support.linting import lint

CONDA = "name: work\nchannels:\n  - pytorch\ndependencies:\n  - python=3.8\n  - {}\n  - pip:\n    - tqdm\n"


@pytest.mark.parametrize(
    ("name", "text", "newest"),
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
def test_the_newest_that_is_asked_for(name: str, text: str, newest: list[int], tmp_path: Path) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text)
    assert too_new(str(tmp_path))["torch"] == newest


def test_of_two_files_the_newer_one_counts(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("torch==1.7.1")
    (tmp_path / "requirements-new.txt").write_text("torch==2.1.0")
    assert too_new(str(tmp_path))["torch"] == [2, 1, 1]
    (tmp_path / "setup.py").write_text("setup(install_requires=['torch'])")
    assert too_new(str(tmp_path))["torch"] == []


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


LAUNCH = "#!/bin/bash\npython -m torch.distributed.launch \\\n  --nproc_per_node 8 {} --lr 1\n"


@pytest.mark.parametrize(
    ("needs", "script", "severity", "told"),
    [
        ("torch==1.13.1", "train.py", "info", "with a newer torch than this project asks for"),
        ("torch==2.1", "train.py", "warning", "Since PyTorch 2 `torch.distributed.launch` passes `--local-rank`"),
        ("numpy", "$SCRIPT", "warning", "Since PyTorch 2 `torch.distributed.launch` passes `--local-rank`"),
        ("numpy", "train.py\ntorchrun --standalone train.py", "warning", "`torchrun` does not pass `--local_rank`, it"),
    ],
)
def test_the_launcher_that_the_project_uses(
    needs: str, script: str, severity: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "requirements.txt").write_text(f"{needs}\n")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "run.sh").write_text(LAUNCH.format(script))
    (tmp_path / "README.md").write_text("Start `other.py`:\n\n    torchrun --nproc_per_node 2 other.py\n")
    if script == "$SCRIPT":
        (tmp_path / "README.md").unlink()
    (tmp_path / "train.py").write_text(OPTION)
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU411",))
    assert (found.severity, told in found.message) == (severity, True)
    main(["lint", str(tmp_path / "train.py"), "--select", "GPU411", "--no-cache", "--output-format", "full"])
    starter = "torchrun" if "torchrun" in script else "`torch.distributed.launch`"
    assert f"happens when {starter} starts one process per GPU" in " ".join(capsys.readouterr().out.split())


TRAINER = """
import argparse
import torch.distributed as dist
from transformers import Trainer, TrainingArguments
parser = argparse.ArgumentParser()
parser.add_argument("--local_rank", type=int, default=0)
args = parser.parse_args()
dist.init_process_group("nccl")
Trainer(None, TrainingArguments("out")).train()
"""


@pytest.mark.parametrize(("script", "refused"), [("train.py", 1), ("other.py", 0)])
def test_what_a_framework_trains_is_refused_by_its_own_launch_alone(script: str, refused: int, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "run.sh").write_text(LAUNCH.format(script))
    (tmp_path / "train.py").write_text(TRAINER)
    (tmp_path / "other.py").write_text(OPTION)
    assert len(lint(tmp_path / "train.py", folder=tmp_path, select=("GPU411",))) == refused


def test_a_project_that_only_its_readme_marks(tmp_path: Path) -> None:
    for folder in ("src", "scripts"):
        (tmp_path / "work" / folder).mkdir(parents=True)
    (tmp_path / "work" / "README.txt").write_text("Read on.")
    (tmp_path / "work" / "scripts" / "run.sh").write_text(LAUNCH.format("src/train.py"))
    (tmp_path / "work" / "src" / "train.py").write_text(OPTION)
    (tmp_path / "work" / "src" / "other.py").write_text(OPTION)
    folder = tmp_path / "work" / "src"
    (found,) = lint(folder / "train.py", folder=tmp_path, select=("GPU411",))
    (other,) = lint(folder / "other.py", folder=tmp_path, select=("GPU411",))
    assert (found.message.startswith("Since PyTorch 2"), other.message.startswith("`torchrun`")) == (True, True)


def test_the_option_that_the_launcher_passes_is_declared(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "run.sh").write_text(LAUNCH.format("train.py"))
    (tmp_path / "train.py").write_text(OPTION.replace('"--local_rank"', '"--local_rank", "--local-rank"'))
    assert not lint(tmp_path / "train.py", folder=tmp_path, select=("GPU411",))


READS_BOTH = OPTION.replace("default=0", "default=None").replace(
    "torch.cuda.set",
    "import os\nif args.local_rank is None:\n    args.local_rank = int(os.environ['LOCAL_RANK'])\ntorch.cuda.set",
)
BY_TORCHRUN = "torchrun --nproc_per_node 8 train.py"


@pytest.mark.parametrize(
    ("needs", "start", "program", "refused"),
    [
        ("torch", LAUNCH.format("train.py"), READS_BOTH, True),
        ("torch", LAUNCH.format("train.py") + BY_TORCHRUN, READS_BOTH, True),
        ("torch", LAUNCH.format("--use_env train.py"), READS_BOTH, False),
        ("torch", LAUNCH.format("other.py") + BY_TORCHRUN, READS_BOTH, False),
        ("torch", BY_TORCHRUN, READS_BOTH, False),
        ("torch==1.13.1", LAUNCH.format("train.py"), READS_BOTH, False),
        ("torch", LAUNCH.format("train.py"), READS_BOTH.replace("parse_args()", "parse_known_args()[0]"), False),
        ("torch", LAUNCH.format("train.py"), READS_BOTH.replace("k\", type", "k\", \"--local-rank\", type"), False),
    ],
)  # fmt: skip
def test_what_the_launcher_passes_is_refused_whatever_else_is_read(
    needs: str, start: str, program: str, refused: bool, tmp_path: Path
) -> None:
    (tmp_path / "requirements.txt").write_text(f"{needs}\n")
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "run.sh").write_text(start)
    (tmp_path / "train.py").write_text(program)
    found = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU411",))
    assert ["unrecognized arguments" in each.message for each in found] == [True] * refused


def test_an_old_torch_is_started_by_its_old_launcher(tmp_path):
    (tmp_path / "requirements.txt").write_text("torch==1.7.1\n")
    (tmp_path / "train.py").write_text(
        'import os, torch\nimport torch.distributed as dist\ndist.init_process_group("nccl")\n'
        "torch.cuda.set_device(dist.get_rank())\n"
    )
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU205",))
    assert "`args.local_rank`" in found.remedy


def test_the_option_of_a_launcher_is_no_way_to_the_local_rank_where_it_sets_the_variable(tmp_path):
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "run.sh").write_text(LAUNCH.format("train.py"))
    (tmp_path / "train.py").write_text(OPTION.replace("args.local_rank", "dist.get_rank()"))
    (found,) = lint(tmp_path / "train.py", folder=tmp_path, select=("GPU205",))
    assert "LOCAL_RANK" in found.remedy


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


@pytest.mark.parametrize(
    ("requirement", "found"),
    [
        ("pytorch-lightning==1.9.5", [1, 9, 6]),
        ("lightning<2.0", [2, 0]),
        ("pytorch_lightning~=1.9.0", [1, 10]),
        ("lightning>=2.0", []),
        ("lightning-bolts==0.7", []),
    ],
)
def test_lightning_goes_by_several_names(requirement: str, found: list[int], tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"torch\n{requirement}\n")
    assert too_new(str(tmp_path))["lightning"] == found


OF_COMMAND_LINE = """
import torch
from pytorch_lightning import LightningModule
from pytorch_lightning.cli import LightningCLI

class Net(LightningModule):
    def training_step(self, batch, index):
        return self.layer(batch).sum()
    def on_fit_end(self):
        torch.save({"step": self.global_step}, "last.pt")

LightningCLI(Net)
"""


@pytest.mark.parametrize(("requirement", "codes"), [("pytorch-lightning==1.9.5", set()), ("lightning", {"GPU601"})])
def test_a_command_line_takes_all_gpus_since_version_2(requirement: str, codes: set[str], tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text(f"{requirement}\n")
    (tmp_path / "main.py").write_text(OF_COMMAND_LINE)
    assert {finding.code for finding in lint(tmp_path / "main.py", folder=tmp_path, select=("GPU601",))} == codes
