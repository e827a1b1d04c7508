"""What one process writes down is there, whatever becomes of it, and stays small."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from gpudoctor.run import append_log
from gpudoctor.run.append_log import ByCalls, InMemory, appended
from gpudoctor.run.recorder import Recorder
from gpudoctor.run.recording_reader import lines_of, read
from gpudoctor.run.timing import samples_per_second
from tests.support.installs import require_torch

WRITES = """
import os, sys
from gpudoctor.run.recorder import Recorder
recorder = Recorder(sys.argv[1])
for number in range(3000):
    recorder.write("line", number=number, text="x" * 100)
recorder.write("line", number=3000, text="y" * 600_000)
os.kill(os.getpid(), 9)
"""
STEPS = """
import os, sys
import torch
from gpudoctor.run.instruments import install
install(sys.argv[1])
parameter = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([parameter], lr=0.1)
for _ in range(6003):
    optimizer.step()
"""


def run(program: str, folder: Path) -> int:
    return subprocess.run([sys.executable, "-c", program, str(folder)], check=False).returncode


def test_all_lines_of_a_process_that_is_killed_are_there(tmp_path: Path) -> None:
    assert run(WRITES, tmp_path) == -signal.SIGKILL
    (file,) = tmp_path.iterdir()
    lines = list(lines_of(file))
    assert [line["number"] for line in lines[1:]] == list(range(3001))
    assert len(lines[-1]["text"]) == 600_000


def test_without_shared_memory_lines_are_written_by_calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(appended(str(tmp_path / "one")), InMemory)

    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(append_log.os, "posix_fallocate", refuse, raising=False)
    file = appended(str(tmp_path / "other"))
    assert isinstance(file, ByCalls)
    file.append(b'{"kind":"one"}\n')
    # A program may close what it has not opened.
    os.close(file._file)
    file.append(b'{"kind":"two"}\n')
    assert [line["kind"] for line in lines_of(tmp_path / "other")] == ["one", "two"]


def test_steps_of_a_long_run_are_told_more_rarely_and_all_are_counted(tmp_path: Path) -> None:
    require_torch()
    assert run(STEPS, tmp_path) == 0
    (process,) = read(tmp_path, status=0, seconds=1.0).ranks
    assert process.made == 6003
    # Late in a run each eleventh is told, and in the end each 121st, the last of which is the 5929th.
    assert sum(step.of for step in process.steps) == 5929
    assert len(process.steps) < 1000
    # Nothing came from a loader.
    assert samples_per_second([process]) is None


def test_an_instrument_that_fails_again_and_again_is_put_away_alone(tmp_path: Path) -> None:
    recorder = Recorder(str(tmp_path))
    calls = []

    def broken() -> None:
        calls.append("broken")
        raise KeyError("no such key")

    careful, other = recorder.guarded(broken), recorder.guarded(lambda: calls.append("other"))
    for _ in range(20):
        careful()
    other()
    assert calls == ["broken"] * 5 + ["other"]
