"""The process ends when the threads of its backend have put their work down."""

from __future__ import annotations

import ctypes
import hashlib
import sys
import threading

import pytest

_SET_NAME = 15


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="threads are found in /proc")
@pytest.mark.parametrize("name", [b"pt_gloo_runloop", None], ids=["named", "as the process"])
def test_a_thread_at_work_is_waited_for_and_one_that_waits_is_left(name: bytes | None) -> None:
    # Each worker of pytest imports this file, and one loads torch for it.
    from gpudoctor.run.instruments.backend_threads import let_backends_rest

    begun, rest, done = threading.Event(), threading.Event(), []

    def run() -> None:
        if name:
            ctypes.CDLL(None).prctl(_SET_NAME, name, 0, 0, 0)
        begun.set()
        # Both work without Python's lock.
        for _ in range(5):
            hashlib.pbkdf2_hmac("sha256", b"", b"", 50_000)
        done.append(1)
        rest.wait()

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    let_backends_rest()
    assert done
    assert not rest.is_set()
    rest.set()
    thread.join()
