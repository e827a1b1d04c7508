"""`gpudoctor lint --try`: what is suspected is run, shut off from the rest."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from gpudoctor.cli import trial
from gpudoctor.ranks.sandbox import NO_SANDBOX
from gpudoctor.ranks.starting import module_command

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

PROGRAM = """\
import pathlib
import torch

pathlib.Path("left behind").touch()
model = torch.nn.Linear(8, 2).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
dataset = torch.utils.data.TensorDataset(torch.randn(64, 8), torch.randint(2, (64,)))
for x, y in torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True):
    optimizer.zero_grad()
    torch.nn.functional.cross_entropy(model(x.cuda()), y).backward()
    optimizer.step()
"""

INSIDE = """\
import pathlib, socket, sys, tempfile
here = pathlib.Path("there")
assert here.read_text() == "data"
here.write_text("changed")
pathlib.Path.home().joinpath("of gpudoctor's tests").touch()
tempfile.NamedTemporaryFile().write(b"1")
for target in ("/usr", "/etc"):
    try:
        pathlib.Path(target, "of gpudoctor's tests").touch()
    except OSError:
        continue
    sys.exit(f"{target} can be written")
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname()).close()
try:
    socket.create_connection(("192.0.2.1", 80), timeout=5)
except OSError as error:
    assert "unreachable" in str(error), error
pathlib.Path(sys.argv[1]).write_text("done")
"""


def shut_off(folder: Path, *command: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """A command in a sandbox that may write to `folder / "out"`."""
    folder.mkdir()
    ended = subprocess.run(
        [*module_command("gpudoctor.ranks.sandbox", str(folder)), *command],
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    if ended.returncode == NO_SANDBOX:
        pytest.skip(f"this machine cannot isolate a process: {ended.stderr}")
    return ended


def test_nothing_gets_out_of_a_sandbox(tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "there").write_text("data")
    target = tmp_path / "sandbox" / "out" / "told"
    ended = shut_off(tmp_path / "sandbox", sys.executable, "-c", INSIDE, str(target), cwd=project)
    assert ended.returncode == 0, ended.stderr
    assert target.read_text() == "done"
    assert (project / "there").read_text() == "data"
    assert [each.name for each in project.iterdir()] == ["there"]


def test_a_suspicion_is_confirmed_and_nothing_is_left_behind(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shut_off(tmp_path / "sandbox", "true", cwd=tmp_path)
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "gpudoctor", "lint", "--no-cache", "--try", "train.py"]
    ended = subprocess.run(command, cwd=project, capture_output=True, text=True, check=False, timeout=300)
    assert ended.returncode == 1
    assert "1 of 1 suspicions is confirmed" in ended.stderr
    assert "confirmed    GPU201 train.py:10" in ended.stderr
    assert [each.name for each in project.iterdir()] == ["train.py"]


def test_a_program_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SECONDS", 0.5)
    assert trial._within_limit([sys.executable, "-S", "-c", "import time; time.sleep(600)"]) == (None, "")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cannot_be_tried": "a kernel of Triton"}, "it ended at a kernel of Triton"),
        ({"ranks": [{"steps": 0, "crash": {"type": "ValueError", "text": "no\ndata"}}]}, "ValueError: no data"),
        ({"hang": ["rank 0"]}, "its ranks hung"),
        ({"status": 2}, "`--try-arguments` gives it options"),
        ({}, ""),
    ],
)
def test_how_a_program_ended(changes: dict[str, Any], told: str) -> None:
    healthy = {"cannot_be_tried": None, "ranks": [], "hang": [], "status": 0}
    ending = trial._ending({**healthy, **changes})
    assert told in ending
    assert bool(told) == bool(ending)
