"""What all parts have in common: where they run, and how they tell what they find out."""

import json
import math
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Protocol

ROOT = Path(__file__).resolve().parents[2]
MOST_TEXT = 4000
"""Characters of an output that are kept, from its end."""

DONE = "done"
"""The name under which a part tells its steps."""

Tell = Callable[..., None]
"""`tell("name", figure=1.0)` keeps facts under a name, at once."""


class Here(NamedTuple):
    """Where a part runs: a folder for what it writes, the device, how many GPUs there are, and the `time.monotonic()`
    at which it ends."""

    folder: Path
    device: str = "cuda"
    gpus: int = 1
    until: float = math.inf

    @property
    def left(self) -> float:
        """Seconds that are left for it."""
        return max(0.0, self.until - time.monotonic())

    @property
    def rehearsal(self) -> bool:
        """There is no GPU: small sizes on the CPU show that the part runs to its end, and nothing else."""
        return self.device == "cpu"


class Step(NamedTuple):
    """Something that a part looks at. It is left out where fewer seconds than `least` are left."""

    name: str
    least: float
    look: Callable[[Tell, Here], None]


class Part(Protocol):
    """A module of this package that examines something, one step after the other; after so many seconds it hangs."""

    ASKS: str
    SECONDS: float
    GPUS: int
    STEPS: tuple[Step, ...]


class Ended(NamedTuple):
    """How a program ended: its exit code (None where it was ended by us), and what it wrote."""

    status: int | None
    out: str
    err: str
    seconds: float


def environment(**more: str) -> dict[str, str]:
    """What this checkout's programs are started with."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "rules"), os.environ.get("PYTHONPATH", "")])
    return {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "1", **more}


def run(command: Sequence[str], seconds: float, variables: Mapping[str, str] | None = None) -> Ended:
    """Run a program to its end, or for so long; nothing of it is left behind."""
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        env=environment(**(variables or {})),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    status: int | None
    try:
        out, err = process.communicate(timeout=seconds)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        out, err = process.communicate()
        status = None
    return Ended(status, out[-MOST_TEXT:], err[-MOST_TEXT:], round(time.monotonic() - began, 2))


def python(code: str, seconds: float, variables: Mapping[str, str] | None = None) -> Ended:
    """Run a program of Python that is given as text."""
    return run([sys.executable, "-c", code], seconds, variables)


def gpudoctor(arguments: Sequence[str], seconds: float, variables: Mapping[str, str] | None = None) -> Ended:
    """Run gpudoctor from this checkout."""
    return run([sys.executable, "-m", "gpudoctor", *arguments], seconds, variables)


def launched(script: Path, ranks: int) -> list[str]:
    """The command that starts a script with torch's launcher on this node."""
    return [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}", str(script)]


def json_of(path: Path) -> dict[str, Any]:
    """What was written there; empty where nothing was."""
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found


def seconds_of(work: Callable[[], object], here: Here, rounds: int = 5) -> float:
    """Seconds that some work takes until the GPU has done it, too: the median of some rounds after a first one."""
    import torch

    synchronize = torch.cuda.synchronize if here.device == "cuda" else lambda: None
    taken = []
    for _ in range(rounds + 1):
        synchronize()
        began = time.perf_counter()
        work()
        synchronize()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])
