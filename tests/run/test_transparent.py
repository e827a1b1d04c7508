"""A watched script is the script: what it is given, what it prints, how it ends, and what it computes."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.support import warm
from tests.support.installs import require_torch
from tests.support.watching import REST, TRAINING, environment, of_the_program, plain, watch

SHOWS_ITSELF = """
import os, sys
print(sys.argv, __name__, __file__, os.getcwd(), sys.path[0], sys.stdin.isatty())
print("problem", file=sys.stderr)
"""
WARNS = """
import torch
from torch import distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
net = torch.nn.Linear(2, 1)
DistributedDataParallel(net, check_reduction=True)
dist.destroy_process_group()
"""


def test_a_script_gets_what_python_would_give_it(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SHOWS_ITSELF)
    alone = plain(tmp_path, sys.executable, "train.py", "--epochs", "3", "-x", cold=True)
    watched = watch(tmp_path, "train.py", "--epochs", "3", "-x", cold=True)
    assert watched.out == alone.stdout
    assert watched.err == alone.stderr


def test_a_module_gets_what_python_would_give_it(tmp_path: Path) -> None:
    (tmp_path / "pkg").mkdir()
    (tmp_path / "pkg/__init__.py").touch()
    (tmp_path / "pkg/train.py").write_text(SHOWS_ITSELF)
    alone = plain(tmp_path, sys.executable, "-m", "pkg.train", "--epochs", "3", cold=True)
    assert watch(tmp_path, "-m", "pkg.train", "--epochs", "3", cold=True).out == alone.stdout


@pytest.mark.parametrize(
    "ending", ["raise SystemExit(7)", "import os; os._exit(9)", "1 / 0", "import os; os.kill(os.getpid(), 15)"]
)
def test_how_a_script_ends_is_its_own(tmp_path: Path, ending: str) -> None:
    (tmp_path / "train.py").write_text(f"print('begun', flush=True)\n{ending}\n")
    alone = plain(tmp_path, sys.executable, "train.py", cold=True)
    watched = watch(tmp_path, "train.py", cold=True)
    shown = alone.returncode if alone.returncode >= 0 else 128 - alone.returncode
    assert (watched.status, watched.out) == (shown, alone.stdout)
    assert watched.err.startswith(alone.stderr)
    assert watched.report["status"] == shown


def test_a_warning_shows_the_line_of_the_program(tmp_path: Path) -> None:
    """Of what we have put in the place of torch's own, no line is shown."""
    require_torch()
    (tmp_path / "train.py").write_text(WARNS)
    alone = plain(tmp_path, sys.executable, "train.py")
    assert "train.py:8: FutureWarning" in alone.stderr
    assert watch(tmp_path, "train.py").err.startswith(alone.stderr)


def test_a_sitecustomize_of_the_user_is_imported(tmp_path: Path) -> None:
    (tmp_path / "site").mkdir()
    (tmp_path / "site/sitecustomize.py").write_text("import builtins; builtins.marked = 'by the user'\n")
    (tmp_path / "train.py").write_text("import sitecustomize; print(marked, sitecustomize.__file__)\n")
    path = os.pathsep.join([str(tmp_path / "site"), os.environ.get("PYTHONPATH", "")])
    command = ["env", f"PYTHONPATH={path}", sys.executable]
    alone = plain(tmp_path, *command, "train.py", cold=True)
    watched = plain(tmp_path, *command, "-m", "gpudoctor", "run", "train.py", cold=True)
    assert alone.stdout.startswith("by the user")
    assert watched.stdout == alone.stdout


def test_a_signal_that_is_sent_to_us_reaches_the_script(tmp_path: Path) -> None:
    script = "import signal, sys, time\nsignal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
    (tmp_path / "train.py").write_text(script + "print('ready', flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "gpudoctor", "run", "train.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 5


@pytest.mark.skipif(not warm.available(), reason="its process is forked")
def test_a_process_that_goes_on_after_sigterm_is_told(tmp_path: Path) -> None:
    script = """
import signal, sys, time
import torch
signal.signal(signal.SIGTERM, lambda *_: print("not yet", flush=True))
model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for number in range(30):
    model(torch.ones(1)).backward()
    optimizer.step()
    if number == 1:
        print("ready", file=sys.stderr, flush=True)
    time.sleep(0.25)
"""
    (tmp_path / "train.py").write_text(script)
    command = [sys.executable, "-m", "gpudoctor", "run", "--no-lint", "train.py"]
    process = warm.Process(command, cwd=tmp_path, env=environment())
    process.until("ready", 300)
    os.kill(process.pid, signal.SIGTERM)
    _, err = process.communicate(300)
    told = " ".join(err.split())
    assert "after the job was told to end (SIGTERM): what it does at SIGTERM, at train.py:4, does not end it." in told


def test_nothing_is_left_when_we_are_killed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)\n")
    command = [sys.executable, "-m", "gpudoctor", "run", "train.py"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as process:
        script = Path(f"/proc/{int(process.stdout.readline())}")
        process.kill()
        process.wait(120)
    deadline = time.monotonic() + 60
    while script.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not script.exists()


def test_losses_and_weights_are_the_same_to_the_bit(tmp_path: Path) -> None:
    require_torch()
    # One write for each line, or the lines of two ranks may run into each other.
    seen = "{epoch} {loss.item().hex()} {[p.tolist() for p in model.parameters()]} {torch.rand(1).item()}"
    tell = f"    sys.stdout.write(f'{seen}\\n')\n"
    (tmp_path / "train.py").write_text(TRAINING + tell + REST)
    ranks = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "train.py")
    alone = plain(tmp_path, sys.executable, *ranks)
    watched = watch(tmp_path, "--", sys.executable, *ranks)
    assert watched.status == alone.returncode == 0, watched.report["findings"]
    assert sorted(of_the_program(watched.out)) == sorted(of_the_program(alone.stdout)) != []
    assert [rank["steps"] for rank in watched.report["ranks"]] == [8, 8]


def test_a_watcher_that_was_stopped_goes_on(tmp_path: Path) -> None:
    """As with Ctrl-Z, and `fg` later than the watcher wanted to look again: Python then hands it a signal that never
    came."""
    stops = "import os, signal, time\nos.kill(os.getppid(), signal.SIGSTOP)\ntime.sleep(0.5)\n"
    goes_on = "os.kill(os.getppid(), signal.SIGCONT)\ntime.sleep(0.5)\nprint('done')\n"
    (tmp_path / "train.py").write_text(stops + goes_on)
    watched = watch(tmp_path, "--no-lint", "train.py", cold=True)
    assert (watched.status, watched.out, watched.err) == (0, "done\n", "")
