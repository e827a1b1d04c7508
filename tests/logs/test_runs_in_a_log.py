"""Several runs in one file."""

from pathlib import Path

import pytest

from gpudoctor import cli
from tests.logs.samples import PEER, TRACEBACK, prefixed, read

OMP = """*****************************************
Setting OMP_NUM_THREADS environment variable for each process to be 1 in default
*****************************************
"""
ENDED = """torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
============================================================
train.py FAILED
------------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2025-07-31_10:50:07
  host      : node1
  rank      : 1 (local_rank: 1)
  exitcode  : 1 (pid: 3248030)
  error_file: <N/A>
  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html
============================================================
"""


def test_the_last_of_several_runs_that_were_appended(tmp_path: Path) -> None:
    later = TRACEBACK.replace("KeyError: 'label'", "ValueError: no such split").replace("20", "41")
    found = read(tmp_path, f"{OMP}{TRACEBACK}{ENDED}{OMP}step 1\n{later}{ENDED}{OMP}step 1\nstep 2\n")
    assert (found.first.summary, found.first.by.rank) == ("ValueError: no such split", 1)
    assert found.first.place.line == 41
    assert [each.summary for each in found.earlier] == ["KeyError: 'label'"]
    assert found.following == ()
    assert not found.last_run


def test_launchers_of_several_nodes_are_one_run(tmp_path: Path) -> None:
    """All begin before one fails."""
    found = read(tmp_path, f"{OMP}{OMP}{TRACEBACK}{ENDED}{PEER}")
    assert (found.first.summary, found.earlier) == ("KeyError: 'label'", ())


def test_a_later_run_that_does_not_fail_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "nohup.out"
    log.write_text(f"nohup: ignoring input\n{TRACEBACK}nohup: ignoring input\nstep 1\n")
    assert cli.main(["read", str(log)]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "KeyError: 'label'" in told
    assert "A run that begins after this one, in the same file, did not fail." in told


def test_earlier_runs_are_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "nohup.out"
    log.write_text(f"nohup: ignoring input\n{TRACEBACK}nohup: ignoring input\n{TRACEBACK.replace('label', 'image')}")
    assert cli.main(["read", str(log)]) == 1
    told = " ".join(capsys.readouterr().out.split())
    assert "did not fail" not in told
    assert "KeyError: 'image'" in told.partition("Earlier runs")[0]
    assert "KeyError: 'label' at /job/train.py:20" in told.partition("Earlier runs")[2]


STEPS = "".join(f"step {number} loss 0.3\n" for number in range(60))


def test_runs_of_one_process_that_were_appended_without_a_mark(tmp_path: Path) -> None:
    """Python prints nothing after the error that ends it."""
    later = TRACEBACK.replace("label", "image").replace("20", "41")
    found = read(tmp_path, f"{STEPS}{TRACEBACK}{STEPS}{later}")
    assert found.first.summary == "KeyError: 'image'"
    assert [each.summary for each in found.earlier] == ["KeyError: 'label'"]
    assert found.following == ()


@pytest.mark.parametrize(
    "text",
    [
        # Several processes that fail at once.
        f"{STEPS}{TRACEBACK}{TRACEBACK.replace('label', 'image')}",
        # The other rank went on until it missed this one.
        f"{STEPS}{TRACEBACK}{STEPS}{PEER}{ENDED}",
        f"{STEPS}{prefixed('[rank0]: ', TRACEBACK)}{STEPS}{prefixed('[rank1]: ', TRACEBACK)}",
        # Python went on.
        f"{STEPS}Exception ignored in: <function f at 0x7f>\n{TRACEBACK}{STEPS}{TRACEBACK}",
    ],
)
def test_errors_of_one_run(text: str, tmp_path: Path) -> None:
    assert read(tmp_path, text).earlier == ()


@pytest.mark.parametrize(("host", "rank", "earlier"), [("node2", 9, 0), ("node1", 1, 1)])
def test_a_launcher_of_another_node_that_begins_late(host: str, rank: int, earlier: int, tmp_path: Path) -> None:
    """Where it starts other ranks on another host, it is no new run."""
    late = ENDED.replace("node1", host).replace("rank      : 1", f"rank      : {rank}")
    found = read(tmp_path, f"{OMP}{TRACEBACK}{ENDED}{OMP}{late}")
    assert len(found.earlier) == earlier
