"""Real runs of two ranks, shared by the tests: starting them takes seconds."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gpudoctor.probe.results import Check, ProbeReport
from gpudoctor.ranks.process_tree import ON_LINUX
from tests.support import warm
from tests.support.installs import require_torch


@pytest.fixture(scope="session")
def real_ranks() -> None:
    """Skips what starts ranks where there can be none."""
    require_torch()
    if not ON_LINUX:
        pytest.skip("ranks are watched by /proc")


@pytest.fixture(scope="session")
def healthy(repository: Path, real_ranks: None) -> dict[str, Any]:
    """The JSON of `gpudoctor probe` on the CPU of this machine, whatever GPUs it has."""
    ended = probe(repository, "--output-format", "json", cold=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def probe(
    repository: Path, *arguments: str, cold: bool = False, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, without GPUs; in a process that has torch loaded, unless it is to be cold."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RANK", "WORLD_SIZE", "MASTER"))}
    path = os.pathsep.join([str(repository), str(repository / "rules")])
    full = {**kept, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", **environment}
    command = ["-m", "gpudoctor", "probe", *arguments]
    if not cold:
        return warm.run(command, env=full)
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, env=full, check=False
    )


def named(report: ProbeReport, name: str) -> Check:
    """The one check of this name."""
    (check,) = [check for check in report.checks if check.name == name]
    return check
