"""Who failed first, and how sure that is."""

from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.logs.error_texts.error_text import FailureRole
from tests.logs.samples import PEER, TABLE, TRACEBACK, prefixed, read


def test_the_error_that_others_follow_is_first_wherever_it_stands(tmp_path: Path) -> None:
    found = read(tmp_path, prefixed("[rank0]: ", PEER) + prefixed("[rank1]: ", TRACEBACK))
    assert (found.first.by.rank, found.first.summary, found.sure) == (1, "KeyError: 'label'", True)
    assert found.first.place.line == 20
    assert [(each.ranks, each.failure.role) for each in found.following] == [((0,), FailureRole.PEER)]


def test_all_ranks_that_fail_alike_are_one_failure(tmp_path: Path) -> None:
    found = read(tmp_path, "".join(prefixed(f"[rank{rank}]: ", TRACEBACK) for rank in range(4)))
    assert found.alike == (0, 1, 2, 3)
    assert not found.following


def test_times_say_who_was_first_over_several_files(tmp_path: Path) -> None:
    late = prefixed("2024-05-07T15:51:09.2Z [rank0]: ", TRACEBACK.replace("label", "image").replace("20", "21"))
    early = prefixed("2024-05-07T15:51:09.1Z [rank1]: ", TRACEBACK)
    found = read(tmp_path, late, early)
    assert (found.first.by.rank, found.sure) == (1, True)


def test_without_times_several_files_leave_a_doubt(tmp_path: Path) -> None:
    other = TRACEBACK.replace("label", "image").replace("20", "21")
    assert not read(tmp_path, prefixed("[rank0]: ", other), prefixed("[rank1]: ", TRACEBACK)).sure


def test_a_warning_of_nccl(tmp_path: Path) -> None:
    line = (
        "gpu7:9621:9688 [3] misc/shmutils.cc:112 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-K\n"
    )
    first = read(tmp_path, line).first
    assert (first.by.host, first.by.local_rank) == ("gpu7", 3)
    assert first.meaning.code == "GPU431"


def test_what_native_code_told_before_it_aborted_is_the_error(tmp_path: Path) -> None:
    told = (
        "[E x.cpp:916] [Rank 3] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access\n"
    )
    first = read(tmp_path, f"(Worker pid=70) Fatal Python error: Aborted\n(Worker pid=70) \n{told}").first
    assert (first.by.rank, first.meaning and first.meaning.library) == (3, "cuda")


def test_the_end_of_an_error_is_more_than_that_a_peer_was_lost(tmp_path: Path) -> None:
    """The launcher names the rank that it saw end first, and that was the one that had lost its peer."""
    table = TABLE.replace("2 (local_rank: 2)", "0 (local_rank: 0)")
    found = read(tmp_path, "[rank1]: KeyError: 'label'\n" + prefixed("[rank0]: ", PEER) + "\n" + table)
    assert (found.first.by.rank, found.sure) == (1, False)


def test_whose_the_loss_of_a_peer_was_is_not_guessed(tmp_path: Path) -> None:
    ends = "".join(f"failed (exitcode: 1) local_rank: {rank} (pid: 9) of binary: python\n" for rank in range(2))
    found = read(tmp_path, PEER + ends)
    assert (found.first.by.local_rank, found.first.text) == (0, "exit code 1")


def test_nccl_names_the_gpu_and_python_the_rank(tmp_path: Path) -> None:
    warning = "node1:22:22 [0] bootstrap.cc:48 NCCL WARN Bootstrap : no socket interface found\n"
    first = read(tmp_path, warning + prefixed("[rank0]: ", TRACEBACK.rpartition("KeyError")[0])).first
    assert (first.by.rank, first.by.host, first.place and first.place.line) == (0, "node1", 20)
    assert "interface" in first.meaning.means if first.meaning else False


def test_a_kernel_names_no_rank_and_python_does(tmp_path: Path) -> None:
    kernel = "/x/Indexing.cu:1284: indexSelect: block: [37,0,0] Assertion `srcIndex < size` failed.\n"
    first = read(tmp_path, kernel + prefixed("[rank3]: ", TRACEBACK.rpartition("KeyError")[0])).first
    assert (first.by.rank, first.place and first.place.line) == (3, 20)
    assert "Assertion" in first.text


def test_a_log_without_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "job.log"
    log.write_text("Epoch 1: loss 0.4\nrank: 3\nhost: gpu\n")
    assert cli.main(["read", str(log)]) == 0
    assert "No error was found in this log." in capsys.readouterr().out


ABORTED = """terminate called after throwing an instance of 'gloo::EnforceNotMet'
  what():  [enforce fail at gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4.
"""


def _entry(rank: int, code: int, signal: str) -> str:
    return (
        f"[{rank}]:\n  time      : 2026-11-28_16:07:04\n  host      : localhost\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {50 + rank})  ({signal})\n"
        f"  error_file: <N/A>\n  traceback : Signal {-code} ({signal}) received by PID {50 + rank}\n"
    )


def test_of_what_a_scheduler_tells_the_reason_is_first(tmp_path: Path) -> None:
    told = "slurmstepd: error: *** {} ON n1 CANCELLED AT 2021-03-15T17:50:23{} ***\n"
    first = read(tmp_path, told.format("STEP 3.0", "") + told.format("JOB 3", " DUE TO PREEMPTION")).first
    assert "higher priority" in first.meaning.means


def test_where_a_bus_error_met_the_only_thread_that_the_log_has(tmp_path: Path) -> None:
    """Told by a library that catches the signal, and by Python, in a log that is cut off before its first call."""
    calls = '  File "/x/site-packages/torch/a.py", line 9 in barrier\n  File "/job/a.py", line 7 in setup\n'
    text = "[node1:2498 :0:2599] Caught signal 7 (Bus error: nonexistent address)\nFatal Python error: Bus error\n"
    found = read(tmp_path, f"{text}\nThread 0x00007f8b (most recent call first):\n{calls}")
    assert (found.first.place.path, found.first.place.line) == ("/job/a.py", 7)
    assert not found.following


def test_what_a_process_said_before_it_was_aborted_is_its_error(tmp_path: Path) -> None:
    """Though the launcher has stopped another one, which had no time to say anything."""
    table = f"Failures:\n{_entry(1, -15, 'SIGTERM')}-----\nRoot Cause (first observed failure):\n"
    found = read(tmp_path, f"{ABORTED}train.py FAILED\n-----\n{table}{_entry(0, -6, 'SIGABRT')}=====\n")
    assert found.first.by.rank == 0
    assert found.first.meaning.likely[:2] == ("GPU501", "GPU512")
    assert [each.failure.by.rank for each in found.following] == [1]


def test_who_was_told_to_end_before_others_lost_it_is_first(tmp_path: Path) -> None:
    """torchrun looks at its ranks in their order, and names one that had lost its peer."""
    stopped = TRACEBACK.replace(
        "KeyError: 'label'", "RuntimeError: DataLoader worker (pid 7) is killed by signal: Terminated. "
    )
    table = f"Failures:\n{_entry(1, 1, 'x')}-----\nRoot Cause (first observed failure):\n{_entry(0, 1, 'x')}=====\n"
    table = table.replace("  (x)", "").replace("Signal -1 (x) received by PID", "none of")
    texts = prefixed("[rank1]: ", stopped) + prefixed("[rank0]: ", PEER)
    first = read(tmp_path, f"{texts}train.py FAILED\n-----\n{table}").first
    assert (first.by.rank, first.role) == (1, FailureRole.STOPPED)


def test_a_port_that_is_told_by_native_code_and_by_python(tmp_path: Path) -> None:
    refused = "The server socket has failed to listen on any local network address."
    text = TRACEBACK.replace("KeyError: 'label'", f"torch.distributed.DistNetworkError: {refused}")
    found = read(
        tmp_path, f"[E socket.cpp:500] [c10d] {refused}\n-- Process 0 terminated with the following error:\n{text}"
    )
    assert (found.first.by.rank, found.first.place.line, found.following) == (0, 20, ())


def test_a_thread_of_a_loader_follows_what_it_serves(tmp_path: Path) -> None:
    thread = """Exception in thread Thread-1 (_pin_memory_loop):
Traceback (most recent call last):
  File "/opt/lib/python3.11/site-packages/torch/utils/data/_utils/pin_memory.py", line 53, in _pin_memory_loop
    do_one_step()
  File "/opt/lib/python3.11/multiprocessing/connection.py", line 379, in _recv
    chunk = read(handle, remaining)
ConnectionResetError: [Errno 104] Connection reset by peer
"""
    found = read(tmp_path, f"{thread}{TRACEBACK}")
    assert (found.first.summary, found.following) == ("KeyError: 'label'", ())
    alone = read(tmp_path, thread).first
    assert alone.role is FailureRole.PEER


def test_a_warning_of_nccl_is_why_the_call_of_its_rank_failed(tmp_path: Path) -> None:
    warning = "node1:77:77 [0] bootstrap.cc:37 NCCL WARN Bootstrap : no socket interface found\n"
    failed = TRACEBACK.replace("KeyError: 'label'", "RuntimeError: NCCL error in: c10d.cpp:290, internal error")
    found = read(tmp_path, f"{warning}-- Process 0 terminated with the following error:\n{failed}")
    assert (found.first.by.rank, found.first.by.host, found.first.place.line) == (0, "node1", 20)
    assert "network interface" in found.first.meaning.means
    assert not found.following


def test_an_abort_of_a_process_that_was_done(tmp_path: Path) -> None:
    text = "terminate called without an active exception\nFatal Python error: Aborted\n\n"
    first = read(tmp_path, prefixed("[rank0]:", text)).first
    assert (first.by.rank, first.summary) == (0, "terminate called without an active exception")
    after = read(tmp_path, prefixed("[rank0]:", TRACEBACK + text)).first
    assert after.summary == "KeyError: 'label'"


def test_where_other_ranks_errors_are_cut_off_nobody_is_surely_first(tmp_path: Path) -> None:
    cut = TRACEBACK.rpartition("KeyError")[0]
    found = read(tmp_path, prefixed("[rank4]: ", TRACEBACK) + prefixed("[rank2]: ", cut.replace("20", "31")))
    assert (found.first.by.rank, found.sure) == (4, False)


def test_times_of_two_nodes_that_are_close_leave_a_doubt(tmp_path: Path) -> None:
    told = TRACEBACK.replace("label", "image").replace("20", "21")
    late = prefixed("2024-05-07T15:51:09.2Z [pod/worker-0/main] [rank0]: ", told)
    for second, sure in (("09", False), ("07", True)):
        early = prefixed(f"2024-05-07T15:51:{second}.1Z [pod/worker-1/main] [rank1]: ", TRACEBACK)
        found = read(tmp_path, late, early)
        assert (found.first.by.rank, found.sure) == (1, sure)


def test_whose_error_is_told_still_ran_when_the_launcher_looked(tmp_path: Path) -> None:
    """It is not in the table of the launcher, which saw another end first."""
    found = read(tmp_path, prefixed("[rank4]: ", TRACEBACK) + "\n" + TABLE)
    assert (found.first.by.rank, found.first.summary, found.sure) == (2, "KeyError: 'label'", False)
    assert "this one is of rank 4" in found.because
