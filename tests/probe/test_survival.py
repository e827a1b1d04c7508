"""Whatever becomes of the parent, nothing is left: no process, no temporary file; and the report says what was seen."""

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from probe.conftest import named, probe

from gpudoctor.errors import UsageError
from gpudoctor.probe import inventory, launch
from gpudoctor.probe.launch import FOLDER
from gpudoctor.probe.options import Wishes
from gpudoctor.probe.results import Fact, ProbedMachine
from gpudoctor.probe.run_probe import INSTALL, examine
from gpudoctor.probe.stages import START_SECONDS
from gpudoctor.ranks import loopback
from gpudoctor.ranks.process_tree import children
from gpudoctor.ranks.scratch import remove_orphans, scratch
from tests.support.probing import NO_GPU, with_faults

MARK = "GPUDOCTOR_TEST_MARK"
# Where the parent is when the signal comes: a line that the first rank has written, or nothing.
MOMENTS = {"stock is taken": "", "ranks start": '"stage": "start"', "a check runs": '"stage": "collectives"'}

pytestmark = pytest.mark.usefixtures("real_ranks")


@contextmanager
def started(repository: Path, folder: Path, *arguments: str) -> Iterator[subprocess.Popen[str]]:
    """A probe in the background, whose processes can be told by a variable and whose files lie in `folder`."""
    path = os.pathsep.join([str(repository), str(repository / "rules")])
    environment = {
        **os.environ,
        "PYTHONPATH": path,
        "CUDA_VISIBLE_DEVICES": "",
        "TMPDIR": str(folder),
        MARK: str(folder),
    }
    command = [sys.executable, "-m", "gpudoctor", "probe", *arguments]
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(folder: Path, words: str) -> None:
    """Until the first rank has written this."""
    until = time.monotonic() + 120
    while time.monotonic() < until:
        if any(words in path.read_text() for path in folder.glob("gpudoctor-probe-*/rank0.jsonl")):
            return
        time.sleep(0.05)
    pytest.fail(f"no rank has written {words}")


def wait_for_a_child(pid: int) -> None:
    """Until a process has started another one: the command is at work, and hears signals as it wants to."""
    until = time.monotonic() + 120
    while not children(pid):
        assert time.monotonic() < until
        time.sleep(0.01)


def processes_of(folder: Path) -> list[int]:
    """All processes that carry the variable."""
    sign = f"{MARK}={folder}".encode()
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if sign in _environment(path)]


def assert_nobody_left(folder: Path) -> None:
    """The kernel takes a moment to end those whose parent has died."""
    until = time.monotonic() + 60
    while processes_of(folder) and time.monotonic() < until:
        time.sleep(0.1)
    assert processes_of(folder) == []


def _environment(path: Path) -> list[bytes]:
    try:
        return path.read_bytes().split(b"\0")
    except OSError:
        return []


@pytest.mark.parametrize("moment", MOMENTS)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_ends_everything(moment: str, number: signal.Signals, repository: Path, tmp_path: Path) -> None:
    if number is signal.SIGTERM and moment != "a check runs":
        pytest.skip("it takes the same way as Ctrl-C")
    with started(repository, tmp_path, "--output-format", "json") as process:
        if MOMENTS[moment]:
            wait_for(tmp_path, MOMENTS[moment])
        else:
            wait_for_a_child(process.pid)
        process.send_signal(number)
        output, errors = process.communicate(timeout=600)
    assert process.returncode == 130, errors
    assert_nobody_left(tmp_path)
    assert list(tmp_path.glob("gpudoctor-probe-*")) == []
    if moment == "a check runs":
        document = json.loads(output)
        assert document["interrupted"]
        verdicts = {check["name"]: check["verdict"] for check in document["checks"]}
        assert verdicts["device-arithmetic"] == "pass"
        assert verdicts["checkpoint"] == "inconclusive"


def test_ranks_die_with_a_parent_that_is_killed(repository: Path, tmp_path: Path) -> None:
    with started(repository, tmp_path) as process:
        wait_for(tmp_path, '"stage": "collectives"')
        process.kill()
        process.communicate(timeout=600)
        assert_nobody_left(tmp_path)
    assert list(tmp_path.glob("gpudoctor-probe-*"))
    # What nobody was left to remove, the next probe removes.
    remove_orphans(tmp_path, FOLDER)
    assert not list(tmp_path.glob("gpudoctor-probe-*"))


def test_the_folder_of_a_probe_that_still_runs_is_left_alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    # Made this moment by somebody who has not locked it yet.
    fresh = tmp_path / "gpudoctor-probe-fresh"
    fresh.mkdir()
    with scratch(FOLDER) as running, scratch(FOLDER) as other:
        assert running.is_dir()
        assert other.is_dir()
    assert list(tmp_path.iterdir()) == [fresh]


@pytest.fixture
def among_strangers(tmp_path: Path) -> Path:
    """A folder with a file for each module of Python's own, and torch: each leaves a mark and ends the process."""
    folder = tmp_path / "work"
    folder.mkdir()
    for name in {*sys.stdlib_module_names, "torch", "numpy"}:
        harm = f"open({str(tmp_path / 'mark')!r}, 'a').write('{name} ')\nraise SystemExit('{name} was imported')\n"
        (folder / f"{name}.py").write_text(harm)
    return folder


def test_what_lies_beside_the_user_is_no_part_of_a_probe(
    repository: Path, among_strangers: Path, tmp_path: Path
) -> None:
    # As the script `gpudoctor` starts: `python -m` itself looks into the working directory.
    code = f"import sys; sys.path[:] = {sys.path!r}; from gpudoctor.cli import main; sys.exit(main())"
    path = os.pathsep.join([str(repository), str(repository / "rules")])
    ended = subprocess.run(
        [sys.executable, "-c", code, "probe", "--workload", "linear"],
        cwd=among_strangers,
        env={**os.environ, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert not (tmp_path / "mark").exists(), (tmp_path / "mark").read_text()
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_nor_of_ranks_that_are_not_forked(
    monkeypatch: pytest.MonkeyPatch, repository: Path, among_strangers: Path, tmp_path: Path
) -> None:
    monkeypatch.setattr(inventory, "take_stock", lambda: NO_GPU)
    monkeypatch.setattr(launch, "ON_LINUX", False)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(repository), str(repository / "rules")]))
    monkeypatch.chdir(among_strangers)
    report = examine(Wishes(only=("collectives",)))
    assert not (tmp_path / "mark").exists(), (tmp_path / "mark").read_text()
    assert named(report, "collectives").verdict.value == "pass", report


def test_without_a_folder_for_temporary_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inventory, "take_stock", lambda: NO_GPU)

    def nowhere() -> str:
        raise FileNotFoundError(2, "No usable temporary directory found in ['/tmp', '/var/tmp']")

    monkeypatch.setattr(tempfile, "gettempdir", nowhere)
    with pytest.raises(UsageError, match=r"no folder for temporary files can be written: set TMPDIR \(No usable"):
        examine(Wishes())


def test_a_port_that_is_taken_is_none_of_ours(repository: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = str(server.getsockname()[1])
        ended = probe(repository, "--workload", "linear", MASTER_PORT=port, MASTER_ADDR="127.0.0.1", PET_NNODES="3")
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_without_torch_the_inventory_and_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = ProbedMachine("here", torch={"version": Fact(None, "torch is not installed")})
    monkeypatch.setattr(inventory, "take_stock", lambda: machine)
    report = examine(Wishes())
    assert report.machine == (machine,)
    assert INSTALL in report.notes[0]
    assert not report.failed


def test_ranks_that_never_start() -> None:
    report = with_faults(worker="gpudoctor.no_such_module", only=())
    start = named(report, "ranks-start")
    assert start.verdict.value == "fail"
    assert "No module named" in start.details
    assert "ended before it could take part" in start.reason
    assert named(report, "collectives").verdict.value == "inconclusive"


def test_without_a_loopback_the_verdict_comes_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    # An address that is nobody's, as 127.0.0.1 is where the interface is off.
    monkeypatch.setattr(loopback, "LOOPBACK", "203.0.113.1")
    monkeypatch.setattr(inventory, "take_stock", lambda: NO_GPU)
    report = examine(Wishes())
    start = named(report, "ranks-start")
    assert (start.verdict.value, start.full_name) == ("fail", "node/sanity/ranks-start")
    assert "cannot reach each other at 127.0.0.1: " in start.reason
    assert "ip link set lo up" in start.remedy
    assert report.seconds < START_SECONDS / 2
    assert named(report, "collectives").verdict.value == "inconclusive"


def test_no_name_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither that of the machine nor `localhost`: where names are not known, asking takes minutes."""
    monkeypatch.delenv("GLOO_SOCKET_IFNAME", raising=False)
    assert launch._environment()["GLOO_SOCKET_IFNAME"] == "lo"
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "eth7")
    assert launch._environment()["GLOO_SOCKET_IFNAME"] == "eth7"


def test_a_gate_that_is_not_met_is_exit_code_1(repository: Path) -> None:
    ended = probe(repository, "--workload", "linear", "--require", "ddp-efficiency>=0.8")
    assert ended.returncode == 1
    assert "ddp-efficiency was not judged: speed is not judged on a CPU" in " ".join(ended.stdout.split())
