"""Work that is dealt out to several processes."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

P = TypeVar("P")
R = TypeVar("R")


def processes_for(jobs: int, items: int, worth: int) -> int:
    """How many processes to start for so many items, where `worth` of them pay for one; 1 means none."""
    return max(min(jobs or os.cpu_count() or 1, items // worth), 1)


def in_processes(work: Callable[[P], R], parts: Sequence[P], jobs: int) -> Iterator[R]:
    """The results in the order of the parts, as far as they come. Each process works with a copy of `work`, and what
    that remembers of one part is there for the next.

    Where a process is killed, most likely for its memory, or this system has no semaphores, the rest is done here.
    """
    done = 0
    try:
        if jobs > 1:
            for result in _mapped(work, parts, jobs):
                yield result
                done += 1
    except (RuntimeError, OSError, NotImplementedError):
        pass
    for part in parts[done:]:
        yield work(part)


def _mapped(work: Callable[[P], R], parts: Sequence[P], jobs: int) -> Iterator[R]:
    # Imported late: most calls are about a few files.
    from concurrent.futures import ProcessPoolExecutor

    pool: ProcessPoolExecutor = ProcessPoolExecutor(jobs, initializer=_begin, initargs=(work,))
    try:
        yield from pool.map(_work, parts)
    finally:
        # After an interrupt, what has not begun must not begin.
        pool.shutdown(cancel_futures=True)


def _begin(work: Callable[[Any], Any]) -> None:
    import signal

    # An interrupt from the keyboard reaches all processes: the others need not show a traceback each.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    _work_of_this_process.append(work)


def _work(part: Any) -> Any:
    return _work_of_this_process[0](part)


_work_of_this_process: list[Callable[[Any], Any]] = []
"""In a process that does nothing else, its work; empty in the one that deals it out."""
