"""Jobs of two real ranks that fail, and what is read from what they print."""

import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from gpudoctor.logs.diagnosis import LogDiagnosis
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.job_logs import read_logs
from gpudoctor.logs.log_facts import LoggedFrame
from tests.support import warm

pytestmark = pytest.mark.skipif(not warm.available(), reason="needs torch, and Linux to fork its ranks")

JOB = Path(__file__).parent / "failing.py"


def diagnosed(kind: str, folder: Path) -> LogDiagnosis:
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    ended = warm.run([*launcher, str(JOB), kind], cwd=folder)
    assert ended.returncode, "the job did not fail"
    log = folder / "job.log"
    log.write_text(ended.stdout + ended.stderr)
    return read_logs([str(log)])


def marked(kind: str) -> int | None:
    """The line of the job that is marked as the one to name."""
    lines = JOB.read_text().splitlines()
    begin = next(number for number, line in enumerate(lines) if line.startswith(f"def {kind}("))
    end = next(number for number, line in enumerate(lines) if number > begin and line.startswith("def "))
    return next((number + 1 for number in range(begin, end) if "# first" in lines[number]), None)


OWN, WAIT, STOPPED = FailureRole.OWN, FailureRole.WAIT, FailureRole.STOPPED
ON_CPU = version("torch").endswith("+cpu")
CASES = [
    # how it fails, the ranks that may be first, what kind of failure it is, rules that are named
    ("error_of_one_rank", {1}, OWN, set()),
    ("killed", {1}, OWN, set()),
    ("segmentation_fault", {0}, OWN, set()),
    ("one_rank_calls", {0}, WAIT, {"GPU501"}),
    ("one_rank_comes_late", {0}, WAIT, {"GPU501", "GPU412"}),
    ("sizes_differ", {0, 1}, OWN, {"GPU512"}),
    ("objects_meet_numbers", {0}, OWN, {"GPU512"}),
    ("barrier_is_monitored", {0}, WAIT, {"GPU501"}),
    ("unused_parameters", {0, 1}, OWN, {"GPU112"}),
    ("models_differ", {0, 1}, OWN, set()),
    ("nothing_trains", {0, 1}, OWN, {"GPU118"}),
    ("error_in_a_worker", {1}, OWN, set()),
    ("exit_code", {1}, OWN, set()),
    ("worker_exits", {1}, OWN, set()),
    ("worker_crashes", {1}, OWN, set()),
    ("worker_maps_a_file_that_is_cut", {1}, OWN, {"GPU431"}),
    ("too_many_values", {0, 1}, OWN, set()),
    ("one_rank_is_interrupted", {1}, STOPPED, set()),
    ("group_made_twice", {0, 1}, OWN, {"GPU410"}),
    ("attribute_of_the_wrapper", {0, 1}, OWN, {"GPU104"}),
    ("module_of_a_bare_model", {0, 1}, OWN, {"GPU104"}),
    ("refused_by_the_processor", {1}, OWN, set()),
    ("names_of_the_wrapper", {0, 1}, OWN, {"GPU603"}),
    ("variable_changed", {0, 1}, OWN, {"GPU117"}),
    ("loss_of_several_numbers", {0, 1}, OWN, {"GPU108"}),
    ("checkpoint_does_not_fit", {0, 1}, OWN, {"GPU603"}),
    ("port_is_in_use", {1}, OWN, {"GPU425"}),
    ("native_error_with_faulthandler", {1}, OWN, set()),
    ("aborted_by_native_code", {1}, OWN, set()),
    pytest.param("nccl_on_the_cpu", {0, 1}, OWN, set(), marks=pytest.mark.skipif(not ON_CPU, reason="has NCCL")),
    ("option_of_the_launcher", {0, 1}, OWN, {"GPU411"}),
    ("option_is_missing", {0, 1}, OWN, {"GPU421"}),
    ("group_of_some_ranks", {0}, WAIT, {"GPU508"}),
    ("more_than_the_group_has", {0, 1}, WAIT, {"GPU425"}),
    ("worker_is_told_to_end", {1}, STOPPED, set()),
    ("peer_ends_while_connecting", {0}, WAIT, set()),
    ("parameter_ready_twice", {0, 1}, OWN, {"GPU708"}),
    ("sharded_checkpoint_does_not_fit", {0, 1}, OWN, {"GPU934"}),
    ("checkpoint_cannot_be_written", {0, 1}, OWN, set()),
    ("frozen_and_trained_in_one_flat_parameter", {0, 1}, OWN, set()),
    ("step_after_a_backward_without_exchange", {0, 1}, OWN, {"GPU702"}),
    ("dtypes_differ_in_one_flat_parameter", {0, 1}, OWN, set()),
    ("samples_of_unlike_shapes", {0, 1}, OWN, set()),
    ("file_is_missing", {0, 1}, OWN, {"GPU604"}),
    ("package_is_missing", {0, 1}, OWN, set()),
    ("terminal_is_closed", {None}, STOPPED, set()),
    ("launcher_is_stopped", {None}, STOPPED, set()),
]


@pytest.mark.parametrize(("kind", "ranks", "role", "rules"), CASES)
def test_who_failed_first(kind: str, ranks: set[int], role: FailureRole, rules: set[str], tmp_path: Path) -> None:
    found = diagnosed(kind, tmp_path)
    first = found.first
    assert first.by.rank in ranks, found
    assert first.role is role
    assert (first.place.line if first.place else None) == marked(kind)
    named = set() if first.meaning is None else {first.meaning.code, *first.meaning.likely}
    assert rules <= named
    # What follows another is never taken for the cause.
    assert all(each.failure.role is not OWN or each.failure.place == first.place for each in found.following)


def test_a_rank_of_a_spawn(tmp_path: Path) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(
        "import torch.multiprocessing as mp\n\n\n"
        "def work(rank):\n    if rank == 1:\n        raise ValueError('wrong shape')\n\n\n"
        "if __name__ == '__main__':\n    mp.spawn(work, nprocs=2)\n"
    )
    log = tmp_path / "job.log"
    log.write_text(warm.run([str(script)], cwd=tmp_path).stderr)
    first = read_logs([str(log)]).first
    assert (first.by.rank, first.place and first.place.line, first.summary) == (1, 6, "ValueError: wrong shape")


def test_a_rank_of_a_spawn_whose_program_logs_its_errors(tmp_path: Path) -> None:
    """The same error is told twice, and only the second time with the rank."""
    script = tmp_path / "spawned.py"
    script.write_text(
        "import logging\nimport torch.multiprocessing as mp\n\n\n"
        "def work(rank):\n    try:\n        if rank == 1:\n            int('label')\n"
        "    except ValueError:\n        logging.exception('training ended')\n        raise\n\n\n"
        "if __name__ == '__main__':\n    mp.spawn(work, nprocs=2)\n"
    )
    log = tmp_path / "job.log"
    log.write_text(warm.run([str(script)], cwd=tmp_path).stderr)
    found = read_logs([str(log)])
    assert (found.first.by.rank, found.following) == (1, ())


def test_stacks_that_were_taken_of_a_hang(tmp_path: Path) -> None:
    """By faulthandler, after a time, in both ranks, each of which has files of its own."""
    launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--redirects", "3"]
    assert warm.run([*launcher, "--log-dir", str(tmp_path), str(JOB), "stacks_of_a_hang"], cwd=tmp_path).returncode
    found = read_logs([str(tmp_path)])
    assert found.first.role is WAIT
    stood = {each.by.local_rank: each.place for each in [found.first, *(other.failure for other in found.following)]}
    assert set(stood) == {0, 1}
    assert stood[0] is not None
    assert stood[1] is not None
    assert stood[0].line == marked("stacks_of_a_hang")
    assert stood[1].line < stood[0].line


def test_the_error_that_led_to_another_is_the_one_to_explain(tmp_path: Path) -> None:
    first = diagnosed("error_that_led_to_another", tmp_path).first
    assert "does not fit the model" in first.meaning.means


def test_a_rank_of_a_spawn_that_is_killed(tmp_path: Path) -> None:
    script = tmp_path / "spawned.py"
    script.write_text(
        "import os, signal\nimport torch.multiprocessing as mp\n\n\n"
        "def work(rank):\n    if rank == 1:\n        os.kill(os.getpid(), signal.SIGKILL)\n\n\n"
        "if __name__ == '__main__':\n    mp.spawn(work, nprocs=2)\n"
    )
    log = tmp_path / "job.log"
    log.write_text(warm.run([str(script)], cwd=tmp_path).stderr)
    first = read_logs([str(log)]).first
    assert (first.by.rank, first.summary) == (1, "killed by SIGKILL")


def test_a_script_that_is_not_there(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    ended = subprocess.run([sys.executable, "no_such_script.py"], cwd=tmp_path, capture_output=True, text=True)
    log.write_text(ended.stderr)
    first = read_logs([str(log)]).first
    assert "did not find the script" in first.meaning.means


@pytest.mark.parametrize("kind", ["error_of_one_rank", "unused_parameters", "checkpoint_does_not_fit"])
def test_a_log_that_is_cut_off_anywhere(kind: str, tmp_path: Path) -> None:
    """What is left tells less, and nothing else: people show a part of their log."""
    whole = diagnosed(kind, tmp_path)
    assert whole.first.meaning is None or whole.first.place
    log = tmp_path / "job.log"
    lines = log.read_text().splitlines(keepends=True)
    places = set[LoggedFrame]()
    for cut in range(0, len(lines), 3):
        for part in (lines[cut:], lines[:cut]):
            log.write_text("".join(part))
            found = read_logs([str(log)])
            first = found.first
            if first is None or first.role is FailureRole.PEER:
                continue
            assert first.by.rank in {None, whole.first.by.rank, *whole.alike} or not found.sure, (cut, found)
            assert first.meaning in (None, whole.first.meaning), (cut, found)
            places |= {first.place} if first.place else set()
    # A traceback that ends early has the calls that led there.
    mine = {place.line for place in places if place.path == str(JOB)}
    assert marked(kind) in mine
    assert {JOB.read_text().splitlines()[line - 1].strip() for line in mine - {marked(kind)}} <= {
        "main()",
        "kind(dist.get_rank())",
    }


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        ("calls_are_compared", "different collectives: rank 0 allreduce of [4] float; rank 1 broadcast of [4] float"),
        (
            "shapes_are_compared",
            "one collective with different tensors: rank 0 allreduce of [4] float; rank 1 allreduce of [5] float",
        ),
    ],
)
def test_ranks_whose_calls_torch_compares(kind: str, told: str, tmp_path: Path) -> None:
    """With `TORCH_DISTRIBUTED_DEBUG=DETAIL`: who called what is told, and no rank is taken for the first."""
    found = diagnosed(kind, tmp_path)
    assert (found.because, found.sure) == (f"ranks called {told}", True)
    failures = [found.first, *(each.failure for each in found.following)]
    assert marked(kind) in {each.place.line for each in failures if each and each.place}
    assert {*found.alike, *(rank for each in found.following for rank in each.ranks)} == {0, 1}
