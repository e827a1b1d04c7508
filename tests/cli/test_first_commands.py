"""What one tries first works: `-V`, `help`, a hidden settings file, a fix of what is piped in, colours of a patch."""

import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor import __version__, cli

PROGRAM = """\
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset

data = TensorDataset(torch.randn(8, 2))
sampler = RandomSampler(data)
loader = DataLoader(data, sampler=sampler, shuffle=True)
"""
FIXED = PROGRAM.replace(", shuffle=True", "")


def run(*arguments: str, folder: Path | None = None, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "gpudoctor", *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=False, cwd=folder)


@pytest.mark.parametrize("arguments", [("-V",), ("version",), ("lint", "--version"), ("explain", "-V")])
def test_version(arguments: tuple[str, ...]) -> None:
    ended = run(*arguments)
    assert (ended.returncode, ended.stdout.decode()) == (0, f"gpudoctor {__version__}\n")


def test_help() -> None:
    assert run("help").stdout == run("--help").stdout != b""
    assert run("help", "lint").stdout == run("lint", "--help").stdout != b""
    assert b"did you mean `lint`?" in run("help", "lnt").stderr
    assert b"None" not in run("help").stdout


def test_a_hidden_settings_file_counts(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    (tmp_path / ".gpudoctor.toml").write_text('ignore = ["GPU303"]\n', encoding="utf-8")
    assert run("lint", folder=tmp_path).returncode == 0
    (tmp_path / ".gpudoctor.toml").write_text('ignored = ["GPU303"]\n', encoding="utf-8")
    ended = run("lint", folder=tmp_path)
    assert ended.returncode == 2
    assert b".gpudoctor.toml:1: " in ended.stderr
    assert b"`ignore`" in ended.stderr


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_what_is_piped_in_comes_back_fixed(tmp_path: Path, newline: str) -> None:
    given, wanted = (text.replace("\n", newline).encode() for text in (PROGRAM, FIXED))
    ended = run("lint", "-", "--fix", "--select=GPU303", folder=tmp_path, given=given)
    assert (ended.returncode, ended.stdout) == (0, wanted)
    assert b"1 fixed: GPU303" in ended.stderr
    # Under the name of a file, that file stays as it is.
    (tmp_path / "train.py").write_text("x = 1\n", encoding="utf-8")
    ended = run("lint", "--fix", "--stdin-filename=train.py", folder=tmp_path, given=given)
    assert (ended.returncode, ended.stdout) == (0, wanted)
    assert (tmp_path / "train.py").read_text(encoding="utf-8") == "x = 1\n"


def test_what_cannot_be_fixed_comes_back_too(tmp_path: Path) -> None:
    given = PROGRAM.replace("shuffle=True", "**dict(shuffle=True)").encode()
    ended = run("lint", "-", "--fix", "--select=GPU303", folder=tmp_path, given=given)
    assert ended.stdout == given
    ended = run("lint", "-", "--fix", "--output-format=json", folder=tmp_path, given=given)
    assert ended.returncode == 2
    assert b"`--output-file` takes the report" in ended.stderr
    assert run("lint", "-", "--fix", ".", folder=tmp_path, given=given).returncode == 2


def test_the_patch_of_what_is_piped_in(tmp_path: Path) -> None:
    ended = run("lint", "-", "--diff", "--select=GPU303", folder=tmp_path, given=PROGRAM.encode())
    assert b"+loader = DataLoader(data, sampler=sampler)\n" in ended.stdout


def test_a_patch_in_colour(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM, encoding="utf-8")
    plain = run("lint", "--diff", folder=tmp_path).stdout
    assert b"\x1b" not in plain
    coloured = run("lint", "--diff", "--color=always", folder=tmp_path).stdout
    assert b"\x1b[31m-loader = " in coloured
    assert b"\x1b[32m+loader = " in coloured
    assert b"\x1b[36m@@ " in coloured


def test_a_python_without_torch_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "train.py").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("gpudoctor.cli.run.find_spec", lambda name: None)
    assert cli.main(["run", "train.py"]) == 2
    assert f"torch is not installed for {sys.executable}" in capsys.readouterr().err
