"""Threads of gloo put their work down a moment after the call that waited for it has returned.

What they put down holds objects of Python. Once Python ends, it ends each thread that asks for its lock, and a thread
of C++ that is ended in a destructor takes the process with it (`terminate called without an active exception`): seen
in PyTorch alone, on a machine with much else to do. A group that is destroyed waits for them with that lock. So the
process waits for them before it ends, and before it destroys a group.
"""

from __future__ import annotations

import os
import time

_TASKS = "/proc/self/task"
_NAME = "pt_gloo_runloop"
_LOOKS, _BETWEEN_S = 500, 0.001


def let_backends_rest() -> None:
    """Wait, with Python unlocked, until each thread of gloo waits for its next work; at most a second or so."""
    names = {thread: _read(thread, "comm") for thread in _tasks()}
    threads = [thread for thread, name in names.items() if name.strip() == _NAME]
    if not threads:
        # Before torch 2.11 they have no name of their own.
        own = str(os.getpid())
        threads = [thread for thread, name in names.items() if thread != own and name == names.get(own)]
    before = None
    for _ in range(_LOOKS if threads else 0):
        now = [_read(thread, "schedstat") for thread in threads]
        # Who waits for Python gets it while this thread sleeps, and has been running after that.
        if now == before and not any(_is_runnable(thread) for thread in threads):
            return
        before = now
        time.sleep(_BETWEEN_S)


def _tasks() -> list[str]:
    try:
        return os.listdir(_TASKS)
    except OSError:
        return []


def _is_runnable(thread: str) -> bool:
    # Behind the name, in which there may be anything.
    return _read(thread, "stat").rpartition(")")[2].split()[:1] == ["R"]


def _read(thread: str, what: str) -> str:
    try:
        with open(f"{_TASKS}/{thread}/{what}", encoding="utf-8", errors="replace") as file:
            return file.read()
    except OSError:
        return ""
