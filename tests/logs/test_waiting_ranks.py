"""Ranks that waited: what watchdogs, barriers, dumps and stacks say of who did not come."""

import json
import pickle
from pathlib import Path

import pytest

from gpudoctor.cli import main
from gpudoctor.errors import UsageError
from gpudoctor.logs.error_texts import meaning_of
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.job_logs import read_logs
from tests.logs.samples import TRACEBACK, prefixed, progress, read, timeout


def test_a_rank_that_had_not_queued_the_collective_is_missing(tmp_path: Path) -> None:
    text = "\n".join(
        [
            timeout(0, 880),
            progress(0, 880, 885),
            timeout(1, 880),
            progress(1, 880, 885),
            "[rank2]:[E ProcessGroupNCCL.cpp:1743] [PG ID 1 PG GUID 1(default_pg) Rank 2] Received a dump signal due "
            "to a collective timeout from rank 0. Last enqueued NCCL work: 879, last completed NCCL work: 879.",
        ]
    )
    found = read(tmp_path, text)
    assert (found.missing.ranks, found.missing.operation, found.sure) == ((2,), "allreduce", True)


def test_a_line_that_is_cut_off_tells_no_other_collective(tmp_path: Path) -> None:
    cut = timeout(2, 880).partition("REDUCE")[0]
    found = read(tmp_path, "\n".join([timeout(0, 880), timeout(1, 880), cut]))
    assert found.alike == (0, 1, 2)
    assert (found.missing.ranks, found.missing.operation, found.missing.mismatch) == ((), "allreduce", False)


def test_ranks_that_waited_under_unlike_numbers(tmp_path: Path) -> None:
    found = read(tmp_path, "\n".join([timeout(0, 96), timeout(0, 97), timeout(1, 64)]))
    assert (found.missing.ranks, found.sure) == ((), False)
    assert found.because.endswith("rank 0 in allreduce number 96, rank 1 in allreduce number 64")


@pytest.mark.parametrize(
    ("line", "rank", "role"),
    [
        (
            "[rank2]:[E220 01:25:08.7 ProcessGroupNCCL.cpp:681] [Rank 2] Some NCCL operations have failed or timed out",
            2,
            FailureRole.WAIT,
        ),
        ("[rank2]:[E615 21:49:22.1 compiler_depend.ts:444] NPU out of memory. NPUWorkspa", 2, FailureRole.OWN),
        ("init.cc:1 NCCL WARN Mismatched collective detected, please check at and around rank 39", 39, FailureRole.OWN),
    ],
)
def test_one_line_is_all_that_is_left(line: str, rank: int, role: FailureRole, tmp_path: Path) -> None:
    first = read(tmp_path, f"{line}\n").first
    assert (first.by.rank, first.role) == (rank, role)


def test_a_rank_that_is_silent_is_missing_perhaps(tmp_path: Path) -> None:
    found = read(tmp_path, "\n".join([timeout(0, 880), timeout(1, 880), timeout(3, 880)]))
    assert (found.missing.ranks, found.sure) == ((2,), False)


def test_a_rank_whose_line_with_the_group_is_cut_off_has_waited_all_the_same(tmp_path: Path) -> None:
    waits = [
        f"[rank{rank}]:[E626 06:24:4{rank}.9 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective "
        "operation timeout: WorkNCCL(SeqNum=808, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran"
        for rank in range(3)
    ]
    group = (
        "[rank{0}]:[E626 06:24:4{0}.9 ProcessGroupNCCL.cpp:1785] [PG ID 0 PG GUID 0(default_pg) Rank {0}] Exception "
        "detected by watchdog at work: 808, last enqueued NCCL work: 811, last completed NCCL work: 807."
    )
    found = read(tmp_path, "\n".join([*waits, group.format(0), group.format(1)]))
    assert found.missing.ranks == ()


def test_a_watchdog_of_which_only_the_end_is_left(tmp_path: Path) -> None:
    log = (
        "[rank4]:[E114 15:08:00.5 ProcessGroupNCCL.cpp:1709] [PG 0 (default_pg) Rank 4] Timeout at NCCL work: 175, "
        "last enqueued NCCL work: 175, last completed NCCL work: 174.\n"
    )
    first = read(tmp_path, log).first
    assert (first.by.rank, first.role) == (4, FailureRole.WAIT)
    assert first.text == "NCCL's watchdog: a collective number 175 did not end in its time"


def test_who_ends_after_others_have_waited_in_vain_is_not_who_they_waited_for(tmp_path: Path) -> None:
    end = (
        "Root Cause (first observed failure):\n[0]:\n  time      : 2026-07-03_17:54:21\n  host      : node1\n"
        "  rank      : 5 (local_rank: 5)\n  exitcode  : 1 (pid: 1726)\n  error_file: <N/A>\n" + "=" * 60
    )
    first = read(tmp_path, "\n".join([timeout(3, 880), timeout(4, 880), end])).first
    assert (first.by.rank, first.role) == (3, FailureRole.WAIT)
    before = read(tmp_path, "\n".join([end, timeout(3, 880), timeout(4, 880)])).first
    assert (before.by.rank, before.text) == (5, "exit code 1")


@pytest.mark.parametrize("operation", ["BROADCAST", "_ALLGATHER_BASE"])
def test_sizes_that_differ_under_one_number(operation: str, tmp_path: Path) -> None:
    log = "".join(
        f"[rank{rank}]:[E918 19:29:2{rank}.4 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum=7219, OpType={operation}, NumelIn={size}, Timeout(ms)=3000)\n"
        for rank, size in ((2, 24084544), (3, 64))
    )
    missing = read(tmp_path, log).missing
    assert missing.ranks == ()
    assert "unlike sizes: rank 2 with 24084544 numbers; rank 3 with 64 numbers" in missing.because


def test_where_each_rank_waits_nobody_is_blamed(tmp_path: Path) -> None:
    found = read(tmp_path, "\n".join([timeout(0, 880), timeout(1, 880)]))
    assert (found.missing.ranks, found.sure) == ((), False)


def test_different_collectives_under_one_number(tmp_path: Path) -> None:
    found = read(tmp_path, "\n".join([timeout(0, 880), timeout(1, 880, "BROADCAST")]))
    assert found.missing.mismatch


@pytest.mark.parametrize("before", [timeout(0, 880), ""], ids=["watchdog", "the stack alone"])
def test_the_line_of_the_collective(before: str, tmp_path: Path) -> None:
    stack = (
        "\n[rank0]:[E602 11:17:52 ProcessGroupNCCL.cpp:670] Stack trace of the failed collective: \n"
        "#0 all_reduce from /opt/conda/lib/python3.10/site-packages/torch/distributed/distributed_c10d.py:2501\n"
        "#1 mean from /job/train.py:44\n#2 main from /job/train.py:90\n\nmore\n"
    )
    first = read(tmp_path, before + stack).first
    assert (first.role, first.place.path, first.place.line) == (FailureRole.WAIT, "/job/train.py", 44)


def test_a_rank_that_stands_in_the_error_itself(tmp_path: Path) -> None:
    aborted = (
        'Traceback (most recent call last):\n  File "/job/train.py", line 182, in reduce\n    dist.all_reduce(loss)\n'
        "RuntimeError: NCCL communicator was aborted on rank 6.  Original reason for failure was: [Rank 6] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=15, OpType=ALLGATHER, Timeout(ms)=1800000) ran\n"
    )
    first = read(tmp_path, aborted).first
    assert (first.by.rank, first.role, first.place and first.place.line) == (6, FailureRole.WAIT, 182)


def test_numbers_are_those_of_a_group(tmp_path: Path) -> None:
    """Two groups whose collectives have one number; the rank in the group is not that of the job."""
    group = "[PG ID 11 PG GUID {} Rank {}] Exception detected by watchdog at work: 57, last enqueued NCCL work: 57, "
    lines = []
    for rank, inside, operation, name in [(13, 1, "ALLTOALL", 119), (15, 0, "ALLREDUCE", 112)]:
        lines.append(timeout(inside, 57, operation).replace(f"[rank{inside}]", f"[rank{rank}]"))
        lines.append(f"[rank{rank}]:[E602 11:17:53 x.cpp:1] {group.format(name, inside)}last completed NCCL work: 56.")
    found = read(tmp_path, "\n".join(lines))
    assert found.first.by.rank in (13, 15)
    assert not found.missing.mismatch
    assert not found.missing.ranks


def test_a_watchdog_that_met_an_error(tmp_path: Path) -> None:
    line = (
        "[rank1]:[E504 22:44:08.389636235 ProcessGroupNCCL.cpp:1896] [PG ID 0 PG GUID 0(default_pg) Rank 1] Process "
        "group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n"
    )
    told = (
        '  File "/job/train.py", line 12, in step\n    y = x[index]\n'
        "RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    first = read(tmp_path, told + "\n" + line).first
    assert (first.by.rank, first.place and first.place.line) == (1, 12)
    assert "read or wrote" in (first.meaning.means if first.meaning else "")


def test_where_those_stand_that_wait_alike(tmp_path: Path) -> None:
    """A traceback of nobody is of one of them, and so of all."""
    cut = 'Traceback (most recent call last):\n  File "/job/train.py", line 22, in main\n    loss.backward()\n'
    found = read(tmp_path, "\n".join([timeout(0, 31), timeout(3, 31), cut]))
    assert (found.alike, found.first.place and found.first.place.line) == ((0, 3), 22)


def test_old_words_of_ranks_that_wait_alike(tmp_path: Path) -> None:
    told = (
        "  what():  [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=18{}"
    )
    assert read(tmp_path, f"{told.format(5, '00) ran')}\n{told.format(3, '')}\n").alike == (3, 5)


@pytest.mark.parametrize(
    ("told", "missing", "sure"),
    [
        ("allreduce.conv1.weight [missing ranks: 1]", (1,), True),
        ("waiting for remainder of ranks. Stalled ops: allreduce.a [ready ranks: 5, 1, 4, 2, 3]", (0,), False),
    ],
)
def test_ranks_that_horovod_waits_for(told: str, missing: tuple[int, ...], sure: bool, tmp_path: Path) -> None:
    found = read(tmp_path, f"[1,0]<stderr>:[2019-04-13 13:53:31.851506: W operations.cc:588] {told}\n")
    assert found.first.role is FailureRole.WAIT
    assert (found.missing.ranks, found.missing.sure) == (missing, sure)


def test_a_list_of_ranks_that_horovod_waits_for(tmp_path: Path) -> None:
    stalled = "[0] W stall_inspector.cc:107] One or more tensors are waiting for remainder of ranks\n"
    found = read(
        tmp_path, f"{stalled}[0] Missing ranks:\n[0] 1: [grad.a, grad.b ...]\n[0] 3: [grad.a]\n[0] epoch 4: [x]\n"
    )
    assert found.missing.ranks == (1, 3)


ELASTIC = "torch/distributed/elastic/agent/server/api.py:753]"


def _stood(rank: int, line: int) -> str:
    """As py-spy prints it."""
    return (
        f"Process {900 + rank}: python train.py\nPython v3.11.9 (/opt/bin/python3.11)\n\n"
        f'Thread {900 + rank} (idle): "MainThread"\n    wait (threading.py:324)\n    step (/job/train.py:{line})\n'
        f'    <module> (/job/train.py:90)\nThread 77 (idle): "Thread-1"\n    wait (threading.py:324)\n'
    )


def test_where_the_fewest_stand(tmp_path: Path) -> None:
    for rank, line in enumerate([40, 40, 51, 40]):
        (tmp_path / f"rank{rank}.txt").write_text(_stood(rank, line))
    found = read_logs([str(tmp_path)])
    assert (found.first.by.rank, found.first.role) == (2, FailureRole.WAIT)
    assert (found.first.place.line, found.sure) == (51, False)
    assert found.missing.ranks == (2,)
    assert "1 of 4 processes stood here, the others at /job/train.py:40" in found.because


def test_stacks_in_one_file(tmp_path: Path) -> None:
    found = read(tmp_path, "".join(_stood(rank, 51 if rank == 2 else 40) for rank in range(4)))
    assert found.first.by.tag == "process 902"


def test_where_all_stand_alike_nobody_is_named(tmp_path: Path) -> None:
    found = read(tmp_path, "".join(_stood(rank, 40) for rank in range(4)))
    assert found.missing is None


def test_of_two_processes_the_one_outside_of_the_collective_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    barrier = "barrier (torch/distributed/distributed_c10d.py:5356)\n    wrapper (torch/distributed/c10d_logger.py:83)"
    (tmp_path / "rank0.txt").write_text(_stood(0, 40).replace("wait (threading.py:324)", barrier, 1))
    (tmp_path / "rank1.txt").write_text(_stood(1, 51))
    # Whoever has taken the stacks ends the job.
    (tmp_path / "job.log").write_text(f"W {ELASTIC} Received 15 death signal, shutting down workers\n")
    found = read_logs([str(tmp_path)])
    assert (found.first.by.rank, found.missing.ranks, found.sure) == (1, (1,), False)
    assert found.because == "1 of 2 processes stood here, the others in `barrier` at /job/train.py:40"
    main(["read", str(tmp_path)])
    told = " ".join(capsys.readouterr().out.split())
    assert "rank 1 stood apart from the others, at /job/train.py:51 in `step`." in told
    assert "The others rank 0: stood in `barrier`" in told
    assert "the launcher: W torch/distributed/elastic" in told
    (tmp_path / "rank0.txt").unlink()
    # The stack of one process tells less than that somebody has ended the job.
    assert read_logs([str(tmp_path)]).first.role is FailureRole.STOPPED


@pytest.mark.parametrize(
    ("came", "word"), [("world_size=4, worker_count=16", "More processes"), ("world_size=8, worker_count=4", "Not all")]
)
def test_too_many_at_a_barrier_are_no_missing_ones(came: str, word: str) -> None:
    meaning = meaning_of(
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
        f"store_based_barrier_key:1 ({came}, timeout=0:30:00)"
    )
    assert meaning.means.startswith(word)


def _dump(rank: int, *states: str) -> dict[str, object]:
    frames = [{"name": "all_reduce", "filename": "/x/site-packages/torch/distributed/distributed_c10d.py", "line": 9}]
    own = [{"name": "mean", "filename": "/job/train.py", "line": 44}]
    entries = [
        {
            "process_group": ("0", "default_pg"),
            "collective_seq_id": number,
            "profiling_name": "nccl:all_reduce",
            "state": state,
            "timeout_ms": 600_000,
            "frames": frames + own,
            "is_p2p": False,
        }
        for number, state in enumerate(states, 1)
    ]
    return {"version": "2.10", "rank": rank, "entries": entries}


@pytest.mark.parametrize("form", ["pickle", "json"])
def test_dumps_say_who_did_not_come(form: str, tmp_path: Path) -> None:
    for rank, states in enumerate([("completed", "started"), ("completed", "started"), ("completed",)]):
        dump = _dump(rank, *states)
        data = pickle.dumps(dump) if form == "pickle" else json.dumps(dump).encode()
        (tmp_path / f"nccl_trace_rank_{rank}").write_bytes(data)
    found = read_logs([str(tmp_path)])
    assert (found.missing.ranks, found.missing.operation, found.sure) == ((2,), "all_reduce", True)
    assert (found.first.place.path, found.first.place.line) == ("/job/train.py", 44)


class _Code:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("this was run",)


def test_a_dump_runs_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps({"entries": [_Code()]}))
    with pytest.raises(UsageError, match=r"it asks for `builtins\.print`"):
        read_logs([str(tmp_path)])
    assert not capsys.readouterr().out


def test_a_rank_that_was_told_of_a_timeout_says_whose_came_first(tmp_path: Path) -> None:
    first = read(
        tmp_path,
        "[rank0]:[E804 23:05:54.8 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump "
        "signal due to a collective timeout from  rank 13. Last enqueued NCCL work: 1261, last completed NCCL work: 9.",
    ).first
    assert (first.by.rank, first.role) == (13, FailureRole.WAIT)


def test_an_abort_after_the_watchdog_is_no_failure_of_its_own(tmp_path: Path) -> None:
    stack = 'Current thread 0x01 (most recent call first):\n  File "/job/a.py", line 3 in <module>\n\n'
    dump = f"Fatal Python error: Aborted\n\n{stack}"
    found = read(tmp_path, f"{timeout(0, 880)}{timeout(1, 880)}{dump}")
    assert found.first.role is FailureRole.WAIT


@pytest.mark.parametrize("end", ["Terminated\n", TRACEBACK.replace("KeyError: 'label'", "KeyboardInterrupt")])
def test_who_was_stopped_before_the_others_waited(end: str, tmp_path: Path) -> None:
    found = read(tmp_path, f"{end}{timeout(0, 880)}{timeout(1, 880)}")
    assert found.first.role is FailureRole.STOPPED
    after = read(tmp_path, f"{timeout(0, 880)}{timeout(1, 880)}{end}")
    assert after.first.role is FailureRole.WAIT


def test_the_rank_that_calls_what_the_fewest_call(tmp_path: Path) -> None:
    shape = "TensorShape=[4, 2], TensorDtypes=Float, TensorDeviceTypes=TensorOptions(dtype=float (default))"
    called = {rank: "_ALLGATHER_BASE" if rank == 2 else "ALLREDUCE" for rank in range(4)}
    prints = {rank: f"CollectiveFingerPrint(SequenceNumber=7, OpType={called[rank]}, {shape})" for rank in called}
    logs = ""
    for rank in called:
        other = 0 if rank == 2 else 2
        text = (
            f"RuntimeError: Detected mismatch between collectives on ranks. Rank {rank} is running collective: "
            f"{prints[rank]}, but Rank {other} is running collective: {prints[other]}.Collectives differ in"
        )
        logs += prefixed(f"[rank{rank}]: ", TRACEBACK.replace("KeyError: 'label'", text))
    found = read(tmp_path, logs)
    assert (found.first.by.rank, found.sure) == (2, True)
    assert "rank 1 allreduce of [4, 2] float; rank 2 allgather_base of [4, 2] float" in found.because
    assert "TensorOptions" not in found.first.summary


def test_what_a_rank_says_of_itself_counts_in_prints(tmp_path: Path) -> None:
    """Of the other, it has read what lay there when the two were out of step."""
    texts = (
        "Rank 0 is running collective: CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE, TensorShape=[4], "
        "TensorDtypes=Float), but Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=0OpType=REDUCE).",
        "Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=1OpType=BARRIER), but Rank 0 is running "
        "collective: CollectiveFingerPrint(SequenceNumber=0OpType=GATHER).",
    )
    told = "RuntimeError: Detected mismatch between collectives on ranks. "
    errors = [TRACEBACK.replace("KeyError: 'label'", told + text) for text in texts]
    found = read(tmp_path, prefixed("[rank0]: ", errors[0]) + prefixed("[rank1]: ", errors[1]))
    assert found.because == "ranks called different collectives: rank 0 allreduce of [4] float; rank 1 barrier"


def test_one_stack_says_where_a_process_stood_and_no_more(tmp_path: Path) -> None:
    stack = (
        'Thread 42 (idle): "MainThread"\n    all_gather (deepspeed/comm/torch.py:219)\n    step (/job/train.py:31)\n'
        "    <module> (/job/train.py:90)\n"
    )
    found = read(tmp_path, stack)
    assert (found.first.place.line, found.sure) == (31, False)
    assert "stack of one process" in found.first.meaning.means
    (tmp_path / "job-0.log").write_text(stack + TRACEBACK)
    failed = read_logs([str(tmp_path)]).first
    assert failed.summary == "KeyError: 'label'"


def test_a_watchdog_behind_a_rank_without_a_colon(tmp_path: Path) -> None:
    first = read(tmp_path, "[rank3] Watchdog caught collective operation timeout:\nWorkNCCL(SeqNum=6)\n").first
    assert (first.by.rank, first.role) == (3, FailureRole.WAIT)


def test_a_rank_that_did_not_reach_a_barrier_told_by_native_code(tmp_path: Path) -> None:
    said = "[E ProcessGroupGloo.cpp:136] Rank 1 successfully reached monitoredBarrier, but received errors"
    found = read(
        tmp_path, f"{said} while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n"
    )
    assert (found.first.by.rank, found.missing and found.missing.ranks) == (1, (0,))


@pytest.mark.parametrize(("front", "missing"), [("[rank1]: ", "rank 0 did not come"), ("[rank3]: ", "")])
def test_the_first_rank_of_a_group_that_never_came(front: str, missing: str, tmp_path: Path) -> None:
    """In a group of some ranks, the numbers are not those of the job."""
    text = (
        "torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] "
        "via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer"
    )
    found = read(tmp_path, f"{front}{text}\n")
    assert found.first is not None
    assert found.first.role is FailureRole.WAIT
    assert missing in found.because
    assert bool(missing) is ("rank 0" in found.because)


def test_a_barrier_that_a_program_tells_of_itself(tmp_path: Path) -> None:
    """Without the type of the error; more processes have come than there are."""
    told = "Timed out initializing process group in store based barrier on rank: 1, for key: store_based_barrier_key:1 "
    first = read(tmp_path, f"{told}(world_size=2, worker_count=4, timeout=0:02:00)\n").first
    assert first is not None
    assert (first.by.rank, first.role) == (1, FailureRole.WAIT)


def test_the_rank_of_which_there_are_two(tmp_path: Path) -> None:
    """The root tells it, on a GPU of its own."""
    warning = "node1:13:14 [0] bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in"
    first = read(tmp_path, f"{warning}\n").first
    assert first is not None
    assert (first.by.rank, first.by.local_rank) == (1, None)


def test_a_size_that_never_arrived_is_no_lack_of_memory(tmp_path: Path) -> None:
    """Ranks tell each other the sizes of objects; one whose exchange was given up on reads what lies there."""
    timed_out = "[E9 x.cpp:632] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=57)"
    told = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 184.13 GiB. GPU 2 has a total capacity of 79"
    inside = '  File "/v/site-packages/torch/distributed/distributed_c10d.py", line 3042, in all_gather_object\n    x\n'
    error = TRACEBACK.replace("KeyError: 'label'", f"{inside}{told} GiB of which 37.02 GiB is free.")
    found = read(tmp_path, f"[rank1]:{timed_out}\n" + prefixed("[rank2]: ", error))
    assert (found.first.by.rank, found.first.role, found.first.place.line) == (2, FailureRole.WAIT, 20)
    enough = error.replace("184.13", "1.13")
    assert read(tmp_path, prefixed("[rank2]: ", enough)).first.role is FailureRole.OWN


def test_a_rank_whose_last_words_are_those_of_its_watchdog_has_waited(tmp_path: Path) -> None:
    last = timeout(0, 9).partition("] ")[2].partition("] ")[2]
    text = f"  what():  [Rank 0] NCCL watchdog thread terminated with exception: {last}\n"
    found = read(tmp_path, text + "".join(f"{timeout(rank, 9)}\n" for rank in (1, 2, 3, 5)))
    assert found.missing.ranks == (4,)
