"""Ranks that do not advance: who waits where, and where the others are."""

import os
import signal
import socket
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from gpudoctor.ranks.process_tree import ON_LINUX
from gpudoctor.run.unresponsive import SIGNAL, stack_of
from tests.support import warm
from tests.support.installs import require_torch
from tests.support.watching import TRAINING, Watched, environment, watch

require_torch()
LONG = TRAINING.replace("range(2)", "range(99)")
UNEVEN = (
    TRAINING.replace("range(2)", "range(1)")
    .replace("64", "2401 + dist.get_rank() * 8")
    .replace("DistributedSampler(data)", "torch.utils.data.RandomSampler(data)")
    .replace("    sampler.set_epoch(epoch)\n", "")
) + "dist.barrier()\n"
"""Rank 1 has one batch more than the 301 of rank 0."""
OLD = tuple(map(int, version("torch").split(".")[:2])) < (2, 8)


def line_of(program: str, part: str) -> int:
    """The number of the line that holds `part`."""
    return next(number for number, text in enumerate(program.splitlines(), 1) if part in text)


def hang(folder: Path, program: str) -> Watched:
    """Watch the program on two ranks until they are seen to stand still."""
    (folder / "train.py").write_text(program)
    return watch(folder, "--nproc-per-node", "2", "--hang-after", "8", "--kill-on-hang", "train.py")


def test_a_hang_is_told_and_ended_where_that_is_wanted(tmp_path: Path) -> None:
    leaves = "        if epoch == 1 and dist.get_rank() == 0:\n            dist.barrier()\n"
    watched = hang(tmp_path, TRAINING + leaves)
    line = line_of(TRAINING + leaves, "barrier")
    assert watched.status == 1
    assert "Rank 0 waits " in watched.err
    assert watched.report["hang_verdict"] == {"kind": "collectives differ", "ranks": []}
    assert {(each["rank"], each["line"]) for each in watched.report["hang"]} == {(0, line), (1, line - 3)}
    # Before torch 2.8 the flight recorder had no place for gloo.
    told = {each["collective"] for each in watched.report["hang"]}
    assert told == ({None} if OLD else {"barrier", "all_reduce"})
    assert watched.codes == {"GPU501"}


def test_ranks_that_name_different_sources_are_told_at_once(tmp_path: Path) -> None:
    watched = hang(tmp_path, TRAINING + "dist.broadcast_object_list([epoch], src=dist.get_rank())\n")
    assert "name different ranks in it: rank 0 `src=0`, rank 1 `src=1`." in " ".join(watched.err.split())
    assert watched.report["hang_verdict"] == {"kind": "collectives differ", "ranks": []}
    assert watched.codes == set()


@pytest.mark.skipif(not warm.available(), reason="its process is forked")
def test_a_hang_that_is_interrupted_is_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = TRAINING + "if dist.get_rank() == 0:\n    dist.all_reduce(loss.detach())\ndist.barrier()\n"
    (tmp_path / "train.py").write_text(program)
    # The launcher gives its ranks, which hear nothing in there, so many seconds to end.
    monkeypatch.setenv("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", "1")
    command = [sys.executable, "-m", "gpudoctor", "run", "--nproc-per-node", "2", "--hang-after", "8", "train.py"]
    process = warm.Process(command, cwd=tmp_path, env=environment())
    # Where they come to the group one by one, those that are early may have to wait for long, too.
    process.until(f"train.py:{line_of(program, '    dist.all_reduce')}", 300)
    # What somebody does who reads that.
    os.kill(process.pid, signal.SIGINT)
    _, told = process.communicate(300)
    report = told.rpartition("gpudoctor run\n")[2]
    assert f"train.py:{line_of(program, '    dist.all_reduce')}:1: error: GPU501" in report
    assert "confirmed   GPU501" in report
    assert "not reached" not in report


def test_one_collective_more_that_gloo_ends_is_confirmed(tmp_path: Path) -> None:
    """The others are at their end: no rank waits, but one is cut off, and the launcher fails for it."""
    leaves = "if dist.get_rank() == 0:\n    dist.barrier()\n"
    (tmp_path / "train.py").write_text(TRAINING + leaves)
    watched = watch(tmp_path, "--nproc-per-node", "2", "train.py")
    assert watched.codes == {"GPU501"}
    (suspicion,) = watched.report["suspicions"]
    assert (suspicion["code"], suspicion["state"]) == ("GPU501", "confirmed")


def test_a_rank_that_gloo_ends_is_told_where_it_stood(tmp_path: Path) -> None:
    """It has sent a number, and the other rank expected gradients: native code ends it, and Python raises nothing."""
    calls = "        if epoch == 1 and dist.get_rank() == 0:\n            dist.all_reduce(torch.ones(1))\n"
    (tmp_path / "train.py").write_text(TRAINING + calls)
    watched = watch(tmp_path, "--nproc-per-node", "2", "train.py", cold=True)
    (finding,) = watched.report["findings"]
    assert (finding["code"], finding["line"]) == ("GPU501", line_of(TRAINING + calls, "all_reduce"))
    assert "gloo ended rank 0" in finding["message"] or "gloo ended rank 1" in finding["message"]


def test_beyond_the_steps_that_are_all_looked_at_a_hang_is_told_as_well(tmp_path: Path) -> None:
    leaves = "        if epoch == 75 and dist.get_rank() == 0:\n            dist.barrier()\n"
    watched = hang(tmp_path, LONG + leaves)
    line = line_of(LONG + leaves, "barrier")
    assert {(each["rank"], each["line"]) for each in watched.report["hang"]} == {(0, line), (1, line - 3)}
    # The step after which it happens is one of those that are only counted.
    assert [rank["steps"] for rank in watched.report["ranks"]] == [301, 301]
    assert watched.codes == {"GPU501"}


def test_a_rank_that_ran_out_of_batches_late_is_no_collective_on_some_ranks(tmp_path: Path) -> None:
    watched = hang(tmp_path, UNEVEN)
    (found,) = (each for each in watched.report["findings"] if each["severity"] == "error")
    assert found["code"] == "GPU316"
    assert "after 301 batches" in found["message"]
    # Where both stand is told with it.
    assert "no rule knows why" not in watched.err
    assert [rank["steps"] for rank in watched.report["ranks"]] == [301, 301]


def test_a_rank_in_a_call_that_keeps_the_lock_is_found_all_the_same(tmp_path: Path) -> None:
    keeps = "        if dist.get_rank() == 1:\n            __import__('ctypes').PyDLL(None).sleep(90)\n"
    watched = hang(tmp_path, TRAINING + keeps)
    line = line_of(TRAINING + keeps, "sleep")
    assert f"Rank 1 does not answer; it is at train.py:{line}" in " ".join(watched.err.split())
    first, second = watched.report["hang"]
    assert (second["rank"], second["line"], second["silence"]) == (1, line, "does not answer")
    assert watched.report["hang_verdict"] == {"kind": "interpreter stuck", "ranks": [1]}
    # In the second step DDP may wait in its forward, too, for it deals its buckets out anew.
    assert first["line"] in (line_of(TRAINING, "model(x)"), line_of(TRAINING, "backward"))
    # A rank that is busy with something of its own proves no mistake.
    assert watched.codes == set()


def test_a_rank_whose_calls_keep_the_lock_again_and_again_is_not_stuck(tmp_path: Path) -> None:
    keeps = "        while dist.get_rank() == 1:\n            __import__('ctypes').PyDLL(None).sleep(2)\n"
    watched = hang(tmp_path, TRAINING + keeps)
    assert watched.report["hang_verdict"] == {"kind": "rank missing", "ranks": [1]}
    assert [each["silence"] for each in watched.report["hang"]] == ["", ""]


KEEPS_THE_LOCK = """
import collections, ctypes, itertools
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
rank = dist.get_rank()
dist.destroy_process_group()
mutex, library = ctypes.create_string_buffer(64), ctypes.PyDLL(None)
if rank in STUCK:
    library.pthread_mutex_lock(mutex)
    library.pthread_mutex_lock(mutex)  # for ever
"""
"""As PyTorch itself does, where it joins the threads of a group without letting Python go on."""


@pytest.mark.parametrize("stuck", [(0,), (0, 1)])
def test_a_call_that_keeps_the_lock_is_told_where_nobody_waits(stuck: tuple[int, ...], tmp_path: Path) -> None:
    """The other rank is at its end, or stands in such a call, too."""
    program = KEEPS_THE_LOCK.replace("STUCK", str(stuck))
    watched = hang(tmp_path, program)
    line = line_of(program, "for ever")
    assert watched.report["hang_verdict"] == {"kind": "interpreter stuck", "ranks": list(stuck)}
    told = {each["rank"]: (each["line"], each["silence"]) for each in watched.report["hang"]}
    assert told == {rank: (line, "does not answer") if rank in stuck else (None, "has ended") for rank in (0, 1)}
    assert f"train.py:{line}" in watched.err
    asleep = {each["kernel"] for each in watched.report["hang"] if each["silence"] == "does not answer"}
    # Some systems do not tell.
    assert all("futex" in each for each in asleep if each)
    assert watched.codes == set()


@pytest.mark.slow
def test_a_call_that_computes_and_keeps_the_lock_is_left_alone(tmp_path: Path) -> None:
    """It does something, and nobody waits for it."""
    computes = "collections.deque(itertools.repeat(0, 2_000_000_000), maxlen=0)"
    program = KEEPS_THE_LOCK.replace("STUCK", "(0,)").replace("library.pthread_mutex_lock(mutex)", computes, 1)
    program = program.replace("    library.pthread_mutex_lock(mutex)  # for ever\n", "")
    (tmp_path / "train.py").write_text(program)
    watched = watch(tmp_path, "--nproc-per-node", "2", "--hang-after", "3", "--kill-on-hang", "train.py")
    assert (watched.status, watched.report["hang_verdict"]) == (0, None)


LOCKED = """
import os
import threading
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()


def load():
    lock = threading.Lock()
    lock.acquire()
    lock.acquire()


def save():
    read, write = os.pipe()
    os.read(read, 1)


save() if dist.get_rank() == 1 else load()
"""


def test_ranks_that_stand_still_without_any_collective_are_told(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(LOCKED)
    watched = watch(tmp_path, "--nproc-per-node", "3", "--hang-after", "8", "--kill-on-hang", "train.py")
    assert watched.report["hang_verdict"] == {"kind": "no collective open", "ranks": [1]}
    read, lock = line_of(LOCKED, "os.read("), line_of(LOCKED, "lock.acquire()")
    assert [each["line"] for each in watched.report["hang"]] == [lock + 1, read, lock + 1]
    assert "rank 1 at another line than most" in " ".join(watched.err.split()).replace("Rank", "rank")


def test_ranks_that_are_at_work_without_any_collective_are_left_alone(tmp_path: Path) -> None:
    """One reads, the other computes, for much longer than is waited."""
    busy = """
import os, time
import torch.distributed as dist
dist.init_process_group("gloo")
dist.barrier()
until = time.monotonic() + 8
while time.monotonic() < until:
    if dist.get_rank():
        sum(range(10**5))
    else:
        open("/dev/zero", "rb").read(10**6)
        time.sleep(0.2)
dist.barrier()
time.sleep(0.5)
"""
    (tmp_path / "train.py").write_text(busy)
    watched = watch(tmp_path, "--nproc-per-node", "2", "--hang-after", "4", "--kill-on-hang", "train.py")
    assert (watched.status, watched.report["hang"]) == (0, [])


def test_a_rank_that_computes_for_long_is_told_as_one_that_may_be_slow(tmp_path: Path) -> None:
    computes = "        if epoch == 1 and dist.get_rank() == 1:\n            while True: sum(range(10**5))\n"
    (tmp_path / "train.py").write_text(TRAINING + computes)
    watched = watch(tmp_path, "--nproc-per-node", "2", "--hang-after", "4", "--kill-on-hang", "train.py")
    assert watched.report["hang_verdict"] == {"kind": "rank missing", "ranks": [1]}
    assert "but computes, and may only be slow" in " ".join(watched.err.split())


GETS_ON = """
import os
import socket
import time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
dist.init_process_group("gloo")
dist.barrier()


def evaluate():
    until = time.monotonic() + 8
    for batch in DataLoader(range(10**9), batch_size=1):
        time.sleep(0.02)
        if time.monotonic() > until:
            break


def download():
    with open("part.bin", "wb") as file:
        for _ in range(40):
            file.seek(0)
            file.write(bytes(4 << 20))
            file.flush()
            time.sleep(0.2)


def save():
    with open("model.bin", "wb", buffering=0) as file:
        for _ in range(40):
            file.write(bytes(60_000))
            time.sleep(0.2)


def trickle():
    with open("model.bin", "wb", buffering=0) as file:
        for _ in range(40):
            file.write(bytes(12_000))
            time.sleep(0.2)


def upload():
    sink = socket.create_server(("127.0.0.1", 0))
    if os.fork() == 0:
        there, _ = sink.accept()
        while there.recv(1 << 16):
            pass
        os._exit(0)
    with socket.create_connection(sink.getsockname()) as connection:
        for _ in range(40):
            connection.sendall(bytes(60_000))
            time.sleep(0.2)


if dist.get_rank() == 0:
    GETS_ON
STOPS
dist.barrier()
time.sleep(0.5)
"""


def test_a_rank_that_gets_on_while_the_others_wait_is_left_alone(tmp_path: Path) -> None:
    """Each time for twice as long as is waited: it is given batches, or reads and writes, also over a slow network."""
    works = "evaluate(), download(), save(), trickle(), upload()"
    (tmp_path / "train.py").write_text(GETS_ON.replace("GETS_ON", works).replace("STOPS", ""))
    watched = watch(tmp_path, "--nproc-per-node", "2", "--hang-after", "4", "--kill-on-hang", "train.py")
    assert (watched.status, watched.report["hang"]) == (0, [])


RESTS = """
import time
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader
dist.init_process_group("gloo")


class Fetched:
    def __len__(self):
        return 2

    def __getitem__(self, number):
        time.sleep(5)
        return number


if dist.get_rank() == 0:
    for batch in DataLoader(Fetched(), num_workers=WORKERS):
        print(batch)
dist.barrier()
"""


@pytest.mark.skipif(not ON_LINUX or sys.version_info < (3, 11), reason="the kernel does not tell how long it sleeps")
@pytest.mark.parametrize("workers", [0, 1])
def test_a_rank_that_sleeps_for_a_time_is_left_alone(workers: int, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(RESTS.replace("WORKERS", str(workers)))
    watched = watch(tmp_path, "--nproc-per-node", "2", "--hang-after", "3", "--kill-on-hang", "train.py")
    assert (watched.status, watched.report["hang"]) == (0, [])


@pytest.mark.skipif(not ON_LINUX, reason="stacks come by a signal")
def test_the_line_of_a_worker_that_its_rank_waits_for(tmp_path: Path) -> None:
    program = RESTS.replace("WORKERS", "1").replace("time.sleep(5)", "__import__('threading').Event().wait()")
    watched = hang(tmp_path, program)
    at = line_of(program, "for batch in")
    told = f"loader at train.py:{at}; one of them is at train.py:{line_of(program, 'Event()')}."
    assert told in " ".join(watched.err.split())


SERVICE = """    if os.fork() == 0:
        while True:
            trickle()
    time.sleep(99)"""
"""As those that look at the machine while the rank trains."""


@pytest.mark.parametrize("stops", ["    time.sleep(99)", SERVICE])
def test_a_rank_that_does_not_get_on_any_more_is_told(stops: str, tmp_path: Path) -> None:
    program = GETS_ON.replace("GETS_ON", "evaluate()").replace("STOPS", stops)
    (tmp_path / "train.py").write_text(program)
    watched = watch(tmp_path, "--nproc-per-node", "2", "--hang-after", "4", "--kill-on-hang", "train.py")
    assert watched.report["hang_verdict"] == {"kind": "rank missing", "ranks": [0]}
    assert [each["line"] for each in watched.report["hang"]] == [
        line_of(program, "sleep(99)"),
        line_of(program, "sleep(99)") + 1,
    ]
    # Eight seconds of work, four without, and what a machine with much to do adds.
    assert watched.report["seconds"] < 40


OTHER_NODE = """
import json, os, socket, subprocess, sys, threading, time
import torch
import torch.distributed as dist
rank = int(sys.argv[1]) if len(sys.argv) > 1 else 0
if rank == 0:
    other = subprocess.Popen([sys.executable, "-I", __file__, "1"])
dist.init_process_group("gloo", "file://" + os.path.abspath("meet"), rank=rank, world_size=2)
dist.all_reduce(torch.ones(1))
def answer():
    ranks = [{"rank": r, "host": f"node{r}", "pid": 7, "collective_counts": {"AllReduce": 2 - r}} for r in range(2)]
    told = {"communicators": [{"size": 2, "ranks": ranks, "missing_ranks": []}]}
    while True:
        line, _ = server.accept()
        with line:
            if line.recv(4096):
                line.sendall(b"OK\\nOK\\n" + json.dumps(told).encode())
if rank == 0:
    SETS
    server = socket.create_server(("localhost", int(os.environ["NCCL_RAS_ADDR"].rpartition(":")[2])))
    threading.Thread(target=answer, daemon=True).start()
    dist.all_reduce(torch.ones(1))
else:
    time.sleep(60)
"""
"""Rank 1 is a process that is not watched, as if it were on another node; NCCL's RAS service is a stand-in."""


@pytest.mark.skipif(not ON_LINUX, reason="whose port it is, is asked of Linux")
@pytest.mark.parametrize("by_itself", [False, True])
def test_a_rank_on_another_node_is_named_by_nccl(
    by_itself: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rank was started with the variable that says where the service listens, or has set it itself."""
    with socket.create_server(("localhost", 0)) as free:
        port = free.getsockname()[1]
    sets = f'os.environ["NCCL_RAS_ADDR"] = "localhost:{port}"' if by_itself else ""
    if not by_itself:
        monkeypatch.setenv("NCCL_RAS_ADDR", f"localhost:{port}")
    (tmp_path / "train.py").write_text(OTHER_NODE.replace("SETS", sets))
    watched = watch(tmp_path, "--hang-after", "8", "--kill-on-hang", "train.py", cold=not by_itself)
    assert watched.report["hang_verdict"] == {"kind": "rank missing", "ranks": [1]}
    assert "Rank 1 has called AllReduce 1 times, others 2 times, on node1 (process 7)." in watched.err


def test_a_rank_that_was_stopped_is_named(tmp_path: Path) -> None:
    stops = "        if dist.get_rank() == 1:\n            os.kill(os.getpid(), 19)\n"
    watched = hang(tmp_path, TRAINING + stops)
    assert "Rank 1 is stopped." in watched.err
    assert watched.codes == set()


@pytest.mark.skipif(not ON_LINUX, reason="real-time signals are Linux's")
def test_a_process_that_does_not_expect_the_signal_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / f"stack-{os.getpid()}.txt"
    path.touch()
    assert signal.getsignal(SIGNAL) is signal.SIG_DFL
    # It would end this process.
    assert stack_of(os.getpid(), tmp_path) == []
    with path.open() as held:
        assert stack_of(os.getpid(), tmp_path) == []
        assert not held.closed
