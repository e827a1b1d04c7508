"""What launchers, schedulers and Ray say of how processes ended."""

from pathlib import Path

import pytest

from gpudoctor import cli
from gpudoctor.logs.endings import OUT_OF_MEMORY
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.speakers import Speaker
from tests.logs.samples import PEER, TABLE, TRACEBACK, prefixed, read


def test_a_table_of_which_only_the_end_is_left(tmp_path: Path) -> None:
    first = read(tmp_path, "  rank      : 3 (local_rank: 1)\n  exitcode  : -11 (pid: 6)\n  error_file: <N/A>\n").first
    assert (first.by.rank, first.summary) == (3, "killed by SIGSEGV")


def test_a_launcher_that_shows_the_tracebacks_of_ranks(tmp_path: Path) -> None:
    """The table of a program that is decorated with `@record`, where ranks print nothing themselves."""

    def entry(rank: int, traceback: str) -> str:
        members = f"  time      : 2026-11-23_21:52:10\n  host      : node1\n  rank      : {rank} (local_rank: {rank})\n"
        ends = f"  exitcode  : 1 (pid: 88{rank}) \n  error_file: /tmp/error.json\n"
        return f"[{rank}]:\n{members}{ends}  traceback : {prefixed('  ', traceback).lstrip()}  \n"

    table = f"Failures:\n{entry(0, PEER)}----\nRoot Cause (first observed failure):\n{entry(1, TRACEBACK)}====\n"
    found = read(tmp_path, table)
    assert (found.first.by.rank, found.first.place and found.first.place.line, found.sure) == (1, 20, True)
    assert [each.ranks for each in found.following] == [(0,)]


@pytest.mark.parametrize("told", ["SIGABRT received at time=1734086759", "SIGSEGV (@0x0) received by PID 7315 (TID 1)"])
def test_a_worker_of_ray_that_ends_in_native_code(
    told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / "job.log"
    log.write_text(f"(RayTrainWorker pid=7315) *** {told} ***\n")
    assert cli.main(["read", str(log)]) == 1
    assert "RayTrainWorker pid=7315" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "speaker", "summary"),
    [
        ("Exception: process 3 terminated with signal SIGKILL", Speaker(rank=3), "killed by SIGKILL"),
        ("x.ProcessExitedException: process 3 terminated with exit code 2", Speaker(rank=3), "exit code 2"),
        ("Child process 71952 (local_rank 1) FAILED (exitcode -11)", Speaker(local_rank=1), "killed by SIGSEGV"),
        # The command is that of the process which was started last, whoever failed.
        (
            "subprocess.CalledProcessError: Command '['python', '--local_rank=7']' died with <Signals.SIGSEGV: 11>.",
            Speaker(),
            "killed by SIGSEGV",
        ),
        ("srun: error: node1: tasks 2-3,7: Exited with exit code 9", Speaker(rank=2, tag="task"), "exit code 9"),
        (
            "[rank: 2] Child process with PID 1662142 terminated with code 1. Forcefully terminating all others",
            Speaker(rank=2),
            "exit code 1",
        ),
        # As people shorten it.
        ("-- Process 3 terminated with the following error:\n.\n.\nAssertionError", Speaker(rank=3), "AssertionError"),
        ("ERROR:Process 3 terminated with the following error:\nOSError: x", Speaker(rank=3), "OSError: x"),
        (
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n====\ntrain.py FAILED",
            Speaker(),
            "ended; the log does not tell how",
        ),
        ("/job/go.sh: line 28:  8156 Killed      python3 main.py", Speaker(tag="pid 8156"), "killed by SIGKILL"),
        ("ERROR:composer.cli.launcher:Rank 2 crashed with exit code -7.", Speaker(rank=2), "killed by SIGBUS"),
        (
            "ERROR:composer.cli.launcher:Global rank 3 (PID 20) exited with code 1",
            Speaker(rank=3),
            "exit code 1",
        ),
        ("ERROR Worker VllmWorkerProcess pid 32 died, exit code: -9", Speaker(tag="pid 32"), "killed by SIGKILL"),
        ("/job/go.sh: line 28: 8156 Aborted    (core dumped) python", Speaker(tag="pid 8156"), "killed by SIGABRT"),
        (
            "events\tPod: ml.train-worker-0 exited with code 137\t{}",
            Speaker(host="train-worker-0"),
            "killed by SIGKILL",
        ),
        (
            "> -:6015:6224 [1] misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer b<5>",
            Speaker(local_rank=1, host="-", tag="pid=6015"),
            "misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer b<5>",
        ),
    ],
)
def test_what_launchers_say(text: str, speaker: Speaker, summary: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"{text}\n").first
    assert (first.by, first.summary) == (speaker, summary)


def test_whoever_started_the_launcher_fails_after_it(tmp_path: Path) -> None:
    log = (
        "Traceback (most recent call last):\n"
        '  File "/opt/site-packages/torch/distributed/launcher/api.py", line 269, in launch_agent\n'
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n====\ntrain.py FAILED\n----\n"
        f"{TABLE}Traceback (most recent call last):\n"
        '  File "/job/start.py", line 8, in main\n    subprocess.run(command, check=True)\n'
    )
    first = read(tmp_path, log).first
    assert (first.by.rank, first.place, first.summary) == (2, None, "exit code 1")


def test_whoever_started_the_launcher_raises_an_error_of_its_own(tmp_path: Path) -> None:
    ended = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 1 (pid: 178) of"
    starter = TRACEBACK.replace("train.py", "start.py").replace("KeyError: 'label'", "JobError: trainer failed")
    first = read(tmp_path, f"{TRACEBACK}{ended}\n{starter}").first
    assert (first.by.local_rank, first.place.path, first.text) == (1, "/job/train.py", "KeyError: 'label'")


def test_a_notebook_ends_after_the_launcher_that_it_has_started(tmp_path: Path) -> None:
    """The program says its chain once more without its rank; no file of the user's is called by the notebook."""
    begin = "Traceback (most recent call last):\n"
    handled = "During handling of the above exception, another exception occurred:"
    chain = f"{begin}OSError: [Errno 28] No space left on device\n\n{handled}\n\n{TRACEBACK}"
    ended = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 1 (pid: 178) of"
    tool = '  File "/opt/site-packages/papermill/iorw.py", line 215, in write\n    f.write(buf)\nOSError: no\n'
    text = f"{chain}{prefixed('[rank1]: ', chain)}{ended}\n{begin}{tool}"
    found = read(tmp_path, "".join(f"704.7s\t{at}\t{line}\n" for at, line in enumerate(text.splitlines(), 1)))
    assert (found.first.by.rank, found.first.place.line, found.following) == (1, 20, ())


def test_a_tool_ends_after_the_launcher_of_a_process_that_could_say_nothing(tmp_path: Path) -> None:
    ended = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: -9) local_rank: 4 (pid: 178) of"
    tool = (
        'Traceback (most recent call last):\n  File "/opt/site-packages/accelerate/test.py", line 54, in run\n'
        "RuntimeError: 'accelerate-launch script.py' failed with returncode 1\n"
    )
    found = read(tmp_path, f"{ended}\n{tool}")
    assert (found.first.by.local_rank, found.first.summary, found.following) == (4, "killed by SIGKILL", ())


def test_shared_memory_that_is_full_is_no_disk(tmp_path: Path) -> None:
    """The worker says first that it could not write, and torch why."""
    killed = TRACEBACK.replace(
        "KeyError: 'label'", "RuntimeError: DataLoader worker (pid 9) is killed by signal: Bus error. "
    )
    first = read(tmp_path, f"OSError: [Errno 28] No space left on device\n{killed}").first
    assert (first.place.line, "shared memory" in first.meaning.means) == (20, True)
    alone = read(tmp_path, f"OSError: [Errno 28] No space left on device\n{TRACEBACK}").first
    assert "disk" in alone.meaning.means


def test_whoever_started_the_launcher_is_cut_off(tmp_path: Path) -> None:
    ended = "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 178) of"
    starter = 'Traceback (most recent call last):\n  File "/job/start.py", line 8, in main\n    launch(command)\n'
    first = read(tmp_path, f"{ended}\n{starter}").first
    assert (first.by.local_rank, first.place, first.summary) == (0, None, "exit code 1")


def test_a_port_is_taken_where_no_address_was_free(tmp_path: Path) -> None:
    taken = (
        "[W socket.cpp:426] [c10d] The server socket has failed to bind to {} (errno: 98 - Address already in use).\n"
    )
    found = read(tmp_path, taken.format("[::]:29500") + taken.format("0.0.0.0:29500"))
    assert (found.first.meaning.likely[0], found.sure) == ("GPU425", False)
    none = "[E socket.cpp:462] [c10d] The server socket has failed to listen on any local network address.\n"
    found = read(tmp_path, taken.format("[::]:29500") + none)
    assert (found.first.at.line, found.sure) == (2, True)
    assert found.first.meaning.likely[0] == "GPU425"
    refused = taken.replace("98 - Address already in use", "13 - Permission denied")
    first = read(tmp_path, refused.format("[::]:80") + none).first
    assert "only root" in first.meaning.means
    alone = read(tmp_path, none).first
    assert (alone.meaning.code, "mostly another process" in alone.meaning.means) == ("", True)


def test_nccl_tells_later_which_rank_a_process_is(tmp_path: Path) -> None:
    warned = (
        "node1:{}:99 [0] transport/p2p.cc:238 NCCL WARN failed to open IPC handle : 217 peer access is not supported\n"
    )
    joined = "node1:{}:98 [0] NCCL INFO comm 0x7f01 rank {} nranks {} cudaDev 0 busId 2d000 - Init COMPLETE\n"
    log = warned.format(41) + joined.format(40, 0, 2) + joined.format(41, 1, 2) + joined.format(41, 0, 1)
    first = read(tmp_path, log).first
    assert (first.by.rank, first.by.local_rank) == (1, None)
    # Two processes have GPU 0, which is therefore not the local rank of any.
    first = read(tmp_path, warned.format(40) + warned.format(41)).first
    assert (first.by.rank, first.by.local_rank, first.by.tag) == (None, None, "pid=40")
    first = read(tmp_path, warned.format(40)).first
    assert first.by.local_rank == 0


def test_tasks_of_a_scheduler(tmp_path: Path) -> None:
    found = read(tmp_path, "srun: error: node1: tasks 2-3,7: Exited with exit code 9\n")
    assert found.alike == (2, 3, 7)


def test_tasks_that_are_launchers_which_another_one_had_left(tmp_path: Path) -> None:
    log = (
        '  File "/opt/site-packages/torch/distributed/elastic/rendezvous/dynamic_rendezvous.py", line 6, in run\n'
        "    raise RendezvousClosedError()\ntorch.distributed.elastic.rendezvous.api.RendezvousClosedError\n"
        "srun: error: node1: task 1: Exited with exit code 1\nsrun: error: node2: task 2: Exited with exit code 1\n"
    )
    found = read(tmp_path, log)
    assert (found.first.role, found.first.by) == (FailureRole.PEER, Speaker(tag="task 1"))
    assert found.first.text == "torch.distributed.elastic.rendezvous.api.RendezvousClosedError"


def test_tasks_that_the_scheduler_has_ended(tmp_path: Path) -> None:
    log = "slurmstepd: error: *** STEP 60.0 ON node1 CANCELLED AT 2024 ***\nsrun: error: node1: task 0: Terminated\n"
    found = read(tmp_path, log)
    assert found.first.role is FailureRole.STOPPED
    assert [each.ranks for each in found.following] == [(0,)]


@pytest.mark.parametrize(("local", "sure"), [(1, False), (2, True), (0, True)])
def test_the_launcher_saw_another_process_fail_than_the_one_that_tells(local: int, sure: bool, tmp_path: Path) -> None:
    """Rank 2 is never the second process of a node, of whatever size."""
    launcher = f"E api.py:869] failed (exitcode: 1) local_rank: {local} (pid: 29) of binary: python"
    found = read(tmp_path, f"[rank2]: RuntimeError: Expected all tensors to be on the same device\n{launcher}\n")
    assert (found.first.by.rank, found.sure) == (2, sure)


def test_who_ended_long_before_the_others_of_another_launcher_ended_first(tmp_path: Path) -> None:
    later = TABLE.replace("2 (local_rank: 2)", "0 (local_rank: 0)").replace("16:14:25", "16:15:16")
    found = read(tmp_path, later + TABLE)
    assert (found.alike, [each.ranks for each in found.following]) == ((2,), [(0,)])


def test_tasks_that_are_launchers(tmp_path: Path) -> None:
    found = read(tmp_path, TABLE + "srun: error: node1: task 0: Exited with exit code 1\n")
    assert (found.alike, found.sure) == ((2,), False)


def test_a_table_without_its_root_cause(tmp_path: Path) -> None:
    found = read(tmp_path, TABLE.replace("Root Cause (first observed failure):", "Failures:"))
    assert (found.alike, found.sure) == ((2,), False)


def test_whose_error_it_is_says_the_launcher(tmp_path: Path) -> None:
    launcher = (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 5) of binary"
    )
    first = read(tmp_path, f"{TRACEBACK}{launcher}\n").first
    assert (first.by.local_rank, first.summary) == (3, "KeyError: 'label'")


@pytest.mark.parametrize(
    ("told", "rank", "summary"),
    [
        (
            "mpirun noticed that process rank 1 with PID 4 on node a exited on signal 9 (Killed).",
            1,
            "killed by SIGKILL",
        ),
        (
            "prterun noticed that process rank 7 on node a exited on signal 6 (Aborted).",
            7,
            "killed by SIGABRT",
        ),
        ("  Process name: [[29973,1],2]\n  Exit code:    1", 2, "exit code 1"),
        ("  Process name: [[29973,1],2]\n  Exit code:    139", 2, "killed by SIGSEGV"),
        ("MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 1.", 2, "exit code 1"),
        ("MPI_ABORT was invoked on rank 3 in communicator W\n  Proc: [[4,1],3]\n  Errorcode: -1", 3, "exit code 255"),
        ("application called MPI_Abort(MPI_COMM_WORLD, 911) - process 5", 5, "exit code 143"),
        ("Process name: 1\nExit code: 1", 1, "exit code 1"),
        (
            "<> [2021-12-07 10:43:01] 087c0ee7 || Exit code: 1\n<> [2021-12-07 10:43:01] 087c0ee7 || Process name: 3",
            3,
            "exit code 1",
        ),
        ("Exit code: 7\nstarted again\nProcess name: [[1,1],2]\n  Exit code: 1", 2, "exit code 1"),
    ],
)
def test_what_mpirun_says_of_the_first(told: str, rank: int, summary: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"Primary job  terminated normally, but 1 process returned\n{told}\n").first
    assert (first.by.rank, first.summary) == (rank, summary)


@pytest.mark.parametrize(
    ("status", "summary", "role"),
    [
        (3221225477, "killed by an access violation", FailureRole.OWN),
        (-1073741819, "killed by an access violation", FailureRole.OWN),
        (3221225786, "killed by SIGTERM (Ctrl-C)", FailureRole.STOPPED),
    ],
)
def test_what_exit_codes_of_windows_mean(status: int, summary: str, role: FailureRole, tmp_path: Path) -> None:
    first = read(
        tmp_path, f"subprocess.CalledProcessError: Command '['python']' returned non-zero exit status {status}."
    ).first
    assert (first.summary, first.role) == (summary, role)
    assert first.meaning is not None


def test_tasks_for_which_memory_was_out(tmp_path: Path) -> None:
    log = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4.0. Some of the step tasks have been OOM Killed.\n"
        "srun: error: node7: tasks 1-3: Out Of Memory\n"
        "slurmstepd: error: *** STEP 4.0 ON node7 CANCELLED AT 2023-12-05T07:16:01 ***\n"
    )
    found = read(tmp_path, log)
    assert found.alike == (1, 2, 3)
    assert found.first.meaning is OUT_OF_MEMORY


def test_who_cannot_connect_tries_again(tmp_path: Path) -> None:
    tries = (
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [node0]:43461 (errno: 113 - No route to "
        "host).\n"
    )
    alone = read(tmp_path, tries).first
    assert alone.role is FailureRole.WAIT
    assert read(tmp_path, tries, TRACEBACK).first is not None
    assert "KeyError" in str(read(tmp_path, tries, TRACEBACK).first)


DIED = (
    "(raylet) A worker died or was killed while executing a task. Worker ID: f8ab Worker IP address: 10.0.0.7 Worker "
    "port: 10110 Worker PID: 912 Worker exit type: SYSTEM_ERROR\n"
)


def test_a_worker_of_ray_that_ended_is_not_the_driver(tmp_path: Path) -> None:
    found = read(tmp_path, DIED + TRACEBACK.rpartition("KeyError")[0])
    assert (found.first.by.tag, found.first.by.host, found.first.place) == ("pid=912", "10.0.0.7", None)


def test_who_had_called_a_worker_of_ray_does_not_have_its_number(tmp_path: Path) -> None:
    found = read(
        tmp_path, "ray.exceptions.ActorDiedError: The actor died unexpectedly.\n    class_name: Actor\n    pid: 87\n"
    )
    assert (found.first.role, found.first.by) == (FailureRole.PEER, Speaker())
    assert found.because == "the process that ended first (pid=87) is not in this log"


def test_ranks_that_lost_one_which_the_launcher_saw_fail(tmp_path: Path) -> None:
    lost = "".join(prefixed(f"[rank{rank}]: ", PEER) for rank in (3, 5))
    saw = "E1 torch/distributed/elastic/multiprocessing/api.py:826] failed (exitcode: 1) local_rank: 7 (pid: 9) of x\n"
    first = read(tmp_path, lost + saw).first
    assert (first.by.local_rank, first.summary) == (7, "exit code 1")


@pytest.mark.parametrize("cut", ["", prefixed("[rank3]: ", TRACEBACK.rpartition("KeyError")[0])])
def test_a_rank_that_another_one_says_is_gone(cut: str, tmp_path: Path) -> None:
    told = "[rank2]: . This may indicate a possible application crash on rank 0 or a network set up issue.\n"
    found = read(tmp_path, told + cut)
    assert (found.first.by.rank, found.first.role) == (2, FailureRole.PEER)
    assert found.because == "the process that ended first (rank 0) is not in this log"


def test_what_stands_behind_the_error_of_a_rank_that_lost_another_is_not_first(tmp_path: Path) -> None:
    cut = prefixed("[rank5]: ", TRACEBACK.rpartition("KeyError")[0])
    before, behind = (
        read(tmp_path, cut + prefixed("[rank3]: ", PEER)),
        read(tmp_path, prefixed("[rank3]: ", PEER) + cut),
    )
    assert before.first is not None
    assert (before.first.by.rank, behind.first.by.rank) == (5, 3)


def test_an_error_without_a_name_of_one_of_several_tasks(tmp_path: Path) -> None:
    found = read(tmp_path, f"{TRACEBACK}srun: error: n1: tasks 2-7: Exited with exit code 1\n")
    assert (found.first.by, [each.ranks for each in found.following]) == (Speaker(), [(2, 3, 4, 5, 6, 7)])


def test_an_error_that_advice_quotes_is_no_failure(tmp_path: Path) -> None:
    advice = "If you get `CUDA error: invalid device function` errors, the above might be the cause\n"
    assert read(tmp_path, advice).first is None


def test_a_warning_of_the_scheduler_is_no_failure(tmp_path: Path) -> None:
    warned = "slurmstepd: error: couldn't chdir to `/job': No such file or directory: going to /tmp instead\n"
    assert read(tmp_path, warned).first is None


def test_ranks_that_timed_out_where_the_line_of_the_watchdog_is_missing(tmp_path: Path) -> None:
    line = (
        "[1803] [rank{0}]:[E602 11:17:52.5 ProcessGroupNCCL.cpp:1743] [PG ID 0 PG GUID 0(default_pg) Rank {0}] "
        "Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the "
        "debug info. Last enqueued NCCL work: 6, last completed NCCL work: 6.\n"
    )
    found = read(tmp_path, line.format(1) + line.format(6))
    assert (found.alike, found.first.role) == ((1, 6), FailureRole.WAIT)


def test_a_job_that_the_scheduler_took_back_before_its_tasks_ended(tmp_path: Path) -> None:
    back = "slurmstepd: error: *** JOB 6 ON n1 CANCELLED AT 2022-08-12T02:06:12 DUE TO JOB REQUEUE ***\n"
    end = "srun: error: n1: tasks 2-3: Exited with exit code 1\n"
    stopped, failed = read(tmp_path, back + end).first, read(tmp_path, end + back).first
    assert stopped is not None
    assert (stopped.role, failed.role) == (FailureRole.STOPPED, FailureRole.OWN)


def test_what_a_launcher_says_when_it_ends_its_processes(tmp_path: Path) -> None:
    ends = "W1 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 15 closing signal SIGTERM\n"
    alone, after = read(tmp_path, ends).first, read(tmp_path, ends + TRACEBACK).first
    assert alone is not None
    assert (alone.role, after.summary) == (FailureRole.STOPPED, "KeyError: 'label'")


def test_the_only_rank_of_a_node(tmp_path: Path) -> None:
    said = "INFO:torch.distributed.elastic.agent.server.api:[default] Rendezvous complete for workers. Result:\n"
    first = read(tmp_path, f"{said}  local_ranks=[0]\n  global_ranks=[5]\n{TRACEBACK}").first
    assert first.by.rank == 5


def test_a_launcher_that_has_lost_the_first_node(tmp_path: Path) -> None:
    lost = (
        "WARNING:torch.distributed.elastic.rendezvous.dynamic_rendezvous:The node 'node1.local_34_0' has failed to "
        "send a keep-alive heartbeat to the rendezvous 'job' due to an error of type RendezvousConnectionError.\n"
    )
    first = read(tmp_path, lost).first
    assert (first.by.host, first.role) == ("node1.local", FailureRole.PEER)


def test_an_exit_that_came_later_is_not_alike(tmp_path: Path) -> None:
    one = "  time      : 2024-08-13_10:20:5{0}\n  rank      : {1} (local_rank: {1})\n  exitcode  : 1 (pid: 7)\n"
    text = f"[1]:\n{one.format(9, 3)}Root Cause (first observed failure):\n[0]:\n{one.format(4, 1)}"
    found = read(tmp_path, text)
    assert (found.first.by.rank, found.alike) == (1, (1,))


def test_the_events_of_an_old_launcher_name_the_ranks_that_failed(tmp_path: Path) -> None:
    event = (
        '{{"name": "torchelastic.worker.status.{state}", "source": "WORKER", "timestamp": 0, "metadata": {{"run_id": '
        '"none", "global_rank": {rank}, "group_rank": 0, "hostname": "node7", "raw_error": "{{}}"}}}}\n'
    )
    text = event.format(state="SUCCEEDED", rank=2) + "".join(event.format(state="FAILED", rank=rank) for rank in (3, 4))
    found = read(tmp_path, text)
    assert (found.alike, found.first.by.host) == ((3, 4), "node7")
    assert "does not tell why" in (found.first.explained.means if found.first.explained else "")


@pytest.mark.parametrize(
    ("end", "word"),
    [
        ("exitcode: 1", "error of its own"),
        ("exitcode: 2", "refuses"),
        ("exitcode: 127", "command"),
        ("exitcode: 137", "killed"),
    ],
)
def test_what_an_exit_code_says(end: str, word: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"ERROR:torch.distributed.elastic:failed ({end}) local_rank: 1 (pid: 7)\n").first
    assert word in first.explained.means


@pytest.mark.parametrize(
    "line",
    [
        "Loss is nan, stopping training",
        "free(): invalid pointer",
        "double free or corruption (!prev)",
        "/var/spool/slurmd/job9/slurm_script: line 12: torchrun: command not found",
        "python: /lib/x86_64-linux-gnu/libc.so.6: version `GLIBC_2.28' not found (required by /x/python)",
        "/usr/bin/python3: No module named torch.distributed.run",
        "docker: Error response from daemon: could not select device driver with capabilities: [[gpu]].",
        "There are not enough slots available in the system to satisfy the 8 slots",
        "node1: Permission denied (publickey,password).",
        "srun: error: Unable to create step for job 12: Requested nodes are busy",
    ],
)
def test_a_line_that_says_by_itself_why_nothing_was_trained(line: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"epoch 1\n{line}\n").first
    assert first.meaning is not None


def test_a_scheduler_that_tells_of_memory(tmp_path: Path) -> None:
    text = "slurmstepd: error: Detected 1 oom_kill event in StepId=43622791.0. Some of them.\n"
    found = read(tmp_path, prefixed("[rank0]: ", PEER) + text)
    assert "memory" in (found.first.meaning.means if found.first.meaning else "")


def test_a_job_that_was_told_to_end(tmp_path: Path) -> None:
    first = read(
        tmp_path, "slurmstepd: error: *** JOB 912 ON gpu7 CANCELLED AT 2024-05-07T15:51:09 DUE TO TIME LIMIT ***\n"
    ).first
    assert first.role is FailureRole.STOPPED


def test_a_launcher_that_speaks_in_the_middle_of_a_line(tmp_path: Path) -> None:
    launcher = "E1128 21:12:50 3139541 api.py:874] failed (exitcode: 1) local_rank: 0 (pid: 12) of binary: python"
    found = read(tmp_path, prefixed("[rank0]: ", PEER) + f"[rank1]: {launcher}\n")
    assert (found.first.by.rank, found.first.role, found.following) == (0, FailureRole.PEER, ())


def test_a_launcher_of_deepspeed(tmp_path: Path) -> None:
    line = "[2023-04-14 13:11:27,885] [ERROR] [launch.py:434] ['python3', 'main.py'] exits with return code = -9"
    found = read(tmp_path, line + "\n")
    assert found.first.summary == "killed by SIGKILL"


def test_an_error_of_a_launcher_that_is_told_to_end_is_no_failure(tmp_path: Path) -> None:
    handler = (
        '  File "/x/site-packages/deepspeed/launcher/runner.py", line 548, in sigkill_handler\n'
        "    result_kill = subprocess.Popen(kill_cmd, env=env)\nNameError: free variable 'kill_cmd'\n"
    )
    found = read(tmp_path, f"Traceback (most recent call last):\n{handler}")
    assert found.first.role is FailureRole.STOPPED


def test_what_a_shell_and_the_scheduler_say_of_one_process(tmp_path: Path) -> None:
    log = "go.sh: line 28:  8156 Killed   python3 a.py\nslurmstepd: error: Detected 1 oom-kill event(s) in StepId=1\n"
    found = read(tmp_path, log)
    assert (found.first and found.first.meaning, found.sure, found.following) == (OUT_OF_MEMORY, True, ())


@pytest.mark.parametrize(
    "said",
    ["2024-07-14 12:19:55 - LOGS    - Keyboard interruption. Exiting from early training",
     "Detected KeyboardInterrupt, attempting graceful shutdown ..."],
)  # fmt: skip
def test_a_program_that_says_that_it_was_stopped(said: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"step 1\n{said}\n").first
    assert first.role is FailureRole.STOPPED
    assert "Ctrl-C" in first.meaning.means


@pytest.mark.parametrize("front", ["", "704.7s\t1472\t"])
def test_a_table_whose_blanks_are_gone(front: str, tmp_path: Path) -> None:
    text = "".join(f"{front}{line.strip()}\n" for line in TABLE.splitlines())
    first = read(tmp_path, text).first
    assert (first.by.rank, first.text, first.root) == (2, "exit code 1", True)


@pytest.mark.parametrize("front", ["", "=== train.py FAILED --- Failures: <NO_OTHER_FAILURES> --- "])
def test_a_table_that_a_page_has_drawn_into_one_line(front: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"{front}{' '.join(TABLE.split())}\n").first
    assert (first.by.rank, first.by.host, first.text, first.root) == (2, "node1", "exit code 1", True)


def test_columns_of_a_program_are_no_table_of_a_launcher(tmp_path: Path) -> None:
    assert read(tmp_path, "time: 1.041\nrank: 3 of 4\nexitcode: 1\n").first is None


def test_a_table_that_begins_in_the_middle_of_a_name(tmp_path: Path) -> None:
    first = read(tmp_path, f"ildFailedError:\n=====\ntrain.py FAILED\n-----\n{TABLE}").first
    assert (first.by.rank, first.root) == (2, True)


@pytest.mark.parametrize(
    ("command", "local"),
    [
        ("'-u', 'train.py', '--local_rank=0']' returned non-zero exit status 1.", 0),
        # The last one that was started; another may have failed.
        ("'-u', 'train.py', '--local_rank=3']' returned non-zero exit status 1.", None),
    ],
)
def test_the_only_process_of_a_launcher(command: str, local: int | None, tmp_path: Path) -> None:
    first = read(tmp_path, f"subprocess.CalledProcessError: Command '['/usr/bin/python', {command}\n").first
    assert (first.text, first.by.local_rank) == ("exit code 1", local)


def test_a_command_that_the_program_called_is_its_own_error(tmp_path: Path) -> None:
    """And of the error that came of it, the calls are known."""
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/lib/python3.10/site-packages/torch/utils/cpp_extension.py", line 2104, in _run_ninja_build\n'
        "subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n\n"
        "The above exception was the direct cause of the following exception:\n\n"
        'Traceback (most recent call last):\n  File "/job/train.py", line 348, in main\n    trainer.train()\n'
    )
    first = read(tmp_path, prefixed("[rank0]: ", text)).first
    assert (first.by.rank, first.place.line, first.exit) == (0, 348, False)
    assert "Compiling an extension" in first.meaning.means


def test_a_process_of_horovod(tmp_path: Path) -> None:
    launcher = '  File "/home/u/virtualenvs/a/bin/horovodrun", line 8, in <module>\n'
    text = f"Process 2 exit with status code 137.\nTraceback (most recent call last):\n{launcher}"
    first = read(tmp_path, text).first
    assert (first.by.rank, first.text) == (2, "killed by SIGKILL")


def test_a_launcher_that_speaks_behind_what_a_process_has_not_ended(tmp_path: Path) -> None:
    """It has stopped the others: that is no part of the error before."""
    text = TRACEBACK + (
        "load checkpoint\n[      ] 0/2, elapsed: 0s, ETA:WARNING:torch.distributed.elastic.multiprocessing.api:Sending "
        "process 20183 closing signal SIGTERM\nERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1)"
        " local_rank: 1 (pid: 20184) of binary: python\n"
    )
    first = read(tmp_path, text).first
    assert (first.by.local_rank, first.role) == (1, FailureRole.OWN)
    assert "SIGTERM" not in first.text


def test_an_exception_of_mp_spawn_without_a_text_is_not_what_failed(tmp_path: Path) -> None:
    """Its text is the traceback of the rank, which stands some empty lines below."""
    text = (
        "Traceback (most recent call last):\n"
        '  File "/job/train.py", line 9, in <module>\n    mp.spawn(worker, nprocs=4)\n'
        '  File "/x/site-packages/torch/multiprocessing/spawn.py", line 118, in join\n    raise Exception(msg)\n'
        "Exception:\n\n\n-- Process 2 terminated with the following error:\n"
        "Traceback (most recent call last):\n"
        '  File "/job/train.py", line 5, in worker\n    loss = model(batch)\n'
    )
    first = read(tmp_path, text).first
    assert (first.by.rank, first.place and first.place.line) == (2, 5)


def test_whoever_started_what_failed_fails_after_it(tmp_path: Path) -> None:
    starter = TRACEBACK.replace("KeyError: 'label'", "RuntimeError: Step 1 exited with non-zero status 1")
    first = read(tmp_path, f"{starter}its output:\n\nOutOfMemoryError: CUDA out of memory. Tried to allocate\n").first
    assert first.summary.startswith("OutOfMemoryError")
