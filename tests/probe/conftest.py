"""Real runs of two ranks, shared by the tests: starting them takes seconds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import pytest

from gpudoctor.probe import inventory
from gpudoctor.probe.options import Wishes
from gpudoctor.probe.results import Fact, Machine
from gpudoctor.probe.run_probe import examine
from gpudoctor.ranks.process_tree import ON_LINUX
from tests.support import probe_faults as faults

if TYPE_CHECKING:
    from pathlib import Path

    from gpudoctor.probe.results import Check, Report


@pytest.fixture(scope="session")
def real_ranks() -> None:
    """Skips what starts ranks where there can be none."""
    pytest.importorskip("torch", reason="torch is not installed")
    if not ON_LINUX:
        pytest.skip("ranks are watched by /proc")


@pytest.fixture(scope="session")
def healthy(repository: Path, real_ranks: None) -> dict[str, Any]:
    """The JSON of `gpudoctor probe` on the CPU of this machine, whatever GPUs it has."""
    ended = probe(repository, "--output-format", "json")
    assert ended.returncode == 0, ended.stdout + ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def probe(repository: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command as a user does, without GPUs."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("RANK", "WORLD_SIZE", "MASTER"))}
    path = os.pathsep.join([str(repository), str(repository / "rules")])
    return subprocess.run(
        [sys.executable, "-m", "gpudoctor", "probe", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        env={**kept, "PYTHONPATH": path, "CUDA_VISIBLE_DEVICES": "", **environment},
        check=False,
    )


@pytest.fixture
def run_with(monkeypatch: pytest.MonkeyPatch, repository: Path, real_ranks: None) -> Iterator[Callable[..., Report]]:
    """Examine with faults on rank 1 in a stage; `only` names the stages to do."""

    def run(
        *injected: faults.Fault, stage: str = "", timeout: float = 60.0, only: tuple[str, ...] = (), **rest: Any
    ) -> Report:
        return examined(monkeypatch, repository, injected, stage, timeout, only or (stage,), **rest)

    return run


def examined(
    monkeypatch: pytest.MonkeyPatch,
    repository: Path,
    injected: tuple[faults.Fault, ...],
    stage: str,
    timeout: float,
    only: tuple[str, ...],
    **rest: Any,
) -> Report:
    """An examination in this process, whose rank 1 has these faults."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(repository), str(repository / "rules")]))
    # Asking torch for its view of the machine takes as long as the rest.
    machine = Machine("here", torch={"version": Fact("2"), "visible_gpus": Fact([])})
    monkeypatch.setattr(inventory, "take_stock", lambda: machine)
    for name, value in faults.variables(*injected, stage=stage).items():
        monkeypatch.setenv(name, value)
    return examine(Wishes(timeout=timeout, only=only, worker=faults.WORKER, **rest))


def named(report: Report, name: str) -> Check:
    """The one check of this name."""
    (check,) = [check for check in report.checks if check.name == name]
    return check
