"""How logs are read, in the forms in which people have them."""

from __future__ import annotations

import gc
import gzip
import json
import pickle
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from gpudoctor import cli
from gpudoctor.errors import UsageError
from gpudoctor.logs import lines, readers
from gpudoctor.logs.endings import OUT_OF_MEMORY
from gpudoctor.logs.error_texts import ERROR_TEXTS, meaning_of
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.job_logs import read_logs
from gpudoctor.logs.speakers import Speaker, said, speaker_of
from gpudoctor.registry import find_rules, load
from tests.tools import make_schema

if TYPE_CHECKING:
    from pathlib import Path

    from gpudoctor.logs.diagnosis import LogDiagnosis
    from gpudoctor.rule import RuleCard

from gpudoctor.logs.declared_texts import rules_that_declare

TRACEBACK = """Traceback (most recent call last):
  File "/job/train.py", line 20, in main
    label = batch["label"]
            ~~~~~^^^^^^^^^
KeyError: 'label'
"""
PEER = """Traceback (most recent call last):
  File "/job/train.py", line 31, in main
    loss.backward()
  File "/opt/conda/lib/python3.11/site-packages/torch/_tensor.py", line 626, in backward
    torch.autograd.backward(
RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.1]:15787
"""


def read(folder: Path, *texts: str) -> LogDiagnosis:
    """What is said of logs with these texts."""
    for number, text in enumerate(texts):
        (folder / f"job-{number}.log").write_text(text)
    return read_logs([str(folder)])


def prefixed(prefix: str, text: str) -> str:
    return "".join(f"{prefix}{line}\n" for line in text.splitlines())


@pytest.mark.parametrize(
    ("prefix", "speaker"),
    [
        ("[rank3]: ", Speaker(rank=3)),
        ("[default3]:", Speaker(local_rank=3, tag="default3")),
        ("[trainer3]:", Speaker(local_rank=3, tag="trainer3")),
        ("3: ", Speaker(rank=3)),
        ("[1,3]<stderr>:", Speaker(rank=3)),
        ("[3]<stderr>:", Speaker(rank=3)),
        ("[stderr]", Speaker()),
        ("(RayTrainWorker pid=912, ip=10.0.0.7) ", Speaker(host="10.0.0.7", tag="RayTrainWorker pid=912")),
        ("(pid=912) ", Speaker(tag="pid=912")),
        ("gpu-node7: [rank3]: ", Speaker(rank=3, host="gpu-node7")),
        ("2024-05-07T15:51:09.140Z [rank3]: ", Speaker(rank=3)),
        ("[pod/train-worker-0/pytorch] [rank3]: ", Speaker(rank=3, host="train-worker-0")),
        ("[1784] [rank3]:", Speaker(rank=3)),
        ("[RANK 3] ", Speaker(rank=3)),
        ("[rank: 3] ", Speaker(rank=3)),
        ("Oct 16 02:07:00 [rank3]: ", Speaker(rank=3)),
        ("stderr: [rank3]: ", Speaker(rank=3)),
        ("ERROR: ", Speaker()),
        ("(Worker pid=9) ERROR 05-22 10:26:17 [executor.py:870] ", Speaker(tag="Worker pid=9")),
    ],
)
def test_what_stands_in_front_of_a_line(prefix: str, speaker: Speaker) -> None:
    spoken = said(f"{prefix}Traceback (most recent call last):", Speaker())
    assert (spoken.by, spoken.text) == (speaker, "Traceback (most recent call last):")


@pytest.mark.parametrize(
    ("front", "host"),
    [("train-worker-1: ", "train-worker-1"), ("worker-1  | ", "worker-1")],
)
def test_a_name_in_front_of_lines_is_known_by_a_traceback(front: str, host: str, tmp_path: Path) -> None:
    first = read(tmp_path, prefixed(front, TRACEBACK)).first
    assert first is not None
    assert (first.text, first.by.host) == ("KeyError: 'label'", host)
    assert first.place is not None
    assert first.place.line == 20


def test_a_column_in_front_of_lines(tmp_path: Path) -> None:
    first = read(tmp_path, prefixed("        | [rank3]: ", TRACEBACK)).first
    assert first is not None
    assert (first.text, first.by.rank) == ("KeyError: 'label'", 3)


@pytest.mark.parametrize("quote", [repr, json.dumps, lambda text: str(text.splitlines(keepends=True))])
def test_a_traceback_that_was_written_into_one_line(quote: Callable[[str], str], tmp_path: Path) -> None:
    first = read(tmp_path, f'{{"message": {quote(TRACEBACK)}, "code": 1}}\n').first
    assert first is not None
    assert first.text.startswith("KeyError: 'label'")
    assert first.place is not None
    assert (first.place.path, first.place.line) == ("/job/train.py", 20)


def test_a_word_and_a_number_in_brackets_is_no_rank_where_a_line_only_tells_something() -> None:
    assert said("loss: 3: 4", Speaker()).by == Speaker()


@pytest.mark.parametrize(
    ("path", "speaker"),
    [
        ("logs/none_ab12/attempt_0/3/stderr.log", Speaker(local_rank=3, tag="logs/none_ab12/attempt_0/3/stderr.log")),
        ("out/rank_3.log", Speaker(rank=3)),
        ("out/rank3.err", Speaker(rank=3)),
        ("frank5.log", Speaker()),
        ("slurm-912.out", Speaker()),
    ],
)
def test_what_the_name_of_a_file_says(path: str, speaker: Speaker) -> None:
    assert speaker_of(path) == speaker


def test_the_error_that_others_follow_is_first_wherever_it_stands(tmp_path: Path) -> None:
    found = read(tmp_path, prefixed("[rank0]: ", PEER) + prefixed("[rank1]: ", TRACEBACK))
    assert found.first is not None
    assert (found.first.by.rank, found.first.summary, found.sure) == (1, "KeyError: 'label'", True)
    assert found.first.place is not None
    assert found.first.place.line == 20
    assert [(each.ranks, each.failure.role) for each in found.following] == [((0,), FailureRole.PEER)]


def test_two_that_write_at_once(tmp_path: Path) -> None:
    mine, yours = prefixed("[rank0]: ", PEER).splitlines(), prefixed("[rank1]: ", TRACEBACK).splitlines()
    both = [line for pair in zip(mine, yours, strict=False) for line in pair] + mine[len(yours) :]
    first = read(tmp_path, "\n".join(both)).first
    assert first is not None
    assert (first.by.rank, first.place and first.place.line) == (1, 20)


def test_all_ranks_that_fail_alike_are_one_failure(tmp_path: Path) -> None:
    found = read(tmp_path, "".join(prefixed(f"[rank{rank}]: ", TRACEBACK) for rank in range(4)))
    assert found.alike == (0, 1, 2, 3)
    assert not found.following


def test_times_say_who_was_first_over_several_files(tmp_path: Path) -> None:
    late = prefixed("2024-05-07T15:51:09.2Z [rank0]: ", TRACEBACK.replace("label", "image").replace("20", "21"))
    early = prefixed("2024-05-07T15:51:09.1Z [rank1]: ", TRACEBACK)
    found = read(tmp_path, late, early)
    assert found.first is not None
    assert (found.first.by.rank, found.sure) == (1, True)


def test_without_times_several_files_leave_a_doubt(tmp_path: Path) -> None:
    other = TRACEBACK.replace("label", "image").replace("20", "21")
    assert not read(tmp_path, prefixed("[rank0]: ", other), prefixed("[rank1]: ", TRACEBACK)).sure


def test_an_error_that_was_handled_and_another_raised(tmp_path: Path) -> None:
    handled = "\nDuring handling of the above exception, another exception occurred:\n\n"
    text = TRACEBACK + handled + TRACEBACK.replace("KeyError: 'label'", "RuntimeError: CUDA out of memory. Tried to")
    first = read(tmp_path, text).first
    assert first is not None
    assert first.summary.startswith("RuntimeError: CUDA out of memory")


def test_compressed_and_through_a_pipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "job.log.gz"
    packed.write_bytes(gzip.compress(TRACEBACK.encode()))
    first = read_logs([str(packed)]).first
    assert first is not None
    assert first.summary == "KeyError: 'label'"


def test_a_file_that_is_cut_off_in_its_compression(tmp_path: Path) -> None:
    packed = tmp_path / "job.log.gz"
    noise = "\n".join(f"step {number} loss {number * 7919 % 1013}" for number in range(50_000))
    packed.write_bytes(gzip.compress((TRACEBACK + noise).encode())[:-20_000])
    assert read_logs([str(packed)]).first is not None


def test_a_traceback_in_a_box(tmp_path: Path) -> None:
    """As rich draws it, with the lines around each call."""
    boxed = (
        "╭───────────────── Traceback (most recent call last) ─────────────────╮\n"
        "│ /job/train.py:33 in main                                             │\n"
        "│                                                                      │\n"
        "│   32 │   for batch in loader:                                        │\n"
        "│ ❱ 33 │   │   loss = step(batch)                                      │\n"
        "╰──────────────────────────────────────────────────────────────────────╯\n"
        "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"
    )
    first = read(tmp_path, boxed).first
    assert first is not None
    assert first.place is not None
    assert (first.place.path, first.place.line, first.place.function) == ("/job/train.py", 33, "main")
    assert "has failed" in (first.meaning.means if first.meaning else "")


def test_a_table_of_which_only_the_end_is_left(tmp_path: Path) -> None:
    first = read(tmp_path, "  rank      : 3 (local_rank: 1)\n  exitcode  : -11 (pid: 6)\n  error_file: <N/A>\n").first
    assert first is not None
    assert (first.by.rank, first.summary) == (3, "killed by SIGSEGV")


def test_a_launcher_that_shows_the_tracebacks_of_ranks(tmp_path: Path) -> None:
    """The table of a program that is decorated with `@record`, where ranks print nothing themselves."""

    def entry(rank: int, traceback: str) -> str:
        members = f"  time      : 2026-11-23_21:52:10\n  host      : node1\n  rank      : {rank} (local_rank: {rank})\n"
        ends = f"  exitcode  : 1 (pid: 88{rank}) \n  error_file: /tmp/error.json\n"
        return f"[{rank}]:\n{members}{ends}  traceback : {prefixed('  ', traceback).lstrip()}  \n"

    table = f"Failures:\n{entry(0, PEER)}----\nRoot Cause (first observed failure):\n{entry(1, TRACEBACK)}====\n"
    found = read(tmp_path, table)
    assert found.first is not None
    assert (found.first.by.rank, found.first.place and found.first.place.line, found.sure) == (1, 20, True)
    assert [each.ranks for each in found.following] == [(0,)]


def test_a_warning_of_nccl(tmp_path: Path) -> None:
    line = (
        "gpu7:9621:9688 [3] misc/shmutils.cc:112 NCCL WARN Error while creating shared memory segment /dev/shm/nccl-K\n"
    )
    first = read(tmp_path, line).first
    assert first is not None
    assert (first.by.host, first.by.local_rank) == ("gpu7", 3)
    assert first.meaning is not None
    assert first.meaning.code == "GPU431"


def test_a_progress_bar_in_front(tmp_path: Path) -> None:
    bar = "".join(f"\r 1021/100000 [45:{second:02}<51:20:53,  1.87s/it]" for second in range(60))
    first = read(tmp_path, f"{bar}{_timeout(2, 45390)}\n").first
    assert first is not None
    assert (first.by.rank, first.role) == (2, FailureRole.WAIT)


def test_colours_are_taken_off() -> None:
    assert lines._plain(b"\x1b[36m(RayWorker pid=4)\x1b[0m Traceback") == "(RayWorker pid=4) Traceback"
    assert lines._plain(b"[36m(RayWorker pid=4) x") == "(RayWorker pid=4) x"


# --- the watchdog of NCCL ---


def _timeout(rank: int, number: int, operation: str = "ALLREDUCE") -> str:
    return (
        f"[rank{rank}]:[E602 11:17:52.399340163 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn=8, NumelOut=8, Timeout(ms)=600000) "
        "ran for 600080 milliseconds before timing out."
    )


def _progress(rank: int, failed: int, enqueued: int) -> str:
    return (
        f"[rank{rank}]:[E602 11:17:52 ProcessGroupNCCL.cpp:2268] [PG ID 1 PG GUID 1(default_pg) Rank {rank}]  failure "
        f"detected by watchdog at work sequence id: {failed} PG status: last enqueued work: {enqueued}, last completed "
        f"work: {failed - 1}"
    )


def test_a_rank_that_had_not_queued_the_collective_is_missing(tmp_path: Path) -> None:
    text = "\n".join(
        [
            _timeout(0, 880),
            _progress(0, 880, 885),
            _timeout(1, 880),
            _progress(1, 880, 885),
            "[rank2]:[E ProcessGroupNCCL.cpp:1743] [PG ID 1 PG GUID 1(default_pg) Rank 2] Received a dump signal due "
            "to a collective timeout from rank 0. Last enqueued NCCL work: 879, last completed NCCL work: 879.",
        ]
    )
    found = read(tmp_path, text)
    assert found.missing is not None
    assert (found.missing.ranks, found.missing.operation, found.sure) == ((2,), "allreduce", True)


def test_a_rank_that_is_silent_is_missing_perhaps(tmp_path: Path) -> None:
    found = read(tmp_path, "\n".join([_timeout(0, 880), _timeout(1, 880), _timeout(3, 880)]))
    assert found.missing is not None
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
    assert found.missing is not None
    assert found.missing.ranks == ()


def test_a_watchdog_of_which_only_the_end_is_left(tmp_path: Path) -> None:
    log = (
        "[rank4]:[E114 15:08:00.5 ProcessGroupNCCL.cpp:1709] [PG 0 (default_pg) Rank 4] Timeout at NCCL work: 175, "
        "last enqueued NCCL work: 175, last completed NCCL work: 174.\n"
    )
    first = read(tmp_path, log).first
    assert first is not None
    assert (first.by.rank, first.role) == (4, FailureRole.WAIT)
    assert first.text == "NCCL's watchdog: a collective number 175 did not end in its time"


def test_sizes_that_differ_under_one_number(tmp_path: Path) -> None:
    log = "".join(
        f"[rank{rank}]:[E918 19:29:2{rank}.4 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum=7219, OpType=BROADCAST, NumelIn={size}, Timeout(ms)=3000)\n"
        for rank, size in ((2, 24084544), (3, 64))
    )
    missing = read(tmp_path, log).missing
    assert missing is not None
    assert missing.ranks == ()
    assert "unlike sizes: rank 2 with 24084544 numbers; rank 3 with 64 numbers" in missing.because


def test_where_each_rank_waits_nobody_is_blamed(tmp_path: Path) -> None:
    found = read(tmp_path, "\n".join([_timeout(0, 880), _timeout(1, 880)]))
    assert found.missing is not None
    assert (found.missing.ranks, found.sure) == ((), False)


def test_different_collectives_under_one_number(tmp_path: Path) -> None:
    found = read(tmp_path, "\n".join([_timeout(0, 880), _timeout(1, 880, "BROADCAST")]))
    assert found.missing is not None
    assert found.missing.mismatch


def test_the_line_of_the_collective(tmp_path: Path) -> None:
    stack = (
        "\n[rank0]:[E602 11:17:52 ProcessGroupNCCL.cpp:670] Stack trace of the failed collective: \n"
        "#0 all_reduce from /opt/conda/lib/python3.10/site-packages/torch/distributed/distributed_c10d.py:2501\n"
        "#1 mean from /job/train.py:44\n#2 main from /job/train.py:90\n\nmore\n"
    )
    first = read(tmp_path, _timeout(0, 880) + stack).first
    assert first is not None
    assert first.place is not None
    assert (first.place.path, first.place.line, first.place.function) == ("/job/train.py", 44, "mean")


def test_a_rank_that_stands_in_the_error_itself(tmp_path: Path) -> None:
    aborted = (
        'Traceback (most recent call last):\n  File "/job/train.py", line 182, in reduce\n    dist.all_reduce(loss)\n'
        "RuntimeError: NCCL communicator was aborted on rank 6.  Original reason for failure was: [Rank 6] Watchdog "
        "caught collective operation timeout: WorkNCCL(SeqNum=15, OpType=ALLGATHER, Timeout(ms)=1800000) ran\n"
    )
    first = read(tmp_path, aborted).first
    assert first is not None
    assert (first.by.rank, first.role, first.place and first.place.line) == (6, FailureRole.WAIT, 182)


def test_ranks_that_torch_names_itself(tmp_path: Path) -> None:
    told = "\t   - [1] finished collective #2, but didn't join collective #3 (count from 1)"
    found = read(tmp_path, f"{_timeout(0, 3)}\n{told}\n")
    assert found.missing is not None
    assert (found.missing.ranks, found.sure) == ((1,), True)


def test_numbers_are_those_of_a_group(tmp_path: Path) -> None:
    """Two groups whose collectives have one number; the rank in the group is not that of the job."""
    group = "[PG ID 11 PG GUID {} Rank {}] Exception detected by watchdog at work: 57, last enqueued NCCL work: 57, "
    lines = []
    for rank, inside, operation, name in [(13, 1, "ALLTOALL", 119), (15, 0, "ALLREDUCE", 112)]:
        lines.append(_timeout(inside, 57, operation).replace(f"[rank{inside}]", f"[rank{rank}]"))
        lines.append(f"[rank{rank}]:[E602 11:17:53 x.cpp:1] {group.format(name, inside)}last completed NCCL work: 56.")
    found = read(tmp_path, "\n".join(lines))
    assert found.first is not None
    assert found.first.by.rank in (13, 15)
    assert found.missing is not None
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
    assert first is not None
    assert (first.by.rank, first.place and first.place.line) == (1, 12)
    assert "read or wrote" in (first.meaning.means if first.meaning else "")


def test_a_message_that_runs_on_behind_a_progress_bar_and_is_cut_off(tmp_path: Path) -> None:
    bar = "  1%|1         | 24/1752 [01:08<1:22:56,  2.88s/it]"
    first = read(
        tmp_path, f"{bar}[rank5]:[E602 11:17:52.1 x.cpp:632] [Rank 5] Watchdog caught collective operati\n"
    ).first
    assert first is not None
    assert (first.by.rank, first.role) == (5, FailureRole.WAIT)
    assert "did not end in its time" in (first.meaning.means if first.meaning else "")


def test_what_native_code_told_before_it_aborted_is_the_error(tmp_path: Path) -> None:
    told = (
        "[E x.cpp:916] [Rank 3] NCCL watchdog thread terminated with exception: CUDA error: an illegal memory access\n"
    )
    first = read(tmp_path, f"(Worker pid=70) Fatal Python error: Aborted\n(Worker pid=70) \n{told}").first
    assert first is not None
    assert (first.by.rank, first.meaning and first.meaning.library) == (3, "cuda")


def test_where_those_stand_that_wait_alike(tmp_path: Path) -> None:
    """A traceback of nobody is of one of them, and so of all."""
    cut = 'Traceback (most recent call last):\n  File "/job/train.py", line 22, in main\n    loss.backward()\n'
    found = read(tmp_path, "\n".join([_timeout(0, 31), _timeout(3, 31), cut]))
    assert found.first is not None
    assert (found.alike, found.first.place and found.first.place.line) == ((0, 3), 22)


def test_old_words_of_ranks_that_wait_alike(tmp_path: Path) -> None:
    told = (
        "  what():  [Rank {}] Watchdog caught collective operation timeout: WorkNCCL(OpType=BROADCAST, Timeout(ms)=18{}"
    )
    assert read(tmp_path, f"{told.format(5, '00) ran')}\n{told.format(3, '')}\n").alike == (3, 5)


# --- Horovod and Ray ---


@pytest.mark.parametrize(
    ("told", "missing", "sure"),
    [
        ("allreduce.conv1.weight [missing ranks: 1]", (1,), True),
        ("waiting for remainder of ranks. Stalled ops: allreduce.a [ready ranks: 5, 1, 4, 2, 3]", (0,), False),
    ],
)
def test_ranks_that_horovod_waits_for(told: str, missing: tuple[int, ...], sure: bool, tmp_path: Path) -> None:
    found = read(tmp_path, f"[1,0]<stderr>:[2019-04-13 13:53:31.851506: W operations.cc:588] {told}\n")
    assert found.first is not None
    assert found.first.role is FailureRole.WAIT
    assert found.missing is not None
    assert (found.missing.ranks, found.missing.sure) == (missing, sure)


def test_a_list_of_ranks_that_horovod_waits_for(tmp_path: Path) -> None:
    stalled = "[0] W stall_inspector.cc:107] One or more tensors are waiting for remainder of ranks\n"
    found = read(
        tmp_path, f"{stalled}[0] Missing ranks:\n[0] 1: [grad.a, grad.b ...]\n[0] 3: [grad.a]\n[0] epoch 4: [x]\n"
    )
    assert found.missing is not None
    assert found.missing.ranks == (1, 3)


def test_a_worker_of_ray_that_is_aborted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "job.log"
    log.write_text("(RayTrainWorker pid=7315) *** SIGABRT received at time=1734086759 ***\n")
    assert cli.main(["read", str(log)]) == 1
    assert "RayTrainWorker pid=7315" in capsys.readouterr().out


# --- stacks ---


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
    assert found.first is not None
    assert (found.first.by.rank, found.first.role) == (2, FailureRole.WAIT)
    assert found.first.place is not None
    assert (found.first.place.line, found.sure) == (51, False)
    assert found.missing is not None
    assert found.missing.ranks == (2,)
    assert "1 of 4 processes stood here, the others at /job/train.py:40" in found.because


def test_stacks_in_one_file(tmp_path: Path) -> None:
    found = read(tmp_path, "".join(_stood(rank, 51 if rank == 2 else 40) for rank in range(4)))
    assert found.first is not None
    assert found.first.by.tag == "process 902"


def test_where_all_stand_alike_nobody_is_named(tmp_path: Path) -> None:
    found = read(tmp_path, "".join(_stood(rank, 40) for rank in range(4)))
    assert found.missing is None


# --- launchers and schedulers ---


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
        ("/job/go.sh: line 28:  8156 Killed      python3 main.py", Speaker(tag="pid 8156"), "killed by SIGKILL"),
        ("ERROR Worker VllmWorkerProcess pid 32 died, exit code: -9", Speaker(tag="pid 32"), "killed by SIGKILL"),
        ("/job/go.sh: line 28: 8156 Aborted    (core dumped) python", Speaker(tag="pid 8156"), "killed by SIGABRT"),
        (
            "events\tPod: ml.train-worker-0 exited with code 137\t{}",
            Speaker(host="train-worker-0"),
            "killed by SIGKILL",
        ),
        (
            "> -:6015:6224 [1] misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer b<5>",
            Speaker(local_rank=1, host="-", tag="1"),
            "misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer b<5>",
        ),
    ],
)
def test_what_launchers_say(text: str, speaker: Speaker, summary: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"{text}\n").first
    assert first is not None
    assert (first.by, first.summary) == (speaker, summary)


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
    assert found.first is not None
    assert (found.first.role, found.first.by.rank) == (FailureRole.PEER, None)
    assert found.first.text == "torch.distributed.elastic.rendezvous.api.RendezvousClosedError"


def test_tasks_that_the_scheduler_has_ended(tmp_path: Path) -> None:
    log = "slurmstepd: error: *** STEP 60.0 ON node1 CANCELLED AT 2024 ***\nsrun: error: node1: task 0: Terminated\n"
    found = read(tmp_path, log)
    assert found.first is not None
    assert found.first.role is FailureRole.STOPPED
    assert [each.ranks for each in found.following] == [(0,)]


@pytest.mark.parametrize(("local", "sure"), [(1, False), (2, True), (0, True)])
def test_the_launcher_saw_another_process_fail_than_the_one_that_tells(local: int, sure: bool, tmp_path: Path) -> None:
    """Rank 2 is never the second process of a node, of whatever size."""
    launcher = f"E api.py:869] failed (exitcode: 1) local_rank: {local} (pid: 29) of binary: python"
    found = read(tmp_path, f"[rank2]: RuntimeError: Expected all tensors to be on the same device\n{launcher}\n")
    assert found.first is not None
    assert (found.first.by.rank, found.sure) == (2, sure)


_TABLE = (
    "Root Cause (first observed failure):\n[0]:\n  time      : 2025-03-24_16:14:25\n  host      : node1\n"
    "  rank      : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 13)\n====\n"
)


def test_who_ended_long_before_the_others_of_another_launcher_ended_first(tmp_path: Path) -> None:
    later = _TABLE.replace("2 (local_rank: 2)", "0 (local_rank: 0)").replace("16:14:25", "16:15:16")
    found = read(tmp_path, later + _TABLE)
    assert (found.alike, [each.ranks for each in found.following]) == ((2,), [(0,)])


def test_tasks_that_are_launchers(tmp_path: Path) -> None:
    found = read(tmp_path, _TABLE + "srun: error: node1: task 0: Exited with exit code 1\n")
    assert (found.alike, found.sure) == ((2,), False)


def test_a_table_without_its_root_cause(tmp_path: Path) -> None:
    found = read(tmp_path, _TABLE.replace("Root Cause (first observed failure):", "Failures:"))
    assert (found.alike, found.sure) == ((2,), False)


def test_whose_error_it_is_says_the_launcher(tmp_path: Path) -> None:
    launcher = (
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 3 (pid: 5) of binary"
    )
    first = read(tmp_path, f"{TRACEBACK}{launcher}\n").first
    assert first is not None
    assert (first.by.local_rank, first.summary) == (3, "KeyError: 'label'")


def test_the_end_of_an_error_is_more_than_that_a_peer_was_lost(tmp_path: Path) -> None:
    """The launcher names the rank that it saw end first, and that was the one that had lost its peer."""
    table = _TABLE.replace("2 (local_rank: 2)", "0 (local_rank: 0)")
    found = read(tmp_path, "[rank1]: KeyError: 'label'\n" + prefixed("[rank0]: ", PEER) + "\n" + table)
    assert found.first is not None
    assert (found.first.by.rank, found.sure) == (1, False)


def test_an_error_without_a_traceback_is_not_sure(tmp_path: Path) -> None:
    found = read(tmp_path, "step 1\nValueError: no such file, will try again\nstep 2\n")
    assert not found.sure


def test_an_error_in_a_replica_whose_traceback_is_cut_off(tmp_path: Path) -> None:
    caught = TRACEBACK.replace("KeyError: 'label'", "RuntimeError: Caught RuntimeError in replica 1 on device 1.")
    inner = (
        'Original Traceback (most recent call last):\n  File "/x/site-packages/torch/nn/parallel/a.py", line 3, in f\n'
    )
    first = read(tmp_path, caught + inner).first
    assert first is not None
    assert (first.place and first.place.line, first.summary[:33]) == (20, "RuntimeError: Caught RuntimeError")


def test_an_error_that_python_went_on_after(tmp_path: Path) -> None:
    ignored = "Exception ignored in: <function _Iter.__del__ at 0x7f>\n" + TRACEBACK.replace("20", "21")
    first = read(tmp_path, ignored + "\n" + TRACEBACK.replace("label", "image")).first
    assert first is not None
    assert (first.summary, first.place and first.place.line) == ("KeyError: 'image'", 20)


@pytest.mark.parametrize(
    ("told", "rank", "summary"),
    [
        (
            "mpirun noticed that process rank 1 with PID 4 on node a exited on signal 9 (Killed).",
            1,
            "killed by SIGKILL",
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
    assert first is not None
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
    assert first is not None
    assert (first.summary, first.role) == (summary, role)
    assert first.meaning is not None


def test_whose_the_loss_of_a_peer_was_is_not_guessed(tmp_path: Path) -> None:
    ends = "".join(f"failed (exitcode: 1) local_rank: {rank} (pid: 9) of binary: python\n" for rank in range(2))
    found = read(tmp_path, PEER + ends)
    assert found.first is not None
    assert (found.first.by.local_rank, found.first.text) == (0, "exit code 1")


def test_a_rank_of_a_spawn_of_which_only_the_begin_is_left(tmp_path: Path) -> None:
    log = '-- Process 3 terminated with the following error:\nTraceback (most recent call last):\n  File "/home/x/spa'
    first = read(tmp_path, log).first
    assert first is not None
    assert (first.by.rank, first.cut) == (3, True)


def test_tasks_for_which_memory_was_out(tmp_path: Path) -> None:
    log = (
        "slurmstepd: error: Detected 1 oom_kill event in StepId=4.0. Some of the step tasks have been OOM Killed.\n"
        "srun: error: node7: tasks 1-3: Out Of Memory\n"
        "slurmstepd: error: *** STEP 4.0 ON node7 CANCELLED AT 2023-12-05T07:16:01 ***\n"
    )
    found = read(tmp_path, log)
    assert found.alike == (1, 2, 3)
    assert found.first is not None
    assert found.first.meaning is OUT_OF_MEMORY


def test_an_error_whose_lines_ran_into_others(tmp_path: Path) -> None:
    """Two ranks write at once: the type of the error stands in a line of the source, and its text in one of its own."""
    log = (
        '    train(opt)  File "train.py", line 31, in train\n\n  File "train.py", line 31, in train\n'
        '    out = model(x)\nRuntimeErrorout = model(x)  File "/opt/lib/python3.7/site-packages/torch/m.py", line 1\n'
        ": \n"
        "Expected to have finished reduction in the prior iteration before starting a new one. This error\n"
        "Parameters which did not receive grad for rank 4: head.bias\n"
    )
    first = read(tmp_path, log).first
    assert first is not None
    assert first.by.rank == 4
    assert first.place is not None
    assert first.place.line == 31
    assert first.meaning is not None
    assert first.meaning.code == "GPU112"


@pytest.mark.parametrize(
    ("came", "word"), [("world_size=4, worker_count=16", "More processes"), ("world_size=8, worker_count=4", "Not all")]
)
def test_too_many_at_a_barrier_are_no_missing_ones(came: str, word: str) -> None:
    meaning = meaning_of(
        "RuntimeError: Timed out initializing process group in store based barrier on rank: 0, for key: "
        f"store_based_barrier_key:1 ({came}, timeout=0:30:00)"
    )
    assert meaning is not None
    assert meaning.means.startswith(word)


def test_who_cannot_connect_tries_again(tmp_path: Path) -> None:
    tries = (
        "[W socket.cpp:601] [c10d] The client socket has failed to connect to [node0]:43461 (errno: 113 - No route to "
        "host).\n"
    )
    alone = read(tmp_path, tries).first
    assert alone is not None
    assert alone.role is FailureRole.WAIT
    assert read(tmp_path, tries, TRACEBACK).first is not None
    assert "KeyError" in str(read(tmp_path, tries, TRACEBACK).first)


DIED = (
    "(raylet) A worker died or was killed while executing a task. Worker ID: f8ab Worker IP address: 10.0.0.7 Worker "
    "port: 10110 Worker PID: 912 Worker exit type: SYSTEM_ERROR\n"
)


def test_a_worker_of_ray_that_ended_is_not_the_driver(tmp_path: Path) -> None:
    found = read(tmp_path, DIED + TRACEBACK.rpartition("KeyError")[0])
    assert found.first is not None
    assert (found.first.by.tag, found.first.by.host, found.first.place) == ("pid=912", "10.0.0.7", None)


def test_nccl_names_the_gpu_and_python_the_rank(tmp_path: Path) -> None:
    warning = "node1:22:22 [0] bootstrap.cc:48 NCCL WARN Bootstrap : no socket interface found\n"
    first = read(tmp_path, warning + prefixed("[rank0]: ", TRACEBACK.rpartition("KeyError")[0])).first
    assert first is not None
    assert (first.by.rank, first.by.host, first.place and first.place.line) == (0, "node1", 20)
    assert "interface" in first.meaning.means if first.meaning else False


def test_a_kernel_names_no_rank_and_python_does(tmp_path: Path) -> None:
    kernel = "/x/Indexing.cu:1284: indexSelect: block: [37,0,0] Assertion `srcIndex < size` failed.\n"
    first = read(tmp_path, kernel + prefixed("[rank3]: ", TRACEBACK.rpartition("KeyError")[0])).first
    assert first is not None
    assert (first.by.rank, first.place and first.place.line) == (3, 20)
    assert "Assertion" in first.text


@pytest.mark.parametrize(
    ("frames", "path", "line"),
    [
        ("Cell In[16], line 29\n---> 29 trainer.train()\n\nFile /x/site-packages/a/b.py:7, in T.f(x)",
         "Cell In[16]", 29),
        ("<ipython-input-9-f1> in <module>\n      1 a\n----> 2 fit()\n\n~/x/site-packages/b.py in f(x)\n--> 7 y()",
         "<ipython-input-9-f1>", 2),
    ],
)  # fmt: skip
def test_a_traceback_of_a_notebook(frames: str, path: str, line: int, tmp_path: Path) -> None:
    text = f"RuntimeError      Traceback (most recent call last)\n{frames}\n\nRuntimeError: no gradient\n"
    first = read(tmp_path, text).first
    assert first is not None
    assert first.place is not None
    assert (first.place.path, first.place.line, first.summary) == (
        path,
        line,
        "RuntimeError: no gradient",
    )


def test_a_text_on_the_line_after_its_type(tmp_path: Path) -> None:
    first = read(tmp_path, "RuntimeError:\nDistributedDataParallel is not needed when a module doesn't have any "
                 "parameter that requires a gradient.\n").first  # fmt: skip
    assert first is not None
    assert first.meaning is not None
    assert first.meaning.code == "GPU118"


def test_a_call_whose_begin_is_cut_off(tmp_path: Path) -> None:
    first = read(
        tmp_path, "job/train.py\", line 18, in <module>\n    import a\nModuleNotFoundError: No module named 'a'"
    ).first
    assert first is not None
    assert first.place is not None
    assert (first.place.path, first.place.line) == ("job/train.py", 18)


def test_a_spawned_rank_is_named_where_its_traceback_is_cut_off(tmp_path: Path) -> None:
    parent = '  Traceback (most recent call last):\n    File "train.py", line 9, in main\n    spawn()\n  Exception:\n\n'
    first = read(tmp_path, f"{parent}  -- Process 7 terminated with the following error:\n  Traceb").first
    assert first is not None
    assert (first.by.rank, first.place) == (7, None)


@pytest.mark.parametrize("mark", ["`", '"', "'", "> ", "**", "“"])
def test_an_error_behind_a_mark(mark: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"{mark}Exception: Could not find the transformer layer class to wrap in the model.\n").first
    assert first is not None
    assert first.meaning is not None


def test_a_curly_apostrophe(tmp_path: Path) -> None:
    told = "RuntimeError: Lightning can\u2019t create new processes if CUDA is already initialized.\n"
    first = read(tmp_path, told).first
    assert first is not None
    assert first.meaning is not None


@pytest.mark.parametrize("before", ["    ", "  ", ""])
def test_a_traceback_that_is_indented_below_its_first_line(before: str, tmp_path: Path) -> None:
    first, *rest = TRACEBACK.splitlines()
    found = read(tmp_path, "\n".join([first, *(before + line for line in rest)]) + "\n\nAny idea?\n").first
    assert found is not None
    assert (found.summary, found.place and found.place.line) == ("KeyError: 'label'", 20)


def test_a_traceback_that_blanks_run_on(tmp_path: Path) -> None:
    told = " ".join(line.strip() for line in TRACEBACK.splitlines() if "~" not in line)
    first = read(tmp_path, f"> the same here. {told}\n").first
    assert first is not None
    assert (first.text, first.place and first.place.line) == ("KeyError: 'label'", 20)


def test_an_exit_that_came_later_is_not_alike(tmp_path: Path) -> None:
    one = "  time      : 2024-08-13_10:20:5{0}\n  rank      : {1} (local_rank: {1})\n  exitcode  : 1 (pid: 7)\n"
    text = f"[1]:\n{one.format(9, 3)}Root Cause (first observed failure):\n[0]:\n{one.format(4, 1)}"
    found = read(tmp_path, text)
    assert found.first is not None
    assert (found.first.by.rank, found.alike) == (1, (1,))


def test_an_error_that_is_quoted(tmp_path: Path) -> None:
    first = read(
        tmp_path, "I got\n`RuntimeError: ``sharded_state_dict`` can only be used when parameters are flatten`\n"
    ).first
    assert first is not None
    assert first.meaning is not None


def test_of_a_chain_the_library_says_what_it_was_for(tmp_path: Path) -> None:
    refused = TRACEBACK.replace("KeyError: 'label'", "socket.gaierror: [Errno -2] Name or service not known")
    handled = "\nDuring handling of the above exception, another exception occurred:\n\n"
    hub = TRACEBACK.replace("KeyError: 'label'", "OSError: We couldn't connect to 'https://huggingface.co' to load it")
    first = read(tmp_path, refused + handled + hub).first
    assert first is not None
    assert first.role is FailureRole.OWN
    assert first.meaning is not None
    assert "Hugging Face Hub" in first.meaning.means


def test_where_an_error_was_raised_says_what_it_means(tmp_path: Path) -> None:
    raised = TRACEBACK.replace("KeyError: 'label'", "FileNotFoundError: [Errno 2] No such file or directory: 'a'")
    inside = raised.replace("FileNotF", '  File "/usr/lib/python3.11/shutil.py", line 7, in _rmtree_safe_fd\nFileNotF')
    told = [read(tmp_path, text).first for text in (raised, inside)]
    assert [each.meaning.likely[-1] for each in told if each and each.meaning] == ["GPU610", "GPU608"]


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
    assert first is not None
    assert first.explained is not None
    assert word in first.explained.means


def test_a_traceback_that_is_cut_off_says_so(tmp_path: Path) -> None:
    first = read(tmp_path, TRACEBACK.rpartition("KeyError")[0]).first
    assert first is not None
    assert first.explained is not None
    assert "not the error itself" in first.explained.means


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
    assert first is not None
    assert first.meaning is not None


def test_a_package_that_runs_from_its_repository_is_no_line_of_the_program(tmp_path: Path) -> None:
    below = '  File "/work/fairscale/fairscale/nn/flatten.py", line 242, in load\n    load()\nKeyError'
    first = read(tmp_path, TRACEBACK.replace("KeyError", below)).first
    assert first is not None
    assert first.place is not None
    assert first.place.path == "/job/train.py"


def test_a_scheduler_that_tells_of_memory(tmp_path: Path) -> None:
    text = "slurmstepd: error: Detected 1 oom_kill event in StepId=43622791.0. Some of them.\n"
    found = read(tmp_path, prefixed("[rank0]: ", PEER) + text)
    assert found.first is not None
    assert "memory" in (found.first.meaning.means if found.first.meaning else "")


def test_a_job_that_was_told_to_end(tmp_path: Path) -> None:
    first = read(
        tmp_path, "slurmstepd: error: *** JOB 912 ON gpu7 CANCELLED AT 2024-05-07T15:51:09 DUE TO TIME LIMIT ***\n"
    ).first
    assert first is not None
    assert first.role is FailureRole.STOPPED


def test_a_launcher_that_speaks_in_the_middle_of_a_line(tmp_path: Path) -> None:
    launcher = "E1128 21:12:50 3139541 api.py:874] failed (exitcode: 1) local_rank: 0 (pid: 12) of binary: python"
    found = read(tmp_path, prefixed("[rank0]: ", PEER) + f"[rank1]: {launcher}\n")
    assert found.first is not None
    assert (found.first.by.rank, found.first.role, found.following) == (0, FailureRole.PEER, ())


def test_a_launcher_of_deepspeed(tmp_path: Path) -> None:
    line = "[2023-04-14 13:11:27,885] [ERROR] [launch.py:434] ['python3', 'main.py'] exits with return code = -9"
    found = read(tmp_path, line + "\n")
    assert found.first is not None
    assert found.first.summary == "killed by SIGKILL"


def test_a_traceback_that_an_editor_shows_the_other_way_round(tmp_path: Path) -> None:
    calls = [("/job/dist.py", 22, "setup", "rank = int(x)"), ("/job/train.py", 26, "main", "setup()")]
    shown = [*calls, ("/job/train.py", 98, "<module>", "main()")]
    text = "".join(f'  File "{path}", line {line}, in {name}\n    {source}\n' for path, line, name, source in shown)
    first = read(tmp_path, f"\n{text}").first
    assert first is not None
    assert first.place is not None
    assert (first.place.path, first.place.line) == ("/job/dist.py", 22)


def test_an_error_in_bold_letters(tmp_path: Path) -> None:
    first = read(
        tmp_path, TRACEBACK.replace("KeyError: 'label'", "**RuntimeError: CUDA out of memory.** Tried to")
    ).first
    assert first is not None
    assert (first.place and first.place.line, first.meaning and first.meaning.library) == (20, "torch")


@pytest.mark.parametrize(
    "line",
    [
        "[06/09 11:05:25 d2.engine.hooks]: Total training time: 0:01:02",
        "[2023-12-27 18:20:03,728][src.utils][INFO] - Closing loggers...",
        "srun: error: node1: task 1: Exited with exit code 1",
        "Killing subprocess 31867",
        "wandb: (1) Create a W&B account",
        "Exception ignored in atexit callback: <function f at 0x7>",
    ],
)
def test_what_others_say_does_not_belong_to_an_error(line: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"{TRACEBACK}{line}\n").first
    assert first is not None
    assert first.text == "KeyError: 'label'"


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        (
            "RuntimeError: Detected mismatch between collectives on ranks. Rank 3 is running collective: X, but Rank 1",
            3,
        ),
        ("RuntimeError: DDP expects same model across all ranks, but Rank 3 has 22 params, while rank 0 has", 3),
        ("AssertionError: Rank 3: found NaN in local grad norm in backward pass before data-parallel", 3),
        (
            'File "/opt/c.py", line 19, in work 3: torch.DistBackendError: NCCL error in: x, unhandled system error',
            3,
        ),
    ],
)
def test_an_error_that_names_who_tells_it(text: str, rank: int, tmp_path: Path) -> None:
    first = read(tmp_path, f"{text}\n").first
    assert first is not None
    assert first.by.rank == rank


def test_an_error_of_a_launcher_that_is_told_to_end_is_no_failure(tmp_path: Path) -> None:
    handler = (
        '  File "/x/site-packages/deepspeed/launcher/runner.py", line 548, in sigkill_handler\n'
        "    result_kill = subprocess.Popen(kill_cmd, env=env)\nNameError: free variable 'kill_cmd'\n"
    )
    found = read(tmp_path, f"Traceback (most recent call last):\n{handler}")
    assert found.first is not None
    assert found.first.role is FailureRole.STOPPED


def test_lines_that_ran_into_those_of_a_process_that_stands_less_far(tmp_path: Path) -> None:
    calls = ["train.py:266", "train.py:235", "engine.py:35", "train.py:266", "train.py:235"]
    begin = "Traceback (most recent call last):\n"
    lines = "".join('  File "/job/{}", line {}, in f\n'.format(*each.split(":")) for each in calls)
    first = read(tmp_path, f"{begin}{begin}{lines}RuntimeError: CUDA out of memory. Tried to\n").first
    assert first is not None
    assert (first.place and first.place.path, first.place and first.place.line) == ("/job/engine.py", 35)


def test_what_a_shell_and_the_scheduler_say_of_one_process(tmp_path: Path) -> None:
    log = "go.sh: line 28:  8156 Killed   python3 a.py\nslurmstepd: error: Detected 1 oom-kill event(s) in StepId=1\n"
    found = read(tmp_path, log)
    assert (found.first and found.first.meaning, found.sure, found.following) == (OUT_OF_MEMORY, True, ())


def test_whose_calls_those_of_the_only_error_are(tmp_path: Path) -> None:
    told = "Parameter indices which did not receive grad for rank 3: 0 1 2\n"
    cut = 'Traceback (most recent call last):\n  File "/job/train.py", line 28, in main\n    x = model(y)\n'
    first = read(tmp_path, told + cut).first
    assert first is not None
    assert (first.by.rank, first.place and first.place.line) == (3, 28)


def test_the_last_line_of_a_traceback_alone(tmp_path: Path) -> None:
    first = read(
        tmp_path, "RuntimeError: Expected to have finished reduction in the prior iteration before starting\n"
    ).first
    assert first is not None
    assert first.meaning is not None
    assert first.meaning.code == "GPU112"


def test_a_log_without_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "job.log"
    log.write_text("Epoch 1: loss 0.4\nrank: 3\nhost: gpu\n")
    assert cli.main(["read", str(log)]) == 0
    assert "No error was found in this log." in capsys.readouterr().out


# --- dumps of the flight recorder ---


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
    assert found.missing is not None
    assert (found.missing.ranks, found.missing.operation, found.sure) == ((2,), "all_reduce", True)
    assert found.first is not None
    assert found.first.place is not None
    assert (found.first.place.path, found.first.place.line) == ("/job/train.py", 44)


class _Code:
    def __reduce__(self) -> tuple[object, tuple[str]]:
        return print, ("this was run",)


def test_a_dump_runs_no_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "nccl_trace_rank_0").write_bytes(pickle.dumps({"entries": [_Code()]}))
    with pytest.raises(UsageError, match=r"it asks for `builtins\.print`"):
        read_logs([str(tmp_path)])
    assert not capsys.readouterr().out


# --- what errors mean ---


def test_each_rule_that_is_named_exists() -> None:
    codes = {code for each in ERROR_TEXTS for code in (each.code, *each.likely) if code}
    assert codes <= set(find_rules().by_code)


TEXTS = (
    # how the error reads, and a word of what it means
    ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity", "memory"),
    ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that", "shared memory"),
    ("RuntimeError: DataLoader worker (pid 80) exited unexpectedly with exit code 1. Details are", "by itself"),
    ("transport/p2p.cc:238 NCCL WARN failed to open CUDA IPC handle : 217 peer access is not supported", "cannot read"),
    ("include/alloc.h:112 NCCL WARN Cuda failure 999 'unknown error'", "CUDA inside of NCCL"),
    ("RuntimeError: DataLoader worker (pid(s) 12, 13) exited unexpectedly", "was killed"),
    ("Out of memory: Killed process 912 (python) total-vm:1kB", "kernel killed"),
    ("RuntimeError: [enforce fail at alloc_cpu.cpp:75] DefaultCPUAllocator: can't allocate memory", "no memory left"),
    ("OSError: [Errno 24] Too many open files", "files open"),
    ("RuntimeError: Expected to mark a variable ready only once. This error is caused by", "two backwards"),
    ("ValueError: DistributedDataParallel's input module must be on the same type of devices, but", "not on the GPU"),
    ("RuntimeError: Expected all tensors to be on the same device, but found at least two", "different devices"),
    ("RuntimeError: Input type (torch.FloatTensor) and weight type (torch.cuda.", "batch and the weights"),
    ("ncclInvalidUsage: This usually reflects\nLast error:\nDuplicate GPU detected : rank 1 and rank 0", "same GPU"),
    ("RuntimeError: CUDA error: invalid device ordinal", "does not have"),
    ("RuntimeError: Cannot re-initialize CUDA in forked subprocess. To use CUDA with", "forked"),
    ("RuntimeError: CUDA error: device-side assert triggered", "index"),
    ("RuntimeError: CUDA error: an illegal memory access was encountered", "read or wrote"),
    ("Memory access fault by GPU node-2 (Agent handle: 0x55) on address 0x7f. Reason: Page not present", "read or wr"),
    ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "has failed"),
    ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "no kernels"),
    ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040)", "driver is older"),
    ("RuntimeError: No CUDA GPUs are available", "sees no GPU"),
    ("RuntimeError: CUDA error: all CUDA-capable devices are busy or unavailable", "Another process has"),
    ("RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling", "library of CUDA"),
    ("ValueError: Default process group has not been initialized, please make sure to call", "never made"),
    ("ValueError: Error initializing: environment variable RANK expected", "launcher"),
    ("train.py: error: unrecognized arguments: --local-rank=0", "local rank"),
    ("AttributeError: 'Net' object has no attribute 'module'", "not wrapped here"),
    ("killed by SIGFPE", "processor refuses"),
    ("op_kernel.cc:1651] Unknown: Horovod has been shut down. This was caused by an exception", "Another process"),
    ("RuntimeError: arguments are located on different GPUs at /THC/generic/THCTensor.cu:27", "different devices"),
    ("train.py: error: unrecognized arguments: --local_rank=1 --data /data", "an option"),
    ("train.py: error: the following arguments are required: --data", "lacks one"),
    ("RuntimeError: DataLoader worker (pid 9) is killed by signal: Terminated.", "told to end"),
    ("misc/socket.cc:5 NCCL WARN socketStartConnect: Connect to 10.0.0.1<5> failed : No route to host", "interface"),
    ("socket.c:485 NCCL WARN socketStartConnect: Connect to 10.0.0.1<5> failed : Software caused", "could not connect"),
    ("bootstrap.cc:131 NCCL WARN Bootstrap Root : rank 1 of 8 ranks has already checked in", "with one rank"),
    ("init.cu:1197 NCCL WARN Mismatched collective detected, please check your collective calls", "different collec"),
    ("RuntimeError: Gloo connectFullMesh failed with [../third_party/gloo/gloo/transport/tcp", "gloo could not"),
    ("RuntimeError: [/third_party/gloo/gloo/transport/tcp/pair.cc:799] connect [10.0.0.1]:13195", "gloo could not"),
    ("RuntimeError: [enforce fail at gloo/common/linux.cc:3] ss1.ss_family == ss2.ss_family. 2 vs 10", "of IPv6"),
    ("ncclRemoteError: A call failed\nLast error:\nNET/IB : Got completion from peer b<5> with error 5", "InfiniBand"),
    ("ValueError: Size mismatch between saved torch.Size([4]) and current: torch.Size([5]) for", "does not fit"),
    ("python: can't open file '/var/spool/slurmd/job7/train.py': [Errno 2] No such file", "did not find"),
    ("RuntimeError: world_size (1) is not divisible by 2", "fewer processes"),
    ("AssertionError: pipeline_model parallel group is not initialized", "never made"),
    ("AssertionError: tensor model parallel group is not initialized", "never made"),
    ("AssertionError: Rank 11: found NaN in local grad norm in backward pass before data-parallel", "not a number"),
    ("ncclInvalidArgument: x\nLast error:\nInvalid config blocking attribute value -2147483648", "another version"),
    ("ImportError: /x/torch/lib/libtorch_cuda.so: undefined symbol: ncclCommRegister", "another version"),
    ("ValueError: `FlatParameter` requires uniform `requires_grad`", "frozen"),
    ("ValueError: Must flatten tensors with uniform dtype but got torch.bfloat16 and torch.float32", "dtypes"),
    ("RuntimeError: still have inflight params [{'id': 6, 'status': 'INFLIGHT', 'active_sub_modules': set()", "ZeRO-3"),
    ("RuntimeError: stack expects each tensor to be equal size, but got [3] at entry 0 and [4]", "different shapes"),
    ("wandb.errors.errors.CommError: failed to upsert bucket: returned error 403", "Weights & Biases"),
    ("OSError: [Errno 5] Input/output error: '/data/run'", "file system failed"),
    ("OSError: [Errno 116] Stale file handle: '/data/run'", "file system failed"),
    ("OSError: [Errno 122] Disk quota exceeded", "could not be written"),
    ("RuntimeError: PytorchStreamWriter failed writing file data/3: file write failed", "could not be written"),
    ("FileNotFoundError: [Errno 2] No such file or directory: 'part-0.bin'", "is not there"),
    ("ModuleNotFoundError: No module named 'flash_attn'", "environment"),
    ("NCCL WARN NET/IB : Got completion from peer 10.0.0.1<49189> with status=12 opcode=0 len=0", "other side"),
    ("NCCL WARN NET/IB : Got completion from peer 10.0.0.1<49189> with error 4, opcode 5327, len", "refused"),
    ("accelerate.utils.operations.DistributedOperationException: Cannot apply desired operation", "shapes differ"),
    ("DistNetworkError: The server socket has failed to listen on any local network address", "port"),
    ("DistStoreError: Timed out after 601 seconds waiting for clients. 1/2 clients joined.", "found each other"),
    ("RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is", "different collectives"),
    ("RuntimeError: No backend type associated with device type cpu", "CPU"),
    ("ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress", "stuck"),
    ("RuntimeError: NCCL error ncclRemoteError: A call failed possibly due", "Another process"),
    ("torch.distributed.elastic.multiprocessing.api.SignalException: Process 12 got signal: 15", "told to end"),
    ("DistBackendError: NCCL error in: x.cpp:1, unhandled cuda error", "CUDA inside of NCCL"),
    ("ncclSystemError: System call (e.g. socket, malloc) or external library call failed", "network"),
    ("ncclInternalError: Internal check failed.", "own"),
    ("ncclInternalError: Internal check.\nLast error:\nNet : Connection closed by remote peer", "Another process"),
    ("RuntimeError: CUDA error: out of memory", "no memory left"),
    ("misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-WU to 9637892 bytes", "NCCL could not make"),
    ("include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device", "NCCL could not make"),
    ("misc/ibvwrap.cc:284 NCCL WARN Call to ibv_modify_qp failed with error No such device", "InfiniBand"),
    ("RuntimeError: NCCL error in: x.hpp:82, invalid argument, NCCL version 2.4.8", "refuses"),
    ("RuntimeError: disagreement between rank0 and rank7: rank0: [1], rank7: [2]", "different orders"),
    ("AssertionError: {'id': 1, 'status': 'NOT_AVAILABLE', 'active_sub_modules': {2}}", "ZeRO-3"),
    ("../aten/src/ATen/native/cuda/Indexing.cu:1141: f: block: [6,0,0] Assertion `srcIndex < n` failed.", "index"),
    ("RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for a.weight: copying", "does not fit"),
    ("AssertionError: FSDP assumes block.0.weight is in the state_dict but the state_dict only has", "other names"),
    ("Received 1 death signal, shutting down workers", "terminal"),
    ("Received 15 death signal, shutting down workers", "told to end"),
    ("RuntimeError: Distributed package doesn't have NCCL built in", "no NCCL"),
    ("slurmstepd: error: execve(): torchrun: No such file or directory", "did not find"),
    ("A worker died or was killed while executing a task by an unexpected system error.", "Ray"),
    ("*** SIGABRT received at time=1734086759 ***", "Native code"),
    ("[gpu7:3039 :0:3095] Caught signal 7 (Bus error: nonexistent physical address)", "bus error"),
)  # fmt: skip


@pytest.mark.parametrize(("text", "word"), TEXTS, ids=[text[:40] for text, _ in TEXTS])
def test_what_an_error_means(text: str, word: str) -> None:
    meaning = meaning_of(text)
    assert meaning is not None
    assert word in meaning.means


@pytest.mark.parametrize(
    "text",
    ["KeyError: 'label'", "ValueError: lr must be positive", "AssertionError", "TypeError: forward()"],
)
def test_an_error_of_the_program_itself_is_not_explained(text: str) -> None:
    assert meaning_of(text) is None


@pytest.mark.parametrize("card", find_rules().cards, ids=lambda card: card.code)
def test_each_error_that_a_rule_declares_leads_to_it(card: RuleCard) -> None:
    """By its record, or as a possibility; but for what the wait of any rank ends with."""
    for text in load(card).errors:
        meaning = meaning_of(text)
        if meaning is None:
            found = {each.code for each in rules_that_declare(text)}
            assert not found or card.code in found, text
        elif meaning.code:
            assert card.code == meaning.code or text in _OF_SEVERAL, text


_OF_SEVERAL = frozenset(
    text
    for text, number in Counter(text for card in find_rules().cards for text in load(card).errors).items()
    if number > 1
)


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("ValueError: sampler option is mutually exclusive with shuffle", ("GPU303",)),
        ("RuntimeError: Optimizer state has not been consolidated on this rank. Please call", ("GPU606",)),
        (
            "UnboundLocalError: cannot access local variable 'logger' where it is not associated with a value",
            ("GPU470",),
        ),
        ("KeyError: 'label'", ()),
        ("ValueError: shapes (3,) and (4,) not aligned", ()),
    ],
)
def test_what_an_error_without_a_record_may_be(text: str, codes: tuple[str, ...]) -> None:
    assert tuple(card.code for card in rules_that_declare(text)) == codes


# --- as its user has it ---


def test_json_holds_what_the_page_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log = tmp_path / "job.log"
    log.write_text(prefixed("[rank0]: ", PEER) + prefixed("[rank1]: ", TRACEBACK))
    assert cli.main(["read", "--output-format", "json", str(log)]) == 1
    said = json.loads(capsys.readouterr().out)
    assert (said["first"]["rank"], said["first"]["line"], said["sure"]) == (1, 20, True)
    assert [each["ranks"] for each in said["following"]] == [[0]]
    _holds_to_its_schema(said)


def test_json_of_a_log_without_errors_and_of_ranks_that_wait(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for text in ("step 1 loss 0.3\n", _timeout(0, 880)):
        log = tmp_path / "job.log"
        log.write_text(text)
        cli.main(["read", "--output-format", "json", str(log)])
        _holds_to_its_schema(json.loads(capsys.readouterr().out))


def _holds_to_its_schema(said: dict[str, Any]) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schema = json.loads(make_schema.file_of("read").read_text(encoding="utf-8"))
    jsonschema.validate(said, schema)
    assert said.keys() == schema["properties"].keys()


def test_the_code_that_fits_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str], fixtures: Path) -> None:
    log = tmp_path / "job.log"
    program = fixtures / "programs" / "broken_ddp"
    log.write_text(_timeout(0, 880))
    assert cli.main(["read", str(log), "--code", str(program)]) == 1
    assert "lint finds GPU501" in " ".join(capsys.readouterr().out.split())


def test_what_explains_the_error_comes_before_what_stands_at_its_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = (
        "import torch",
        "import torch.distributed as dist",
        "from torch import nn",
        "class Net(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
        "        self.used, self.unused = nn.Linear(8, 2), nn.Linear(8, 2)",
        "    def forward(self, x):",
        "        return self.used(x)",
        'dist.init_process_group("gloo")',
        "model = nn.parallel.DistributedDataParallel(Net())",
        "optimizer = torch.optim.SGD(model.parameters(), 0.1)",
        "for _ in range(3):",
        "    model(torch.randn(4, 8)).sum().backward(); optimizer.step()",
    )
    program, log = tmp_path / "train.py", tmp_path / "job.log"
    program.write_text("\n".join(lines))
    raised = "RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one."
    log.write_text(
        f'[rank0]: Traceback (most recent call last):\n[rank0]:   File "{program}", line 14, in <module>\n'
        f"[rank0]:     model(torch.randn(4, 8)).sum().backward(); optimizer.step()\n[rank0]: {raised}\n"
    )
    assert cli.main(["read", str(log), "--code", str(program), "--output-format", "json"]) == 1
    found = json.loads(capsys.readouterr().out)["findings"]
    assert [each["code"] for each in found] == ["GPU112", "GPU709"]


def test_a_log_that_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "job.log").write_text("")
    assert cli.main(["read", str(tmp_path / "jop.log")]) == 2
    assert "did you mean" in capsys.readouterr().err


@pytest.mark.parametrize("before", [0, 20_000, 20_145, 60_000])
def test_where_stretches_of_a_file_meet(before: int, tmp_path: Path) -> None:
    """A traceback is found whole, with its lines counted, wherever the stretches are cut that are passed over."""
    first = read(tmp_path, "step 1 loss\n" * before + TRACEBACK + "step 1 loss\n" * 60_000 + PEER).first
    assert first is not None
    assert (first.summary, first.at.line) == ("KeyError: 'label'", before + 1)


def test_the_words_that_are_looked_for_first_are_in_all_that_tells() -> None:
    for text in (*(text for text, _ in TEXTS), _timeout(0, 1), _progress(0, 1, 2), *TRACEBACK.splitlines()[:1]):
        if readers._TELLING.search(text):
            assert readers._tells(text), text


@pytest.mark.slow
def test_a_log_is_read_as_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A night's output makes as little as a minute's: what says nothing is not kept."""
    kept: list[int] = []
    whole = lines.lines_of

    def counted(path: str, telling: Sequence[bytes]) -> Iterator[lines.LogLine]:
        for line in whole(path):
            if line.number % 20_000 == 0:
                kept.append(sum(type(each) is lines.LogLine for each in gc.get_objects()))
            yield line

    monkeypatch.setattr("gpudoctor.logs.readers.lines_of", counted)
    (tmp_path / "job.log").write_text("step 1 loss 0.5\n" * 100_000 + TRACEBACK)
    assert read_logs([str(tmp_path / "job.log")]).first is not None
    assert max(kept) <= 2


ABORTED = """terminate called after throwing an instance of 'gloo::EnforceNotMet'
  what():  [enforce fail at gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 8 vs 4.
"""


def _entry(rank: int, code: int, signal: str) -> str:
    return (
        f"[{rank}]:\n  time      : 2026-11-28_16:07:04\n  host      : localhost\n"
        f"  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: {50 + rank})  ({signal})\n"
        f"  error_file: <N/A>\n  traceback : Signal {-code} ({signal}) received by PID {50 + rank}\n"
    )


def test_what_a_process_said_before_it_was_aborted_is_its_error(tmp_path: Path) -> None:
    """Though the launcher has stopped another one, which had no time to say anything."""
    table = f"Failures:\n{_entry(1, -15, 'SIGTERM')}-----\nRoot Cause (first observed failure):\n"
    found = read(tmp_path, f"{ABORTED}train.py FAILED\n-----\n{table}{_entry(0, -6, 'SIGABRT')}=====\n")
    assert found.first is not None
    assert found.first.by.rank == 0
    assert found.first.meaning is not None
    assert found.first.meaning.likely == ("GPU501", "GPU512")
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
    assert first is not None
    assert (first.by.rank, first.role) == (1, FailureRole.STOPPED)


def test_a_program_that_its_installer_started_is_named(tmp_path: Path) -> None:
    calls = (
        '  File "C:\\Python37_64\\lib\\runpy.py", line 193, in _run_module_as_main\n'
        '  File "C:\\x\\venv\\Scripts\\gan.exe\\__main__.py", line 7, in <module>\n'
        '  File "/x/envs/a/bin/gan", line 8, in <module>\n'
        '  File "/x/envs/a/lib/python3.8/site-packages/gan/cli.py", line 163, in train\n'
    )
    first = read(tmp_path, f"Traceback (most recent call last):\n{calls}KeyError: 'x'\n").first
    assert first is not None
    assert first.place is not None
    assert first.place.line == 163


def test_a_traceback_after_control_c_is_of_a_program_that_was_stopped(tmp_path: Path) -> None:
    first = read(tmp_path, '^CTraceback (most recent call last):\n  File "a.py", line 3, in <module>\n    f()\n').first
    assert first is not None
    assert first.role is FailureRole.STOPPED


def test_an_error_in_a_list_of_bold_ones(tmp_path: Path) -> None:
    first = read(tmp_path, "I get:\n+ **KeyError: 'x'**\n").first
    assert first is not None


def test_colours_of_which_the_escape_has_become_another_sign(tmp_path: Path) -> None:
    red = "\ufffd[36m(Worker pid=4183, ip=10.3.32.122)\ufffd[0m "
    first = read(tmp_path, prefixed(red, TRACEBACK)).first
    assert first is not None
    assert first.by.host == "10.3.32.122"


def test_a_rank_that_was_told_of_a_timeout_has_waited(tmp_path: Path) -> None:
    first = read(
        tmp_path,
        "[rank0]:[E804 23:05:54.8 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump "
        "signal due to a collective timeout from  rank 13. Last enqueued NCCL work: 1261, last completed NCCL work: 9.",
    ).first
    assert first is not None
    assert (first.by.rank, first.role) == (0, FailureRole.WAIT)


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
    assert found.first is not None
    assert (found.first.summary, found.first.by.rank) == ("ValueError: no such split", 1)
    assert found.first.place is not None
    assert found.first.place.line == 41
    assert [each.summary for each in found.earlier] == ["KeyError: 'label'"]
    assert found.following == ()
    assert not found.last_run


def test_launchers_of_several_nodes_are_one_run(tmp_path: Path) -> None:
    """All begin before one fails."""
    found = read(tmp_path, f"{OMP}{OMP}{TRACEBACK}{ENDED}{PEER}")
    assert found.first is not None
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


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ("ValueErrorValueError: : no objectno object", "ValueError: no object"),
        ("ssl.libssl.lib..SSLErrorSSLError: : refusedrefused", "ssl.lib.SSLError: refused"),
        ("a.ba.ba.b...NotFoundErrorNotFoundErrorNotFoundError: : : lost", "a.b.NotFoundError: lost"),
        ("ValueErrorValueError", "ValueError"),
    ],
)  # fmt: skip
def test_processes_that_write_their_last_lines_at_once(line: str, text: str, tmp_path: Path) -> None:
    frame = '  File "/job/train.py", line 20, in main\n'
    begin = "Traceback (most recent call last):\n"
    first = read(tmp_path, f"{begin}{begin}{frame}{frame}    label()\n{line}\n").first
    assert first is not None
    assert first.text == text
    assert first.place is not None
    assert first.place.line == 20


@pytest.mark.parametrize(
    "between",
    ["Map:   0%|          | 0/232 [00:00<?, ?", "ERROR: torch.distributed: failed", "train.py: 188: FutureWarning: old",
     "wandb: View run at x"],
)  # fmt: skip
def test_output_between_the_calls_is_no_error(between: str, tmp_path: Path) -> None:
    lines = TRACEBACK.splitlines(keepends=True)
    first = read(tmp_path, "".join([*lines[:2], f"{between}\n", *lines[2:]])).first
    assert first is not None
    assert first.text == "KeyError: 'label'"


@pytest.mark.parametrize(
    "after",
    ["2024-06-07 20:35:09 - LOGS    - Training took 00:07:53.28", "[I ProcessGroupNCCL.cpp:844] ended normally",
     "/opt/python3.10/resource_tracker.py:224: UserWarning: resource_tracker: There appear to be 400 leaked objects",
     "Process SpawnProcess-1:", "Set the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace."],
)  # fmt: skip
def test_what_does_not_belong_to_the_text_of_an_error(after: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"{TRACEBACK}{after}\n").first
    assert first is not None
    assert first.text == "KeyError: 'label'"


def test_a_text_goes_on_where_each_line_has_a_time(tmp_path: Path) -> None:
    text = TRACEBACK.replace("KeyError: 'label'", "ValueError: first\nand second")
    first = read(tmp_path, prefixed("2024-05-07T15:51:09.140Z ", text)).first
    assert first is not None
    assert first.text == "ValueError: first\nand second"


def test_an_error_that_led_to_the_one_of_a_spawned_rank(tmp_path: Path) -> None:
    """It is logged by the program, too, which does not know its rank."""
    second = TRACEBACK.replace("KeyError: 'label'", "RuntimeError: no batch")
    chain = f"{TRACEBACK}\nDuring handling of the above exception, another exception occurred:\n\n{second}"
    told = f"-- Process 3 terminated with the following error:\n{chain}"
    found = read(tmp_path, f"2024-06-07 20:35:09 - ended\n{chain}2024-06-07 20:35:10 - end\n{told}")
    assert found.first is not None
    assert (found.first.by.rank, found.first.summary, found.following) == (3, "RuntimeError: no batch", ())


def test_a_port_that_is_told_by_native_code_and_by_python(tmp_path: Path) -> None:
    refused = "The server socket has failed to listen on any local network address."
    text = TRACEBACK.replace("KeyError: 'label'", f"torch.distributed.DistNetworkError: {refused}")
    found = read(
        tmp_path, f"[E socket.cpp:500] [c10d] {refused}\n-- Process 0 terminated with the following error:\n{text}"
    )
    assert found.first is not None
    assert found.first.place is not None
    assert (found.first.by.rank, found.first.place.line, found.following) == (0, 20, ())


def test_an_abort_after_the_watchdog_is_no_failure_of_its_own(tmp_path: Path) -> None:
    stack = 'Current thread 0x01 (most recent call first):\n  File "/job/a.py", line 3 in <module>\n\n'
    dump = f"Fatal Python error: Aborted\n\n{stack}"
    found = read(tmp_path, f"{_timeout(0, 880)}{_timeout(1, 880)}{dump}")
    assert found.first is not None
    assert found.first.role is FailureRole.WAIT


@pytest.mark.parametrize("end", ["Terminated\n", TRACEBACK.replace("KeyError: 'label'", "KeyboardInterrupt")])
def test_who_was_stopped_before_the_others_waited(end: str, tmp_path: Path) -> None:
    found = read(tmp_path, f"{end}{_timeout(0, 880)}{_timeout(1, 880)}")
    assert found.first is not None
    assert found.first.role is FailureRole.STOPPED
    after = read(tmp_path, f"{_timeout(0, 880)}{_timeout(1, 880)}{end}")
    assert after.first is not None
    assert after.first.role is FailureRole.WAIT


def test_a_library_that_runs_from_its_repository_is_not_the_program(tmp_path: Path) -> None:
    called = '  File "/opt/NeMo/nemo/core/classes/common.py", line 524, in from_config_dict\n    raise e\n'
    first = read(tmp_path, TRACEBACK.replace("KeyError", f"{called}KeyError")).first
    assert first is not None
    assert first.place is not None
    assert first.place.path == "/job/train.py"


@pytest.mark.parametrize(
    "said",
    ["2024-07-14 12:19:55 - LOGS    - Keyboard interruption. Exiting from early training",
     "Detected KeyboardInterrupt, attempting graceful shutdown ..."],
)  # fmt: skip
def test_a_program_that_says_that_it_was_stopped(said: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"step 1\n{said}\n").first
    assert first is not None
    assert first.role is FailureRole.STOPPED
    assert first.meaning is not None
    assert "Ctrl-C" in first.meaning.means


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
    assert found.first is not None
    assert (found.first.summary, found.following) == ("KeyError: 'label'", ())
    alone = read(tmp_path, thread).first
    assert alone is not None
    assert alone.role is FailureRole.PEER
