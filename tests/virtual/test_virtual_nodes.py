"""One machine plays two nodes: each rank knows on which it is, and one report tells of all."""

import shutil
import sys
from pathlib import Path

import pytest

from gpudoctor.run.session import run_command
from tests.support.watching import watch
from tests.virtual.test_stand_ins import PROGRAMS

PROGRAM = str(PROGRAMS / "nodes.py")


@pytest.mark.parametrize(
    "command",
    [
        ("--virtual-nodes", "2", PROGRAM),
        ("--virtual-nodes", "2", "--", "torchrun", "--nproc-per-node=1", PROGRAM),
        ("--", "srun", "-p", "gpu", "--nodes=2", "--ntasks-per-node=1", sys.executable, PROGRAM),
    ],
    ids=["launcher", "torchrun", "srun"],
)
def test_ranks_are_on_two_nodes(tmp_path: Path, command: tuple[str, ...]) -> None:
    pytest.importorskip("torch")
    if "srun" in command and shutil.which("srun"):
        pytest.skip("this machine has an `srun` of its own")
    if "torchrun" in command and not shutil.which("torchrun"):
        pytest.skip("`torchrun` is not on the path")
    seen = watch(tmp_path, "--virtual-gpus", "1", "--no-lint", *command)
    assert seen.out.count("done") == 2, seen.err[-3000:]
    assert seen.status == 0, seen.err[-3000:]
    assert [each["rank"] for each in seen.report["ranks"]] == [0, 1]
    assert "those of this node" not in seen.err


@pytest.mark.slow
def test_the_job_fails_where_one_node_does(tmp_path: Path) -> None:
    code = "import os, sys, time; time.sleep(0 if os.environ['NODE'] == '0' else 600); sys.exit(7)"
    ended = run_command(
        (sys.executable, "-S", "-c", code), tmp_path, lambda told: False, variables=({"NODE": "0"}, {"NODE": "1"})
    )
    assert ended.status == 7
    # The other one was not waited for.
    assert ended.seconds < 300


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--virtual-nodes", "2", "train.py"), "add `--virtual-gpus N`"),
        (("--virtual-gpus", "1", "--", "srun", "-n", "3", "-N", "2", "python"), "3 tasks cannot be shared evenly"),
        (("--virtual-gpus", "1", "--", "srun", "-n", "2"), "no command after the options of `srun`"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, arguments: tuple[str, ...], told: str) -> None:
    if "srun" in arguments and shutil.which("srun"):
        pytest.skip("this machine has an `srun` of its own")
    (tmp_path / "train.py").touch()
    seen = watch(tmp_path, *arguments)
    assert seen.status == 2
    assert told in seen.err
