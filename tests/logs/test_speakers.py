"""Who says a line: what launchers, schedulers and people put in front of it."""

from pathlib import Path

import pytest

from gpudoctor.logs import lines
from gpudoctor.logs.error_texts.error_text import FailureRole
from gpudoctor.logs.speakers import Speaker, said, speaker_of
from tests.logs.samples import TRACEBACK, prefixed, read, timeout


@pytest.mark.parametrize(
    ("prefix", "speaker"),
    [
        ("[rank3]: ", Speaker(rank=3)),
        ("[default3]:", Speaker(local_rank=3, tag="default3")),
        ("[trainer3]:", Speaker(local_rank=3, tag="trainer3")),
        ("[gpu-187:3]:", Speaker(local_rank=3, host="gpu-187", tag="3")),
        ("3: ", Speaker(rank=3)),
        ("[1,3]<stderr>:", Speaker(rank=3)),
        ("[3]<stderr>:", Speaker(rank=3)),
        ("[stderr]", Speaker()),
        ("llm.node1.nolog [stderr] [rank3]: ", Speaker(rank=3, host="llm.node1.nolog")),
        ("(RayTrainWorker pid=912, ip=10.0.0.7) ", Speaker(host="10.0.0.7", tag="RayTrainWorker pid=912")),
        ("(pid=912) ", Speaker(tag="pid=912")),
        ("(Policy[rank=31] pid=32, ip=10.1.1.2) ", Speaker(rank=31, host="10.1.1.2", tag="Policy[rank=31] pid=32")),
        ("Fri Sep 25 16:52:57 2020[3]<stderr>:", Speaker(rank=3)),
        ("gpu-node7: [rank3]: ", Speaker(rank=3, host="gpu-node7")),
        ("675d-5: [rank3]: ", Speaker(rank=3, host="675d-5")),
        ("10.0.0.7: [rank3]: ", Speaker(rank=3, host="10.0.0.7")),
        ("2024-05-07T15:51:09.140Z [rank3]: ", Speaker(rank=3)),
        ("[pod/train-worker-0/pytorch] [rank3]: ", Speaker(rank=3, host="train-worker-0")),
        ("[1784] [rank3]:", Speaker(rank=3)),
        ("[RANK 3] ", Speaker(rank=3)),
        ("2022-12-28 16:13:02 [ERROR]  ", Speaker()),
        ("[rank: 3] ", Speaker(rank=3)),
        ("Oct 16 02:07:00 [rank3]: ", Speaker(rank=3)),
        ("stderr: [rank3]: ", Speaker(rank=3)),
        ("E0527 16:53:14.480000 391100 torch/distributed/elastic/multiprocessing/api.py:737] ", Speaker()),
        ("2025-10-31 03:11:02,473 - tuner.cli - INFO - [rank3]: ", Speaker(rank=3)),
        ("ERROR: ", Speaker()),
        ("CRITICAL [job.util:158, rank=3] ", Speaker(rank=3)),
        ("(VllmWorker rank=3 pid=9) ", Speaker(rank=3, tag="VllmWorker rank=3 pid=9")),
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
    assert (first.text, first.by.host) == ("KeyError: 'label'", host)
    assert first.place.line == 20


def test_a_node_that_tells_its_error_above_the_calls(tmp_path: Path) -> None:
    calls = TRACEBACK.rpartition("KeyError")[0]
    first = read(tmp_path, prefixed("node3: ", f"RuntimeError: a plan is missing\n{calls}")).first
    assert (first.text, first.by.host, first.place.line) == ("RuntimeError: a plan is missing", "node3", 20)


def test_a_column_in_front_of_lines(tmp_path: Path) -> None:
    first = read(tmp_path, prefixed("        | [rank3]: ", TRACEBACK)).first
    assert (first.text, first.by.rank) == ("KeyError: 'label'", 3)


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


def test_a_progress_bar_in_front(tmp_path: Path) -> None:
    bar = "".join(f"\r 1021/100000 [45:{second:02}<51:20:53,  1.87s/it]" for second in range(60))
    first = read(tmp_path, f"{bar}{timeout(2, 45390)}\n").first
    assert (first.by.rank, first.role) == (2, FailureRole.WAIT)


def test_colours_are_taken_off() -> None:
    assert lines._plain(b"\x1b[36m(RayWorker pid=4)\x1b[0m Traceback") == "(RayWorker pid=4) Traceback"
    assert lines._plain(b"[36m(RayWorker pid=4) x") == "(RayWorker pid=4) x"


def test_ranks_that_torch_names_itself(tmp_path: Path) -> None:
    told = "\t   - [1] finished collective #2, but didn't join collective #3 (count from 1)"
    found = read(tmp_path, f"{timeout(0, 3)}\n{told}\n")
    assert (found.missing.ranks, found.sure) == ((1,), True)


def test_a_message_that_runs_on_behind_a_progress_bar_and_is_cut_off(tmp_path: Path) -> None:
    bar = "  1%|1         | 24/1752 [01:08<1:22:56,  2.88s/it]"
    first = read(
        tmp_path, f"{bar}[rank5]:[E602 11:17:52.1 x.cpp:632] [Rank 5] Watchdog caught collective operati\n"
    ).first
    assert (first.by.rank, first.role) == (5, FailureRole.WAIT)
    assert "did not end in its time" in (first.meaning.means if first.meaning else "")


@pytest.mark.parametrize("mark", ["`", '"', "'", "> ", "**", "“"])
def test_an_error_behind_a_mark(mark: str, tmp_path: Path) -> None:
    first = read(tmp_path, f"{mark}Exception: Could not find the transformer layer class to wrap in the model.\n").first
    assert first.meaning is not None


def test_a_curly_apostrophe(tmp_path: Path) -> None:
    told = "RuntimeError: Lightning can\u2019t create new processes if CUDA is already initialized.\n"
    first = read(tmp_path, told).first
    assert first.meaning is not None


def test_an_error_that_is_quoted(tmp_path: Path) -> None:
    first = read(
        tmp_path, "I got\n`RuntimeError: ``sharded_state_dict`` can only be used when parameters are flatten`\n"
    ).first
    assert first.meaning is not None


def test_an_error_in_bold_letters(tmp_path: Path) -> None:
    first = read(
        tmp_path, TRACEBACK.replace("KeyError: 'label'", "**RuntimeError: CUDA out of memory.** Tried to")
    ).first
    assert (first.place and first.place.line, first.meaning and first.meaning.library) == (20, "torch")


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("RuntimeError: [1] is setting up NCCL communicator and retreiving ncclUniqueId from [0] via c10d", 1),
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
    assert first.by.rank == rank


def test_an_error_in_a_list_of_bold_ones(tmp_path: Path) -> None:
    first = read(tmp_path, "I get:\n+ **KeyError: 'x'**\n").first
    assert first is not None


def test_colours_of_which_the_escape_has_become_another_sign(tmp_path: Path) -> None:
    red = "\ufffd[36m(Worker pid=4183, ip=10.3.32.122)\ufffd[0m "
    first = read(tmp_path, prefixed(red, TRACEBACK)).first
    assert first.by.host == "10.3.32.122"


@pytest.mark.parametrize("front", ["# ", "704.7s\t1462\t", "12.1s 7 ", "ERROR 04-14 13:53:52 worker_base.py:593] "])
def test_what_people_and_notebooks_put_in_front(front: str, tmp_path: Path) -> None:
    first = read(tmp_path, prefixed(front, TRACEBACK)).first
    assert first.summary == "KeyError: 'label'"
    assert first.place is not None


WORKERS = (
    "(TorchTrainer pid=900) Started distributed worker processes: \n"
    "(TorchTrainer pid=900) - (node_id=ab12, ip=10.0.0.1, pid=912) world_rank=0, local_rank=0, node_rank=0\n"
    "(TorchTrainer pid=900) - (node_id=cd34, ip=10.0.0.2, pid=912) world_rank=1, local_rank=0, node_rank=1\n"
    "(TorchTrainer pid=900) - (node_id=cd34, ip=10.0.0.2, pid=913) world_rank=2, local_rank=1, node_rank=1\n"
)


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        (WORKERS + prefixed("(RayTrainWorker pid=912, ip=10.0.0.2) ", TRACEBACK), 1),
        (WORKERS + prefixed("(RayTrainWorker pid=914, ip=10.0.0.2) ", TRACEBACK), None),
        (
            "(RayTrainWorker pid=912) Setting up process group for: env:// [rank=0, world_size=2]\n"
            "(RayTrainWorker pid=913) Setting up process group for: env:// [rank=1, world_size=2]\n"
            + prefixed("(RayTrainWorker pid=913) ", TRACEBACK),
            1,
        ),
        (
            f"{WORKERS}A worker died or was killed while executing a task by an unexpected system error. "
            "Worker IP address: 10.0.0.2 Worker port: 1 Worker PID: 913",
            2,
        ),
        (
            f"{WORKERS}ray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n"
            "\tclass_name: RayTrainWorker\n\tpid: 912\n\tnamespace: 8789\n\tip: 10.0.0.2\nThe actor is dead: "
            "Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error.",
            1,
        ),
    ],
)
def test_workers_of_ray_that_are_named_by_their_process(text: str, rank: int | None, tmp_path: Path) -> None:
    first = read(tmp_path, text).first
    assert first is not None
    assert first.by.rank == rank


def test_an_error_that_a_logger_tells_with_the_rank(tmp_path: Path) -> None:
    """Whoever prints it first has none."""
    error = "HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://huggingface.co/api/datasets/glue"
    first = read(tmp_path, f"{error}\n[2030-04-18 15:55:06] CRITICAL [job.util:158, rank=6] Uncaught {error}\n").first
    assert first is not None
    assert first.by.rank == 6


def test_an_error_of_a_worker_behind_the_labels_of_srun(tmp_path: Path) -> None:
    worker = f"KeyError: Caught KeyError in DataLoader worker process 1.\nOriginal {TRACEBACK}"
    calls = 'Traceback (most recent call last):\n  File "/job/main.py", line 5, in <module>\n    raise exception\n'
    first = read(tmp_path, prefixed("1: ", calls + worker)).first
    assert (first.by.rank, first.place.path, first.text) == (1, "/job/train.py", "KeyError: 'label'")
