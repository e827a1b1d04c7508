"""`gpudoctor run --attach`: a job that was started by somebody else. A stand-in for py-spy tells stacks."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.ranks.process_tree import ON_LINUX, children, state_of
from gpudoctor.run import outside_stack

pytestmark = pytest.mark.skipif(not ON_LINUX, reason="processes are followed as only Linux shows them")
JOB = """
import os, subprocess, sys, time
sleep = [sys.executable, "-S", "-c", "import os, time; os.write(1, b'sleeps' + bytes([10])); time.sleep(300)"]
for rank in range(3):
    subprocess.Popen(sleep, env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank)})
os.write(1, b"has started them\\n")
time.sleep(300)
"""
"""A launcher with three ranks. One write a line: `print` may write the newline apart, and they share a pipe."""
SPY = """#!{python}
import json, os, sys
pid = int(sys.argv[-1])
variables = open(f"/proc/{{pid}}/environ", "rb").read().split(bytes(1))
rank = next(int(each[5:]) for each in variables if each.startswith(b"RANK="))
{body}
frames = [{{"filename": file, "line": line, "name": name}} for file, line, name in stack]
print(json.dumps([{{"os_thread_id": pid + 1, "frames": []}}, {{"os_thread_id": pid, "frames": frames}}]))
"""
WAITS = """
torchs = "/usr/lib/python3/torch/distributed/distributed_c10d.py"
waits = [(torchs, 2806, "all_reduce"), ("/w/train.py", 15, "<module>")]
stack = [("/w/data.py", 10, "read"), ("/w/train.py", 14, "<module>")] if rank == 1 else waits
"""
MOVES = "import time; stack = [('/w/train.py', time.time_ns() if rank else 3, 'step')]"
REFUSES = "sys.exit('Error: Permission Denied: Try running again with elevated permissions')"


@pytest.fixture
def job(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[int]:
    """The launcher's process."""
    environment = {**os.environ, "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(tmp_path / "ask")}
    process = subprocess.Popen(
        [sys.executable, "-S", "-c", JOB], stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment
    )
    assert process.stdout is not None
    assert sorted(process.stdout.readline() for _ in range(4)) == ["has started them\n", *["sleeps\n"] * 3]
    while not all(state_of(rank) == "S" for rank in children(process.pid)):
        time.sleep(0.01)
    yield process.pid
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def spy(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put a stand-in for py-spy where it is looked for."""
    path = folder / "py-spy"
    path.write_text(SPY.format(python=sys.executable, body=body))
    path.chmod(0o755)
    monkeypatch.setattr(outside_stack, "_py_spy", lambda: str(path))


def test_the_rank_that_is_missing_is_named(
    job: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spy(tmp_path, WAITS, monkeypatch)
    assert cli.main(["run", "--attach", str(job)]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "3 ranks on this node At each of 5 looks every rank stood at the same lines" in told
    assert "Rank 1 did not reach what the others wait in." in told
    assert "Rank 0 waits for other ranks at /w/train.py:15." in told
    assert "Rank 1 is at /w/data.py:10 in `read`." in told
    # One of the ranks stands for all of them.
    rank = children(job)[2]
    assert cli.main(["run", "--attach", str(rank), "--output-format", "json"]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["hang_verdict"] == {"kind": "rank missing", "ranks": [1]}
    assert [each["rank"] for each in document["ranks"]] == [0, 1, 2]


def test_a_job_that_advances_does_not_hang(
    job: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    spy(tmp_path, MOVES, monkeypatch)
    assert cli.main(["run", "--attach", str(job)]) == 0
    assert "The job advances: rank 1, 2 stood at other lines" in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(("body", "help"), [("", "pip install py-spy"), (REFUSES, "--cap-add SYS_PTRACE")])
def test_without_stacks_it_says_what_would_help(
    body: str,
    help: str,
    job: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    spy(tmp_path, body, monkeypatch)
    if not body:
        monkeypatch.setattr(outside_stack, "_py_spy", lambda: "")
    assert cli.main(["run", "--attach", str(job)]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert help in told
    assert f"Rank 2, process {children(job)[2]}: it sleeps" in told
    assert "start the job with `gpudoctor run`" in told


def test_a_flight_recorder_is_asked_for(
    job: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As torch's NCCL listens at a pipe for each rank."""
    spy(tmp_path, WAITS, monkeypatch)
    os.mkfifo(tmp_path / "ask1.pipe")
    pipe = os.open(tmp_path / "ask1.pipe", os.O_RDONLY | os.O_NONBLOCK)
    cli.main(["run", "--attach", str(job)])
    assert os.read(pipe, 10) == b"1"
    os.close(pipe)
    assert "`gpudoctor read /tmp/nccl_trace_rank_1`" in " ".join(capsys.readouterr().out.split())


def test_wrong_use(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["run", "--attach", "999999999"]) == 2
    assert "there is no such process" in capsys.readouterr().err
    assert cli.main(["run", "--attach", "1", "train.py"]) == 2
