"""`gpudoctor lint --try`: what is suspected is run, shut off from the rest."""

import contextlib
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from gpudoctor.cli import trial
from gpudoctor.diagnostic import Severity
from gpudoctor.ranks.sandbox import NO_SANDBOX
from gpudoctor.ranks.starting import module_command
from tests.tools import make_schema

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
        timeout=600,
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


def test_a_project_that_lies_in_memory_is_there_and_is_not_changed(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        data = Path(folder) / "there"
        data.write_text("data")
        code = "print(open('there').read()); open('there', 'w'); open('new', 'w')"
        ended = shut_off(tmp_path / "sandbox", sys.executable, "-c", code, cwd=data.parent)
        assert (ended.returncode, ended.stdout) == (0, "data\n"), ended.stderr
        assert ([each.name for each in data.parent.iterdir()], data.read_text()) == (["there"], "data")


LEAVES = """\
import os, subprocess, sys, time
started = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)", sys.argv[2]],
                           start_new_session=True)
assert os.path.exists(f"/proc/{started.pid}")
open(sys.argv[1], "w").write(f"{os.getpid()} {len([name for name in os.listdir('/proc') if name.isdigit()])}")
time.sleep(float(sys.argv[3]))
"""


def still_running(mark: str) -> bool:
    """Whether some process has this word among its arguments."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if mark.encode() in path.read_bytes():
                return True
    return False


def gone(mark: str) -> bool:
    """Whether no such process is there, once those that were killed have had the time to go."""
    for _ in range(300):
        if not still_running(mark):
            return True
        time.sleep(0.1)
    return False


def own_processes(tmp_path: Path) -> Path:
    """A folder for a sandbox; skips where the machine gives a sandbox no processes of its own."""
    told = tmp_path / "probe" / "out" / "told"
    shut_off(tmp_path / "probe", sys.executable, "-c", LEAVES, str(told), f"left by {tmp_path}", "0", cwd=tmp_path)
    if int(told.read_text().split()[0]) > 100:
        pytest.skip("this machine gives a sandbox no processes of its own")
    return tmp_path / "sandbox"


def test_no_process_outlives_a_sandbox_nor_sees_others(tmp_path: Path) -> None:
    folder, mark = own_processes(tmp_path), f"left by {tmp_path}"
    told = folder / "out" / "told"
    ended = shut_off(folder, sys.executable, "-c", LEAVES, str(told), mark, "0", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr
    # The first of its world, the command, and what it has started.
    assert told.read_text().split()[1] == "3"
    assert gone(mark)


def test_what_left_the_group_of_a_trial_ends_with_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, mark = own_processes(tmp_path), f"left by {tmp_path}"
    folder.mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(trial, "SECONDS", 5)
    told = str(folder / "out" / "told")
    sandbox = module_command("gpudoctor.ranks.sandbox", str(folder))
    assert trial._within_limit([*sandbox, sys.executable, "-c", LEAVES, told, mark, "600"]) == (None, "")
    assert (folder / "out" / "told").exists()
    assert gone(mark)


def test_what_stays_in_the_group_ends_without_a_sandbox_too(tmp_path: Path) -> None:
    mark = f"left by {tmp_path}"
    leaves = (
        "import subprocess, sys;"
        " subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(600)', *sys.argv[1:]], stderr=-3)"
    )
    assert trial._within_limit([sys.executable, "-S", "-c", leaves, mark]) == (0, "")
    assert gone(mark)


def test_an_exit_code_comes_out_of_a_sandbox(tmp_path: Path) -> None:
    for number, (command, code) in enumerate(
        ((("sh", "-c", "exit 7"), 7), (("sh", "-c", "kill -9 $$"), 128 + 9), (("no such command",), 127))
    ):
        ended = shut_off(tmp_path / str(number), *command, cwd=tmp_path)
        # A command that this process has become ends by the signal itself.
        assert ended.returncode in (code, 128 - code if code > 128 else code), ended.stderr


def test_a_project_may_lie_anywhere(tmp_path: Path) -> None:
    # In a folder whose name comes after that of the one for temporary files.
    shut_off(tmp_path / "first", "true", cwd=tmp_path)
    ended = shut_off(tmp_path / "second", "touch", "written", cwd=Path("/var"))
    assert ended.returncode == 0, ended.stderr
    assert not Path("/var/written").exists()


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


def test_the_document_says_what_was_tried(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    shut_off(tmp_path / "sandbox", "true", cwd=tmp_path)
    (tmp_path / "train.py").write_text(PROGRAM)
    command = [sys.executable, "-m", "gpudoctor", "lint", "--no-cache", "--output-format=json", "--try", "train.py"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=300)
    document = json.loads(ended.stdout)
    [schema] = make_schema.FOLDER.glob("lint.json")
    jsonschema.Draft202012Validator(json.loads(schema.read_text(encoding="utf-8"))).validate(document)
    [tried] = document["tried"]
    assert (tried["path"], tried["ran"], tried["because"], tried["gpus"], tried["steps"]) == (
        "train.py",
        True,
        "",
        2,
        0,
    )
    assert tried["suspicions"] == [{"code": "GPU201", "path": "train.py", "line": 10, "state": "confirmed"}]
    assert tried["ended"].startswith("it ended with RuntimeError: Expected all tensors")
    assert ended.returncode == 1


def test_what_was_not_tried_is_said_with_the_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trial, "_run", lambda *_: (None, "no room"))
    monkeypatch.setattr(trial, "_MOST", 1)
    paths = ("a.py", "b.py")
    outcome: Any = SimpleNamespace(
        findings=[SimpleNamespace(severity=Severity.ERROR, location=SimpleNamespace(path=path)) for path in paths],
        programs=[SimpleNamespace(path=path, world="torchrun") for path in paths],
    )
    trials = trial.try_programs(outcome, "")
    assert [(each.path, each.ran, each.because) for each in trials] == [
        ("a.py", False, "no room"),
        ("b.py", False, trial._TOO_MANY),
    ]
    trial.tell_trials(trials, outcome)
    assert capsys.readouterr().err.splitlines() == [
        "gpudoctor: a.py could not be tried: no room",
        "gpudoctor: not tried, being more than 1: b.py",
    ]


def test_a_program_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trial, "SECONDS", 0.5)
    assert trial._within_limit([sys.executable, "-S", "-c", "import time; time.sleep(600)"]) == (None, "")


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        ({"cannot_be_tried": "a kernel of Triton"}, "it ended at a kernel of Triton"),
        ({"ended_with": {"type": "ValueError", "text": "no\ndata"}}, "ValueError: no data"),
        ({"hang": ["rank 0"]}, "its ranks hung"),
        ({"status": 2}, "`--try-arguments` gives it options"),
        ({}, ""),
    ],
)
def test_how_a_program_ended(changes: dict[str, Any], told: str) -> None:
    healthy = {"cannot_be_tried": None, "ranks": [], "hang": [], "status": 0, "ended_with": None}
    ending = trial._ending({**healthy, **changes})
    assert told in ending
    assert bool(told) == bool(ending)
