"""Pieces of logs, and how a test reads them."""

from pathlib import Path

from gpudoctor.logs.diagnosis import LogDiagnosis
from gpudoctor.logs.job_logs import read_logs

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


def timeout(rank: int, number: int, operation: str = "ALLREDUCE") -> str:
    return (
        f"[rank{rank}]:[E602 11:17:52.399340163 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective "
        f"operation timeout: WorkNCCL(SeqNum={number}, OpType={operation}, NumelIn=8, NumelOut=8, Timeout(ms)=600000) "
        "ran for 600080 milliseconds before timing out."
    )


def progress(rank: int, failed: int, enqueued: int) -> str:
    return (
        f"[rank{rank}]:[E602 11:17:52 ProcessGroupNCCL.cpp:2268] [PG ID 1 PG GUID 1(default_pg) Rank {rank}]  failure "
        f"detected by watchdog at work sequence id: {failed} PG status: last enqueued work: {enqueued}, last completed "
        f"work: {failed - 1}"
    )


TABLE = (
    "Root Cause (first observed failure):\n[0]:\n  time      : 2025-03-24_16:14:25\n  host      : node1\n"
    "  rank      : 2 (local_rank: 2)\n  exitcode  : 1 (pid: 13)\n====\n"
)
