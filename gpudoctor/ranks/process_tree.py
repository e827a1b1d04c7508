"""Process trees: who belongs to one, whether it still works, and how to end all of it.

Standing still is read from /proc, so it is only known on Linux; elsewhere a tree counts as working.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

ON_LINUX = sys.platform.startswith("linux")
PROC = Path("/proc")

_LOOKS_FOR_NONE = 2
_PATIENCE = 5.0
"""Seconds."""
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37


def adopt_orphans() -> None:
    """Make this process the parent of every descendant whose own parent dies, so that none is lost from sight."""
    if ON_LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


@contextlib.contextmanager
def adopting_orphans() -> Iterator[None]:
    """Adopt orphans for a while: later ones are not ours to reap, and would stay behind as zombies."""
    before = ctypes.c_int(0)
    if ON_LINUX:
        ctypes.CDLL(None).prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(before), 0, 0, 0)
    adopt_orphans()
    try:
        yield
    finally:
        if ON_LINUX:
            ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, before.value, 0, 0, 0)


def die_with_parent() -> None:
    """Ask the kernel to kill this process when its parent ends."""
    if ON_LINUX:
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)


def children(pid: int) -> list[int]:
    """The processes whose parent is `pid`, those that have ended and wait to be reaped among them."""
    return [int(child) for task in _entries(PROC / str(pid) / "task") for child in _read(task / "children").split()]


def descendants(pid: int) -> list[int]:
    """The children of `pid`, their children, and so on."""
    found: list[int] = []
    for child in children(pid):
        found += [child, *descendants(child)]
    return found


def state_of(pid: int) -> str:
    """The letter that the kernel gives its state (`R` runs, `S` sleeps, `T` is stopped); empty where it has ended."""
    letter = _read(PROC / str(pid) / "stat").rpartition(")")[2][1:2]
    return "" if letter in "ZX" else letter


def sleeps_in(pid: int) -> str:
    """The function of the kernel in which its main thread sleeps; empty where it runs, or that is not to be seen."""
    found = _read(PROC / str(pid) / "wchan").strip()
    return "" if found == "0" else found


def busy_seconds(pid: int) -> float:
    """For how long `pid` has worked so far, or would have worked had a core been free for its main thread.

    A process that is starved by its neighbours has not stopped. Only the main thread's wait for a core counts: the
    threads that keep connections alive wake up many times a second, and do nothing then.
    """
    nanoseconds = 0
    for task in _entries(PROC / str(pid) / "task"):
        running, _, rest = _read(task / "schedstat").partition(" ")
        nanoseconds += int(running or 0)
        if task.name == str(pid):
            nanoseconds += int(rest.split()[0]) if rest else 0
    return nanoseconds / 1e9


def bytes_moved(pid: int) -> int:
    """What `pid` has read and written so far, files and pipes together; 0 where that is not to be seen."""
    rows = [line.split() for line in _read(PROC / str(pid) / "io").splitlines()]
    return sum(int(row[1]) for row in rows if row[0] in ("rchar:", "wchar:"))


def kill_trees(roots: Iterable[int]) -> set[int]:
    """Kill `roots`, the process groups they lead and all their descendants; return who was alive.

    Reaping is left to the parent. Call again until nobody is left: a process may fork while it is being killed.
    """
    leaders = tuple(roots)
    everybody = {pid for leader in leaders for pid in (leader, *descendants(leader))}
    for leader in leaders:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(leader, signal.SIGKILL)
    return {pid for pid in everybody if _kill(pid)}


def _kill(pid: int) -> bool:
    """Kill one process; False if there is none that may be killed."""
    try:
        os.kill(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _read(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def end_all(running: Iterable[int], strangers: set[int]) -> None:
    """Kill and reap the ranks that still run and all children this process has adopted from them."""
    left = set(running)
    deadline = time.monotonic() + _PATIENCE
    # Killed parents leave children, which come to us as orphans: again until none is left. While some come and go, the
    # kernel may leave others out of its list, so that one empty list says nothing yet.
    found_none = 0
    while found_none < _LOOKS_FOR_NONE:
        left |= set(children(os.getpid())) - strangers
        found_none = 0 if left else found_none + 1
        kill_trees(left)
        left -= {pid for pid, _ in reap(left)}
        if time.monotonic() > deadline:
            return
        time.sleep(0.01)


def reap(ranks: Iterable[int]) -> list[tuple[int, int]]:
    """Those that have ended, with their exit codes, or minus the signal that ended them."""
    ended = []
    for pid in ranks:
        done, status = os.waitpid(pid, os.WNOHANG)
        if done:
            ended.append((pid, os.waitstatus_to_exitcode(status)))
    return ended
