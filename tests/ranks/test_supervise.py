"""Ranks that end, fail, stand still, work on for ever, and leave children behind."""

import ctypes
import os
import subprocess
import sys
import time

import pytest

from gpudoctor.ranks.process_tree import ON_LINUX, adopting_orphans, children, descendants
from tests.support.ranks import EndOfRank, Exit, RankLimits, Stillness, supervise

needs_proc = pytest.mark.skipif(not ON_LINUX, reason="standing still is read from /proc")

GUARDIAN = """
import subprocess, sys
from gpudoctor.ranks.process_tree import adopt_orphans
from tests.support.ranks import RankLimits, supervise
adopt_orphans()
stranger = subprocess.Popen(["sleep", "600"])
ranks = [subprocess.Popen([sys.executable, "-c", code], start_new_session=True).pid for code in sys.argv[1:]]
limits = RankLimits(deadline=20, still=20, after_failure=20)
print([each.status for each in supervise(ranks, limits, strangers=[stranger.pid])])
print("stranger lives", stranger.poll() is None)
stranger.kill()
stranger.wait()
"""


def start(code: str) -> int:
    with_group = subprocess.Popen([sys.executable, "-S", "-c", code], start_new_session=True, stderr=subprocess.DEVNULL)
    # The status is collected by what is tested; Popen is not to wait for it too.
    with_group.returncode = 0
    return with_group.pid


def limits(deadline: float = 30.0, still: float = 30.0, after_failure: float = 30.0) -> RankLimits:
    return RankLimits(deadline, still, after_failure)


def exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_ranks_that_end_by_themselves_keep_their_status() -> None:
    ranks = [start("pass"), start("raise SystemExit(3)"), start("import os; os.abort()")]
    assert supervise(ranks, limits()) == [
        Exit(EndOfRank.EXITED, 0),
        Exit(EndOfRank.EXITED, 3),
        Exit(EndOfRank.EXITED, -6),
    ]


def test_the_others_are_ended_soon_after_one_fails() -> None:
    ranks = [start("import time; time.sleep(600)"), start("raise SystemExit(1)")]
    began = time.monotonic()
    exits = supervise(ranks, limits(after_failure=0.3))
    assert exits == [Exit(EndOfRank.PEER_FAILED, -9), Exit(EndOfRank.EXITED, 1)]
    # Long before the first would end by itself.
    assert time.monotonic() - began < 120
    assert not any(map(exists, ranks))


@needs_proc
def test_a_group_that_does_nothing_stands_still() -> None:
    rank = start("import time; time.sleep(600)")
    assert supervise([rank], limits(still=0.6)) == [Exit(EndOfRank.STOOD_STILL, -9)]
    assert not exists(rank)


@needs_proc
def test_waking_up_a_hundred_times_a_second_is_no_work() -> None:
    # As threads do that keep connections alive. A main thread that waits for a core would be starved, and not still.
    lines = ("import threading, time", "def wake():", " while True: time.sleep(0.01)")
    rank = start("\n".join([*lines, "threading.Thread(target=wake).start()"]))
    assert supervise([rank], limits(deadline=120, still=1.0)) == [Exit(EndOfRank.STOOD_STILL, -9)]


def test_a_rank_that_works_has_until_the_deadline() -> None:
    rank = start("while True: pass")
    assert supervise([rank], limits(deadline=1.5, still=0.5)) == [Exit(EndOfRank.OUT_OF_TIME, -9)]


@needs_proc
def test_a_child_that_works_keeps_its_waiting_parent_alive() -> None:
    rank = start("import subprocess, sys; subprocess.run([sys.executable, '-S', '-c', 'while True: pass'])")
    try:
        limit = time.monotonic() + 60
        while not descendants(rank) and time.monotonic() < limit:
            time.sleep(0.02)
        assert len(descendants(rank)) == 1
        stillness = Stillness([rank])
        for _ in range(4):
            stillness.look()
            time.sleep(0.2)
        assert stillness.look() < 0.5
    finally:
        supervise([rank], limits(deadline=0.0))


@needs_proc
def test_orphans_in_other_groups_end_and_strangers_live() -> None:
    # One write a line: with PYTHONUNBUFFERED set, `print` writes the newline apart, and two processes share this pipe.
    leaves_a_child = (
        "import os, subprocess; os.write(1, b'%d\\n' % subprocess.Popen(['sleep', '600'], start_new_session=True).pid)"
    )
    run = subprocess.run(
        [sys.executable, "-c", GUARDIAN, leaves_a_child, leaves_a_child], capture_output=True, text=True, check=True
    )
    *orphans, statuses, stranger = run.stdout.splitlines()
    assert len(orphans) == 2
    # They are ended, and gone once the system has come to it.
    limit = time.monotonic() + 60
    while any(exists(int(pid)) for pid in orphans) and time.monotonic() < limit:
        time.sleep(0.02)
    assert not any(exists(int(pid)) for pid in orphans)
    assert (statuses, stranger) == ("[0, 0]", "stranger lives True")


@needs_proc
def test_children_of_a_process() -> None:
    child = subprocess.Popen(["sleep", "600"])
    try:
        assert child.pid in children(os.getpid())
    finally:
        child.kill()
        child.wait()
    assert child.pid not in children(os.getpid())


@needs_proc
def test_orphans_are_adopted_for_a_while_only() -> None:
    def is_reaper() -> int:
        answer = ctypes.c_int(-1)
        ctypes.CDLL(None).prctl(37, ctypes.byref(answer), 0, 0, 0)
        return answer.value

    before = is_reaper()
    with adopting_orphans():
        assert is_reaper() == 1
    assert is_reaper() == before
