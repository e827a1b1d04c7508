"""`gpudoctor lint --watch`, as a user sees it in a terminal that stays open."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gpudoctor import cli

ROOT = Path(__file__).resolve().parent.parent.parent
WRONG = """\
import torch
from torch.utils.data import DataLoader, RandomSampler, TensorDataset
from sizes import SIZE

data = TensorDataset(torch.randn(SIZE, 2))
loader = DataLoader(data, sampler=RandomSampler(data), shuffle=True)
"""
RIGHT = WRONG.replace(", shuffle=True", "")

Watching = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def watching(tmp_path: Path) -> Iterator[Watching]:
    """Starts the command in a folder with a wrong program and what it imports."""
    (tmp_path / "train.py").write_text(WRONG, encoding="utf-8")
    (tmp_path / "sizes.py").write_text("SIZE = 8\n", encoding="utf-8")
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        path = os.pathsep.join([str(ROOT), str(ROOT / "rules")])
        process = subprocess.Popen(
            [sys.executable, "-m", "gpudoctor", "lint", "--no-cache", "--watch", "--output-format=concise", *arguments],
            cwd=tmp_path,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            # A shell that starts the tests in the background has them ignore it, and so would the command.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def report(process: subprocess.Popen[str]) -> list[str]:
    """The lines up to the one that says that it waits."""
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        if line.startswith("Watching "):
            return lines
        lines.append(line.rstrip("\n"))
    raise AssertionError(lines)


def save(path: Path, text: str) -> None:
    """As editors do: nobody sees the file empty."""
    draft = path.with_suffix(".draft")
    draft.write_text(text, encoding="utf-8")
    draft.replace(path)


@pytest.mark.slow
def test_it_lints_again_after_each_change(watching: Watching, tmp_path: Path) -> None:
    process = watching("train.py")
    assert report(process)[0].startswith("train.py:6:10: error: GPU303 ")
    save(tmp_path / "train.py", RIGHT)
    assert report(process) == ["No mistake found in 1 file."]
    # What a program imports, a settings file that was not there, and one that is wrong.
    save(tmp_path / "sizes.py", "SIZE = 16\n")
    assert report(process) == ["No mistake found in 1 file."]
    save(tmp_path / "gpudoctor.toml", 'selct = ["GPU3"]\n')
    (told,) = report(process)
    assert "unknown key `selct`; did you mean `select`?" in told
    save(tmp_path / "gpudoctor.toml", 'select = ["GPU3"]\n')
    assert report(process) == ["No mistake found in 1 file."]
    process.send_signal(signal.SIGINT)
    assert process.wait(timeout=600) == 130


@pytest.mark.slow
def test_a_new_file_in_a_folder(watching: Watching, tmp_path: Path) -> None:
    process = watching(".")
    assert report(process)[0].startswith("train.py:6:10: error: GPU303 ")
    (tmp_path / "draft.txt").write_text(WRONG, encoding="utf-8")
    report(process)
    os.rename(tmp_path / "draft.txt", tmp_path / "other.py")
    assert [line.partition(":")[0] for line in report(process)[:2]] == ["other.py", "train.py"]


@pytest.mark.parametrize("option", ["--fix", "--diff", "--add-ignores", "--output-file=x"])
def test_what_writes_is_refused(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "--watch", option, "."]) == 2
    assert "--watch only reports: leave " in capsys.readouterr().err


def test_standard_input_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["lint", "--watch", "-"]) == 2
    assert "--watch: what comes from standard input does not change" in capsys.readouterr().err
