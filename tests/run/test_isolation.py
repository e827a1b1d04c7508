"""A watched job takes nothing of ours into the user's program, nothing of the user's into ours, and leaves nothing."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpudoctor.ranks.process_tree import ON_LINUX
from tests.support.watching import ENDED, plain, watch

pytestmark = pytest.mark.skipif(not ON_LINUX, reason="runs are watched on Linux")

MARK = "GPUDOCTOR_TEST_MARK"
WAITS = "import torch, time, pathlib, os\npathlib.Path(os.environ['RANK']).touch()\ntime.sleep(600)\n"


def processes_of(folder: Path) -> list[int]:
    """All processes that carry the variable."""
    sign = f"{MARK}={folder}".encode()
    return [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/environ") if sign in _content(path)]


def _content(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def until(question: str, holds: object) -> None:
    """Wait for something that comes soon."""
    assert callable(holds)
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline, question
        time.sleep(0.1)


def test_ranks_end_with_a_watcher_that_is_killed_and_the_next_run_clears_up(tmp_path: Path) -> None:
    temporary, work = tmp_path / "tmp", tmp_path / "work"
    temporary.mkdir()
    work.mkdir()
    (work / "train.py").write_text(WAITS)
    (work / "short.py").touch()
    # Of somebody who is making it just now.
    (temporary / "gpudoctor-run-fresh").mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), MARK: str(tmp_path), "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-m", "gpudoctor", "run", "--no-lint"]
    with subprocess.Popen(
        [*command, "--nproc-per-node", "2", "train.py"], cwd=work, env=environment, stderr=subprocess.DEVNULL
    ) as watcher:
        until("two ranks", lambda: len(list(work.glob("[01]"))) == 2)
        assert len(list(temporary.glob("gpudoctor-run-*"))) == 2
        watcher.kill()
    until("nobody is left", lambda: not processes_of(tmp_path))
    assert len(list(temporary.glob("gpudoctor-run-*"))) == 2
    subprocess.run([*command, "short.py"], cwd=work, env=environment, check=True, capture_output=True, timeout=600)
    assert [path.name for path in temporary.glob("gpudoctor-run-*")] == ["gpudoctor-run-fresh"]


def _strangers(folder: Path, mark: Path, *names: str) -> None:
    folder.mkdir(exist_ok=True)
    for name in names:
        harm = f"open({str(mark)!r}, 'a').write('{name} ')\nraise ModuleNotFoundError('{name}')\n"
        (folder / f"{name}.py").write_text(harm)


def test_the_launcher_is_no_part_of_the_users_folder(tmp_path: Path) -> None:
    work, mark = tmp_path / "work", tmp_path / "mark"
    # The script lies elsewhere: beside it nobody looks here either, with plain torchrun.
    _strangers(work, mark, *sys.stdlib_module_names - {"__future__"}, "torch", "numpy")
    (tmp_path / "train.py").write_text(ENDED)
    code = f"import sys; sys.path[:] = {sys.path!r}; from gpudoctor.cli import main; sys.exit(main())"
    report = tmp_path / "report.json"
    options = ("--no-lint", "--output-format", "json", "--output-file", str(report), "--nproc-per-node", "2")
    ended = plain(work, sys.executable, "-c", code, "run", *options, "../train.py", cold=True)
    assert not mark.exists(), mark.read_text()
    assert ended.returncode == 0, ended.stderr
    # Processes that have begun as a user's do, of which nothing is forked.
    seen = json.loads(report.read_text())
    assert (seen["findings"], [rank["steps"] for rank in seen["ranks"]]) == ([], [8, 8])


def test_instruments_take_no_file_of_the_user_for_a_module_of_python(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    known = subprocess.run(
        [sys.executable, "-c", "import sys, torch; print(*sys.modules)"], capture_output=True, text=True, check=True
    ).stdout.split()
    _strangers(tmp_path, mark, *(name for name in sys.stdlib_module_names - {*known} if not name.startswith("_")))
    (tmp_path / "train.py").write_text("import sys\nsys.path.insert(0, 'src')\nimport torch\nprint(sys.path[:2])\n")
    alone = plain(tmp_path, sys.executable, "train.py", cold=True)
    if mark.exists():
        # What torch itself looks for in vain is no doing of ours.
        for name in mark.read_text().split():
            (tmp_path / f"{name}.py").unlink(missing_ok=True)
        mark.unlink()
        alone = plain(tmp_path, sys.executable, "train.py", cold=True)
    assert (alone.returncode, mark.exists()) == (0, False)
    watched = watch(tmp_path, "train.py", cold=True)
    assert not mark.exists(), mark.read_text()
    assert (watched.status, watched.out) == (0, alone.stdout)


@pytest.mark.parametrize(
    "harm",
    [
        pytest.param("import time\ntime.time = time.perf_counter = time.monotonic = time.time_ns = None", id="clocks"),
        pytest.param(
            "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_DFL)\n"
            "resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))",
            id="small files",
        ),
    ],
)
def test_a_program_that_changes_python_ends_as_without_us(tmp_path: Path, harm: str) -> None:
    program = "x = torch.nn.Linear(1, 1)\nx(torch.ones(1, 1)).backward()\ntorch.optim.SGD(x.parameters()).step()\n"
    (tmp_path / "train.py").write_text(f"import torch\n{harm}\n{program}print('done')\n")
    alone = plain(tmp_path, sys.executable, "train.py")
    watched = plain(tmp_path, sys.executable, "-m", "gpudoctor", "run", "--no-lint", "train.py")
    assert (watched.returncode, watched.stdout) == (alone.returncode, alone.stdout) == (0, "done\n")
