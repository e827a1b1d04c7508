"""`.gitignore` counts where a folder is linted, and options and settings turn that off."""

from pathlib import Path

import pytest

from gpudoctor import cli

WRONG = "import torch\nmodel = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(1, 1))\n"


@pytest.fixture(autouse=True)
def _repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path(".git").mkdir()
    Path(".gitignore").write_text("scratch*.py\n")
    for name in ("train.py", "scratch_1.py"):
        Path(name).write_text(WRONG)


def found(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    cli.main(["lint", "-q", "--no-cache", "--output-format=concise", "--select=GPU401", *arguments])
    return [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()]


def test_what_is_ignored_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert found(capsys) == ["train.py"]
    assert found(capsys, "--no-respect-gitignore") == ["scratch_1.py", "train.py"]
    assert found(capsys, "scratch_1.py") == ["scratch_1.py"]


def test_settings(capsys: pytest.CaptureFixture[str]) -> None:
    Path("gpudoctor.toml").write_text("respect-gitignore = false\n")
    assert found(capsys) == ["scratch_1.py", "train.py"]
    Path("gpudoctor.toml").write_text("respect-gitignore = true\n")
    assert found(capsys) == ["train.py"]
