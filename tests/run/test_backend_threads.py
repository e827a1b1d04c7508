"""The process ends when the threads of its backend have put their work down."""

import ctypes
import hashlib
import os
import sys
import threading
import time

import pytest

_SET_NAME = 15


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="threads are found in /proc")
@pytest.mark.parametrize("name", [b"pt_gloo_runloop", None], ids=["named", "as the process"])
def test_a_thread_at_work_is_waited_for_and_one_that_waits_is_left(
    name: bytes | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Each worker of pytest imports this file, and one loads torch for it.
    from gpudoctor.run.instruments import backend_threads

    # On a loaded machine the work below takes longer than an ending process may wait.
    monkeypatch.setattr(backend_threads, "_LOOKS", 100_000)
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
    backend_threads.let_backends_rest()
    assert done
    assert not rest.is_set()
    rest.set()
    thread.join()
    # Python has ended the thread a moment before the machine does, and the next test looks for names.
    while os.path.exists(f"/proc/self/task/{thread.native_id}"):
        time.sleep(0.001)
