"""Examinations with real ranks, for the tests of the probe: each in a process that has torch loaded (`warm.py`)."""

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpudoctor.probe import inventory, rounds
from gpudoctor.probe.options import Wishes
from gpudoctor.probe.results import Fact, ProbedMachine, ProbeReport
from gpudoctor.probe.run_probe import examine
from gpudoctor.ranks.process_tree import descendants
from tests.support import fake_gpus, probe_faults, warm
from tests.support.fake_gpus import Sick
from tests.support.probe_faults import Fault
from tests.support.recordings import machine

ROOT = Path(__file__).resolve().parents[2]
# Asking torch for its view of the machine takes as long as the rest.
NO_GPU = ProbedMachine("here", torch={"version": Fact("2"), "visible_gpus": Fact([])})


def with_faults(*faults: Fault, stage: str = "", experiments: Any = None, **wishes: Any) -> ProbeReport:
    """What is reported of two ranks on the CPU of which rank 1 has these faults in a stage."""
    environment = {"CUDA_VISIBLE_DEVICES": "", **probe_faults.variables(*faults, stage=stage)}
    return _asked(NO_GPU, environment, experiments, {"worker": probe_faults.WORKER, "only": (stage,), **wishes})


def with_gpus(count: int, sick: Sick | None = None, gpu: int = 1, stage: str = "", **wishes: Any) -> ProbeReport:
    """What is reported of so many GPUs that nobody has, of which one is sick where that is said."""
    environment = fake_gpus.variables(count, sick, gpu, stage)
    gpus = machine(count, "NVIDIA H100 80GB HBM3", "NV18")
    return _asked(gpus, environment, None, {"worker": fake_gpus.WORKER, **wishes})


def _asked(
    found: ProbedMachine, environment: Mapping[str, str], experiments: Any, wishes: Mapping[str, Any]
) -> ProbeReport:
    path = os.pathsep.join([str(ROOT), str(ROOT / "rules")])
    given = (found, {"PYTHONPATH": path, **environment}, experiments, wishes)
    report: ProbeReport = warm.call("tests.support.probing:_examined", *given)
    return report


def _examined(
    found: ProbedMachine, environment: Mapping[str, str], experiments: Any, wishes: Mapping[str, Any]
) -> ProbeReport:
    """In a process of its own: examine, and see to it that nothing is left, neither processes nor files."""
    os.environ.update(environment)
    inventory.take_stock = lambda: found  # type: ignore[assignment]
    if experiments is not None:
        rounds.EXPERIMENTS = experiments
    with tempfile.TemporaryDirectory() as folder:
        tempfile.tempdir = folder
        report = examine(Wishes(**wishes))
        assert not descendants(os.getpid())
        left = [name for name in os.listdir(folder) if name.startswith("gpudoctor")]
        assert not left, left
    return report
