"""Until when processes sleep, and which sleeps are no standstill."""

import os
import platform
import subprocess
import sys
import time

import pytest

from gpudoctor.ranks import kernel_sleep
from gpudoctor.ranks.kernel_sleep import LongSleeps, wakes_at
from gpudoctor.ranks.process_tree import ON_LINUX


@pytest.mark.skipif(
    not ON_LINUX or sys.version_info < (3, 11) or platform.machine() not in ("x86_64", "aarch64"),
    reason="elsewhere `time.sleep` is another call of the kernel",
)
def test_when_a_process_wakes_up() -> None:
    began = time.monotonic()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as sleeper:
        while (until := wakes_at(sleeper.pid)) is None and sleeper.poll() is None:
            time.sleep(0.01)
        sleeper.kill()
    assert until is not None
    assert 600 < until - began < 600 + (time.monotonic() - began)


def test_who_does_not_sleep_or_has_ended_has_no_such_time() -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL) as waits:
        assert wakes_at(waits.pid) is None
    assert wakes_at(waits.pid) is None
    assert wakes_at(os.getpid()) is None


@pytest.mark.parametrize(
    ("looks", "long"),
    [
        # When it was looked at, and until when it slept: with a patience of 30 seconds.
        ([(15, 40), (26, 40)], True),
        ([(26, 50)], True),
        # A loop that asks every ten seconds whether something has come.
        ([(15, 21), (26, 31), (31.5, 41)], False),
        ([(15, None), (26, 31)], False),
        # It does not come in time.
        ([(15, 600), (26, 600)], False),
        ([(15, 40), (26, None)], False),
    ],
)
def test_a_sleep_on_purpose(
    looks: list[tuple[float, float | None]], long: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps = LongSleeps(30, {})
    found = []
    for at, until in looks:
        monkeypatch.setattr(kernel_sleep, "wakes_at", lambda pid, until=until: until)
        found.append(sleeps.has(7, at))
    assert found[-1] is long
