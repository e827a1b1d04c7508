"""Where a process of Python stands, asked from outside: it was not started by us, and nothing in it is changed.

`py-spy` holds it for a moment and reads the stack out of its memory, if it is installed and the system lets it. A
process that `gpudoctor run` has started writes its stack at a signal. What the kernel itself tells needs neither.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from gpudoctor.ranks.process_tree import busy_seconds, sleeps_in, state_of
from gpudoctor.record import dataclass
from gpudoctor.run.places import is_own
from gpudoctor.run.unresponsive import stack_of

RawFrame = tuple[str, int, str, bool]
"""File, line, function, and whether that is the user's own code."""
_PATIENCE = 20.0
_STATES = {"R": "runs", "S": "sleeps", "D": "waits for a device or a file system", "T": "is stopped", "t": "is traced"}


@dataclass(frozen=True)
class OutsideView:
    """What is seen of a process from outside. `stack` is innermost first; where it is empty, `why_not` says why and
    what would help. `busy` is the share of one core that it took, `kernel` the function of the kernel it sleeps in."""

    state: str
    kernel: str
    busy: float
    stack: tuple[RawFrame, ...]
    why_not: str = ""

    @property
    def in_words(self) -> str:
        """What the kernel tells, as part of a sentence."""
        inside = f" in {self.kernel} of the kernel" if self.kernel else ""
        return f"{_STATES.get(self.state, 'runs')}{inside}, at {self.busy:.0%} of a core"


def seen_from_outside(pid: int, seconds: float, recording: Path | None = None) -> OutsideView:
    """Look at one process for so long. `recording` is the folder to which it was told to write, where that is known."""
    began, before = time.monotonic(), busy_seconds(pid)
    stack, why_not = _stack(pid)
    if not stack and recording is not None:
        stack = tuple(stack_of(pid, recording))
    time.sleep(max(0.0, seconds - (time.monotonic() - began)))
    busy = (busy_seconds(pid) - before) / (time.monotonic() - began)
    return OutsideView(state_of(pid), sleeps_in(pid), busy, stack, "" if stack else why_not)


def _stack(pid: int) -> tuple[tuple[RawFrame, ...], str]:
    tool = _py_spy()
    if not tool:
        return (), "stacks are read with py-spy, which is not installed: `pip install py-spy`"
    try:
        ended = subprocess.run(
            [tool, "dump", "--json", "--pid", str(pid)], capture_output=True, text=True, timeout=_PATIENCE, check=False
        )
        if ended.returncode == 0:
            return _main_thread(json.loads(ended.stdout), pid), ""
    except (subprocess.TimeoutExpired, ValueError, KeyError, OSError) as error:
        return (), f"py-spy failed ({type(error).__name__})"
    said = next(iter(reversed(ended.stderr.strip().splitlines())), "").removeprefix("Error: ")
    if "ermission" in ended.stderr or "not permitted" in ended.stderr:
        return (), (
            "py-spy may not read it: run this as root, or in a container with `--cap-add SYS_PTRACE`, or after "
            "`echo 0 | sudo tee /proc/sys/kernel/yama/ptrace_scope`"
        )
    return (), f"py-spy failed: {said or ended.returncode}"


def _py_spy() -> str:
    """Beside this Python, or in the path; empty where it is nowhere."""
    beside = os.path.join(os.path.dirname(sys.executable), "py-spy")
    return beside if os.access(beside, os.X_OK) else shutil.which("py-spy") or ""


def _main_thread(threads: list[dict[str, object]], pid: int) -> tuple[RawFrame, ...]:
    main = next((each for each in threads if each.get("os_thread_id") == pid), threads[0] if threads else None)
    frames = main["frames"] if main else []
    assert isinstance(frames, list)
    # py-spy may name a file as it is in the process's own root; that is where we are, mostly.
    return tuple((each["filename"], int(each["line"]), each["name"], _owned(each["filename"])) for each in frames)


def _owned(path: str) -> bool:
    """The user's code. Its Python may be another one than ours."""
    return is_own(path) and not any(part in path for part in ("/dist-packages/", "/lib/python3"))
