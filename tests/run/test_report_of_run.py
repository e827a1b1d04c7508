"""What the report of a run says, whatever becomes of the run."""

import json
import os
import sys
import tempfile
from pathlib import Path

import pytest

from gpudoctor.ranks.loopback import free_port
from tests.support.installs import require_torch
from tests.support.watching import ENDED, TRAINING, of_the_program, plain, watch

require_torch()


LOGGED = (
    TRAINING.replace("import os, sys", "import logging, os, sys")
    + """
        logging.getLogger("train").warning("step")
if dist.get_rank() == 0:
    torch.save(model.module.state_dict(), "model.pt")
"""
)


@pytest.mark.parametrize("above", [each for each in ("/tmp", "/dev/shm") if os.path.isdir(each)])
def test_a_log_of_all_ranks_is_confirmed(above: str, tmp_path: Path) -> None:
    """That rank 0 alone saves its checkpoint clears nothing. A folder of devices may have files, too."""
    with tempfile.TemporaryDirectory(dir=above) as folder:
        log = Path(folder, "train.log")
        opens = f'logging.getLogger("train").addHandler(logging.FileHandler({str(log)!r}))\n'
        (tmp_path / "train.py").write_text(LOGGED.replace("torch.manual_seed", f"{opens}torch.manual_seed"))
        watched = watch(tmp_path, "--nproc-per-node", "2", "train.py")
        assert len(set(log.read_text().splitlines())) == 1
    assert [(each["code"], each["state"]) for each in watched.report["suspicions"]] == [("GPU601", "confirmed")]
    (found,) = (each for each in watched.report["findings"] if each["code"] == "GPU601")
    assert "Every rank added to" in found["message"]


def test_a_checkpoint_that_goes_through_an_open_file_is_told_once(tmp_path: Path) -> None:
    saves = TRAINING + '\nwith open("last.pt", "wb") as file:\n    torch.save(model.module.state_dict(), file)\n'
    (tmp_path / "train.py").write_text(saves)
    watched = watch(tmp_path, "--nproc-per-node", "2", "train.py")
    (found,) = (each for each in watched.report["findings"] if each["code"] == "GPU601")
    assert found["severity"] == "error"


def test_a_healthy_run_has_no_findings_and_says_where_the_time_went(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ENDED)
    watched = watch(tmp_path, "--nproc-per-node", "2", "train.py")
    assert watched.status == 0
    assert watched.codes == set()
    assert [rank["rank"] for rank in watched.report["ranks"]] == [0, 1]
    for timing in watched.report["timing"]:
        parts = ("data", "forward", "backward", "communication", "optimizer", "other")
        assert all(timing[f"{part}_seconds"] >= 0 for part in parts)
        assert timing["step_seconds"] > 0


@pytest.mark.parametrize(
    ("end", "told"),
    [
        ("import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr', required=True)\n"
         "parser.parse_args()", "refuses an option"),
        ("raise SystemExit('usage: train.py DATA')", "has said why"),
    ],
)  # fmt: skip
def test_a_program_that_ends_itself_before_it_trains_is_told(end: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(f"import torch\n{end}\n")
    ended = plain(tmp_path, sys.executable, "-m", "gpudoctor", "run", "train.py")
    assert ended.returncode
    text = " ".join(ended.stderr.split())
    assert "The program ended before the first step, and raised no error that was seen" in text
    assert told in text


def test_a_suspicion_of_lint_is_confirmed(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING.replace("    sampler.set_epoch(epoch)\n", ""))
    watched = watch(tmp_path, "--nproc-per-node", "2", "train.py")
    assert watched.status == 1
    assert watched.codes == {"GPU302"}
    assert [(each["code"], each["state"]) for each in watched.report["suspicions"]] == [("GPU302", "confirmed")]
    assert all(finding["seen_in"] == "run" for finding in watched.report["findings"])


FAILING_CHILD = """
import torch
import torch.multiprocessing as mp

class Worker(mp.Process):
    def run(self):
        raise ValueError("no such shard")

if __name__ == "__main__":
    worker = Worker()
    worker.start()
    worker.join()
"""


def test_an_error_of_a_process_whose_parent_does_not_look_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAILING_CHILD)
    seen = watch(tmp_path, "--check", "--", sys.executable, "train.py")
    assert seen.status == 0
    assert seen.report["ended_with"] == {"type": "ValueError", "text": "no such shard"}
    text = plain(tmp_path, sys.executable, "-m", "gpudoctor", "run", "--check", "--", sys.executable, "train.py").stderr
    assert "A process that the script started ended with ValueError: no such shard at train.py:7" in " ".join(
        text.split()
    )


def test_the_ranks_of_spawn_are_watched(tmp_path: Path) -> None:
    body = "".join(f"    {line}\n" for line in ENDED.splitlines() if not line.startswith(("import", "from")))
    head = [line for line in ENDED.splitlines() if line.startswith(("import", "from"))]
    body = body.replace('"gloo")', '"gloo", init_method="tcp://127.0.0.1:PORT", rank=rank, world_size=2)')
    body = body.replace("PORT", str(free_port()))
    start = "if __name__ == '__main__':\n    torch.multiprocessing.spawn(train, nprocs=2)\n"
    (tmp_path / "train.py").write_text("\n".join([*head, "def train(rank):", body, start]))
    watched = watch(tmp_path, "train.py")
    assert watched.status == 0
    assert [rank["steps"] for rank in watched.report["ranks"]] == [8, 8]


def test_an_error_of_a_process_that_never_trained_is_named(tmp_path: Path) -> None:
    lines = ("import torch", "def work(rank): pass", "torch.multiprocessing.spawn(work, nprocs=2)")
    (tmp_path / "train.py").write_text("\n".join(lines))
    watched = watch(tmp_path, "train.py")
    assert watched.status == 1
    assert watched.codes == {"GPU405"}


@pytest.mark.parametrize(
    "harm",
    [
        "os.chdir('/')",
        "import glob; [os.close(int(os.path.basename(fd))) for fd in glob.glob('/proc/self/fd/*')"
        " if 'gpudoctor-run' in os.path.realpath(fd)]",
        "os.fork() or os._exit(0); os.wait()",
        # torch 2.13 may stand still while it frees the first group, and torchrun's store remembers its addresses.
        "kept = dist.group.WORLD; dist.barrier(); dist.destroy_process_group(); rank = int(os.environ['RANK']);"
        "dist.init_process_group('gloo', store=dist.TCPStore('127.0.0.1', PORT, 2, rank == 0), rank=rank,"
        " world_size=2)",
        "from torch.optim.optimizer import register_optimizer_step_post_hook as hook; hook(lambda *_: None)",
        "print(list(DataLoader([1.0, 2.0], sampler=[1, 0])))",
    ],
)
def test_the_report_survives_what_programs_do(tmp_path: Path, harm: str) -> None:
    begin = 'dist.init_process_group("gloo")\n'
    harm = harm.replace("PORT", str(free_port()))
    changed = f"{harm}\n{begin}" if "fork" in harm else f"{begin}{harm}\n"
    (tmp_path / "train.py").write_text(TRAINING.replace(begin, changed))
    watched = watch(tmp_path, "--nproc-per-node", "2", "train.py")
    assert watched.status == 0, watched.err
    assert [(rank["steps"], rank["faults"]) for rank in watched.report["ranks"]] == [(8, []), (8, [])]


def test_training_goes_on_when_the_disk_of_the_recording_is_full(tmp_path: Path) -> None:
    # A file that may not grow refuses what a full disk refuses.
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4000, 4000))\n"
    (tmp_path / "train.py").write_text(ENDED + "print('trained')\n")
    whole = watch(tmp_path, "--nproc-per-node", "2", "train.py")
    (tmp_path / "train.py").write_text(full + ENDED + "print('trained')\n")
    cut = watch(tmp_path, "--nproc-per-node", "2", "train.py")
    assert (whole.status, cut.status) == (0, 0)
    # The lines of two ranks may run into each other.
    assert cut.out.count("trained") == 2
    assert all(rank["steps"] < 8 for rank in cut.report["ranks"])
    assert cut.report["faults"] == []


@pytest.mark.parametrize(
    ("last", "status"), [("os._exit(3)", 1), ("raise ValueError('no such thing')", 1), ("os.kill(os.getpid(), 9)", 1)]
)
def test_a_rank_that_ends_early_leaves_what_it_did(tmp_path: Path, last: str, status: int) -> None:
    end = f"    if epoch == 1 and dist.get_rank() == 1:\n        {last}\n"
    (tmp_path / "train.py").write_text(TRAINING + end)
    watched = watch(tmp_path, "--nproc-per-node", "2", "train.py")
    assert watched.status == status
    assert [rank["steps"] for rank in watched.report["ranks"]] == [8, 8]
    crash = watched.report["ranks"][1]["crash"]
    assert (crash or {}).get("type") == ("ValueError" if "raise" in last else None)


def test_a_rank_that_leaves_by_itself_is_told_with_the_line(tmp_path: Path) -> None:
    """Who has caught that and gone on did not leave there."""
    tries = "import sys\ntry:\n    sys.exit()\nexcept SystemExit:\n    pass\n"
    leaves = "if dist.get_rank() == 1:\n    sys.exit()\n"
    (tmp_path / "train.py").write_text(f"{tries}{TRAINING}{leaves}dist.barrier()\n")
    report = watch(tmp_path, "--nproc-per-node", "2", "train.py").report
    told = [(each["message"], each["line"]) for found in report["findings"] for each in found["related"]]
    assert ("rank 1 left here, by `sys.exit`", (tries + TRAINING + leaves).count("\n")) in told


def test_ranks_that_a_launcher_has_started_are_reported_together(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    report = tmp_path / "report.json"
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    ours = ("-m", "gpudoctor", "run", "--output-format", "json", "--output-file", str(report), "train.py")
    ended = plain(tmp_path, *launcher, *ours)
    assert ended.returncode == 0, ended.stderr
    assert [(rank["rank"], rank["steps"]) for rank in json.loads(report.read_text())["ranks"]] == [(0, 8), (1, 8)]


def test_the_report_for_people_comes_on_standard_error(tmp_path: Path) -> None:
    # The backend is named where the program names none, too.
    (tmp_path / "train.py").write_text(TRAINING.replace('init_process_group("gloo")', "init_process_group()"))
    ended = plain(tmp_path, sys.executable, "-m", "gpudoctor", "run", "--nproc-per-node", "2", "train.py")
    assert of_the_program(ended.stdout) == []
    assert "2 ranks (gloo) made 8 steps" in ended.stderr
    assert "No mistake was seen" in ended.stderr


def test_wrong_use_is_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").touch()
    (tmp_path / "train.ipynb").touch()
    for arguments, told in (
        ((), "no script to run"),
        (("nothing.py",), "there is no script `nothing.py`"),
        (("trian.py",), "there is no script `trian.py`; did you mean `train.py`?"),
        (("train.ipynb",), "train.ipynb is a notebook, which Python cannot start"),
        (("torchrun", "train.py"), "gpudoctor run -- torchrun train.py"),
        (("--output-format", "json", "train.py"), "add `--output-file FILE`"),
        (("--", "no-such-command"), "there is no command `no-such-command`"),
    ):
        ended = plain(tmp_path, sys.executable, "-m", "gpudoctor", "run", *arguments)
        assert ended.returncode == 2
        assert told in ended.stderr


def test_the_document_is_json_with_the_keys_of_lint(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('hello')\n")
    watched = watch(tmp_path, "train.py")
    assert {"version", "findings", "ranks", "steps", "timing", "suspicions", "hang"} <= set(watched.report)
    assert json.dumps(watched.report)


def test_a_group_that_is_never_complete_is_a_standstill(tmp_path: Path) -> None:
    lines = (
        "import torch.distributed as dist, torch.multiprocessing as mp",
        "def work(rank):",
        f"    dist.init_process_group('gloo', 'tcp://127.0.0.1:{free_port()}', rank=rank, world_size=3)",
        "if __name__ == '__main__':",
        "    mp.spawn(work, nprocs=2)",
    )
    (tmp_path / "train.py").write_text("\n".join(lines))
    # Longer than two processes may take to load torch one after the other.
    watched = watch(tmp_path, "--hang-after", "5", "--kill-on-hang", "train.py")
    assert watched.status == 1
    assert {(each["line"], each["collective"]) for each in watched.report["hang"]} == {(3, None)}
    assert watched.codes == {"GPU415"}


def test_ranks_whose_calls_torch_compares(tmp_path: Path) -> None:
    program = f"""{TRAINING}
dist.set_debug_level(dist.DebugLevel.DETAIL)
compared, rank = dist.new_group(), dist.get_rank()
name, root = ("all_" + "reduce", {{}}) if rank == 0 else ("broadcast", {{"src": 0}})
getattr(dist, name)(torch.ones(4), group=compared, **root)
"""
    (tmp_path / "train.py").write_text(program)
    ended = plain(tmp_path, sys.executable, "-m", "gpudoctor", "run", "--nproc-per-node", "2", "train.py")
    assert ended.returncode
    text = " ".join(ended.stderr.split())
    assert "ranks called different collectives: rank 0 allreduce of [4] float; rank 1 broadcast of [4] float." in text
    line = len(program.splitlines())
    assert f"rank 0 at train.py:{line}, rank 1 at train.py:{line}." in text
