"""What collectors, editors and people put around each line of a log: rank, line and cause are found all the same."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from gpudoctor.logs.job_logs import read_logs
from tests.logs.samples import PEER, TABLE, TRACEBACK, prefixed

LOG = prefixed("[rank2]: ", TRACEBACK) + prefixed("[rank0]: ", PEER) + TABLE
IN_FRONT = (
    "", "> ", ">> ", "    ", "\t", "\x1b[31m", "2025-03-29T16:14:25.{:09d}Z ", "2025-03-29T16:14:25.{:09d}Z stderr F ",
    "[pod/job-worker-0/pytorch] ", "job-worker-0 pytorch ", "trainer-1  | ", "Mar 29 16:14:25 node1 python[1234]: ",
    "2025-03-29T16:14:25+0000 node1 python[1234]: ", "train (gpu)\tRun tests\t2025-03-29T16:14:25.{:07d}Z ",
    "2025-03-29T16:14:25.{:06d}Z 01O ", "2025/03/29 16:14:25 ", "[1,mpirank:1,algo-1]<stderr>:", "1743264865{:03d}\t",
    "(RayTrainWorker pid=13, ip=10.0.0.1) ", "{:5d}  ", "{}:", "logs/train.log:{}:", "16:14:25 ",
    "2025-03-29 16:14:25,123 - ERROR - ", "2025-03-29 16:14:25,123 ERROR train: ",
    "2025-03-29 16:14:25.123 | ERROR    | __main__:main:20 - ", "# ", "wandb: ", "(head, rank=0, pid=1234) ",
    "ERROR 2025-03-29T16:14:25.123Z [resource.labels.taskName: workerpool0-0] ", "[node0] ",
)  # fmt: skip
AROUND: dict[str, Callable[[str], str]] = {
    "lines of Windows": lambda text: text.replace("\n", "\r\n"),
    "Docker's JSON": lambda text: "".join(
        json.dumps({"log": f"{line}\n", "stream": "stderr"}) + "\n" for line in text.splitlines()
    ),
    "a collector's JSON": lambda text: "".join(
        json.dumps({"severity": "ERROR", "message": line}) + "\n" for line in text.splitlines()
    ),
    "one JSON": lambda text: json.dumps({"message": text}),
    "repr": repr,
    "HTML": lambda text: text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;"),
    "a list of quoted lines": lambda text: "".join(f"- `{line}`\n" for line in text.splitlines()),
    "broken at 80 columns": lambda text: "\n".join(
        line[at : at + 80] for line in text.splitlines() for at in range(0, len(line) or 1, 80)
    ),
    "a blank line after each": lambda text: text.replace("\n", "\n\n"),
}


def judge(folder: Path, text: str, encoding: str = "utf-8") -> None:
    (folder / "job.log").write_bytes(text.encode(encoding))
    first = read_logs([str(folder)]).first
    assert (first.by.rank, first.place.path, first.place.line) == (2, "/job/train.py", 20)
    assert first.text.startswith("KeyError: 'label'")


@pytest.mark.parametrize("front", IN_FRONT)
def test_something_stands_in_front_of_each_line(front: str, tmp_path: Path) -> None:
    judge(tmp_path, "".join(f"{front.format(at)}{line}\n" for at, line in enumerate(LOG.splitlines(), 1)))


@pytest.mark.parametrize("around", AROUND)
def test_lines_are_kept_in_another_form(around: str, tmp_path: Path) -> None:
    judge(tmp_path, AROUND[around](LOG))


def test_what_powershell_has_written(tmp_path: Path) -> None:
    judge(tmp_path, LOG, "utf-16")


def test_a_row_of_the_table_is_no_front(tmp_path: Path) -> None:
    """With `@record` the launcher's table has the traceback in it."""
    table = TABLE.replace("====\n", "  traceback : ") + prefixed("  ", TRACEBACK).lstrip()
    judge(tmp_path, table)


@pytest.mark.parametrize(
    "line",
    [
        "node7:6015:6225 [1] init.cc:871 NCCL WARN Duplicate GPU detected : rank 3 and rank 0 both on CUDA device 4000",
        "OMP: Error #15: Initializing libiomp5.so, but found libiomp5.so already initialized.",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB.",
    ],
)
def test_a_line_that_tells_by_itself_shows_its_front(line: str, tmp_path: Path) -> None:
    found = []
    for front in ("", "16:14:25 job[7]: "):
        (tmp_path / "job.log").write_text(f"{front}step 9\n{front}{line}\n")
        first = read_logs([str(tmp_path)]).first
        assert first.meaning is not None
        found.append((first.by, first.meaning))
    assert found[0] == found[1]
